import { useLayoutEffect, useMemo, useRef, useState } from 'react'
import { ToggleButton } from 'react-aria-components/ToggleButton'
import { ToggleButtonGroup } from 'react-aria-components/ToggleButtonGroup'
import type { LogRun } from '../../contract/log.ts'
import type { ServiceView } from '../../contract/service.ts'
import { Button } from '../components/button.tsx'
import { classNames } from '../components/class-names.ts'
import { indexOf, type LogMatch, matchBeside, matchesIn, patternOf } from '../log-search.ts'
import type { LogTail } from '../log-tail.ts'
import { useLog } from '../use-log.ts'
import { logWords } from '../words/log.ts'
import { LogLines } from './log-lines.tsx'
import { LogSearchBar } from './log-search-bar.tsx'
import styles from './log-view.module.css'
import { RevealLog } from './reveal-log.tsx'

/** What the server prints. It follows the newest line until a person scrolls up, and again from the end on. */
export function LogView({ service }: { readonly service: ServiceView }) {
  const [run, setRun] = useState<LogRun>('current')
  const [text, setText] = useState('')
  const field = useRef<HTMLInputElement>(null)
  return (
    <section
      className={styles['log']}
      aria-label={logWords.title}
      onKeyDown={(event) => {
        if (event.key.toLowerCase() !== 'f' || !(event.metaKey || event.ctrlKey)) return
        event.preventDefault()
        field.current?.select()
      }}
    >
      <div className={styles['bar']}>
        <h3 className={styles['title']}>{logWords.title}</h3>
        <RevealLog service={service} run={run} />
        <ToggleButtonGroup
          aria-label={logWords.run}
          className={classNames(styles['runs'])}
          selectionMode="single"
          disallowEmptySelection
          selectedKeys={[run]}
          onSelectionChange={(keys) => setRun(keys.has('previous') ? 'previous' : 'current')}
        >
          <ToggleButton id="current" className={classNames(styles['run'])}>
            {logWords.current}
          </ToggleButton>
          <ToggleButton id="previous" className={classNames(styles['run'])}>
            {logWords.previous}
          </ToggleButton>
        </ToggleButtonGroup>
      </div>
      {/* With another process, another run is the previous one. */}
      <Tail
        key={run === 'current' ? run : `${run} ${service.pid}`}
        service={service}
        run={run}
        search={{ field, text, onText: setText }}
      />
    </section>
  )
}

/** Nearer to the end than this is at the end, in CSS pixels. */
const endTolerance = 16

interface TailProps {
  readonly service: ServiceView
  readonly run: LogRun
  readonly search: Pick<Parameters<typeof LogSearchBar>[0], 'field' | 'text' | 'onText'>
}

function Tail({ service, run, search }: TailProps) {
  const { tail, hasFile, problem } = useLog({ namespace: service.namespace, name: service.name, pid: service.pid, run })
  /** The lines shown while a person reads further up; undefined while the view follows. */
  const [held, setHeld] = useState<LogTail>()
  const [current, setCurrent] = useState<LogMatch>()
  const box = useRef<HTMLDivElement>(null)
  const { entries, nextId } = held ?? tail
  const pattern = useMemo(() => patternOf(search.text), [search.text])
  const matches = useMemo(() => (pattern === undefined ? undefined : matchesIn(entries, pattern)), [entries, pattern])
  const at = indexOf(matches ?? [], current)
  useLayoutEffect(() => {
    if (held === undefined && box.current !== null) box.current.scrollTop = box.current.scrollHeight
  }, [held, tail])
  useLayoutEffect(() => {
    if (current !== undefined) box.current?.querySelector('[data-current=true]')?.scrollIntoView({ block: 'nearest' })
  }, [current])
  const step = (direction: 1 | -1) => {
    const next = matchBeside(matches ?? [], current, direction)
    if (next === undefined) return
    setHeld(held ?? tail)
    setCurrent({ ...next })
  }
  const nothing = run === 'previous' && !hasFile ? logWords.noPrevious : logWords.nothing
  return (
    <>
      <LogSearchBar
        field={search.field}
        text={search.text}
        onText={(text) => {
          setCurrent(undefined)
          search.onText(text)
        }}
        found={matches && { count: matches.length, current: at === -1 ? undefined : at + 1 }}
        onStep={step}
      />
      <div
        ref={box}
        className={styles['lines']}
        role="log"
        aria-live="off"
        aria-label={logWords.output}
        tabIndex={0}
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
          const atEnd = scrollHeight - scrollTop - clientHeight <= endTolerance
          setHeld((before) => (atEnd ? undefined : (before ?? tail)))
        }}
      >
        <LogLines entries={entries} pattern={pattern} current={at === -1 ? undefined : current} />
        {(problem !== undefined || entries.length === 0) && <p className={styles['nothing']}>{problem ?? nothing}</p>}
      </div>
      {held !== undefined && (
        <div className={styles['paused']}>
          <span>{logWords.paused(tail.nextId - nextId)}</span>
          <Button onPress={() => setHeld(undefined)}>{logWords.follow}</Button>
        </div>
      )}
    </>
  )
}
