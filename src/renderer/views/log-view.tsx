import { memo, useLayoutEffect, useRef, useState } from 'react'
import { ToggleButton } from 'react-aria-components/ToggleButton'
import { ToggleButtonGroup } from 'react-aria-components/ToggleButtonGroup'
import type { ServiceView } from '../../contract/service.ts'
import { Button } from '../components/button.tsx'
import { classNames } from '../components/class-names.ts'
import type { LogEntry, LogTail } from '../log-tail.ts'
import { type LogRun, useLog } from '../use-log.ts'
import styles from './log-view.module.css'

/** What the server prints. It follows the newest line until a person scrolls up, and again from the end on. */
export function LogView({ service }: { readonly service: ServiceView }) {
  const [run, setRun] = useState<LogRun>('current')
  return (
    <section className={styles['log']} aria-label="Log">
      <div className={styles['bar']}>
        <h3 className={styles['title']}>Log</h3>
        <ToggleButtonGroup
          aria-label="Run"
          className={classNames(styles['runs'])}
          selectionMode="single"
          disallowEmptySelection
          selectedKeys={[run]}
          onSelectionChange={(keys) => setRun(keys.has('previous') ? 'previous' : 'current')}
        >
          <ToggleButton id="current" className={classNames(styles['run'])}>
            This run
          </ToggleButton>
          <ToggleButton id="previous" className={classNames(styles['run'])}>
            Previous
          </ToggleButton>
        </ToggleButtonGroup>
      </div>
      <Tail key={run} service={service} run={run} />
    </section>
  )
}

/** Nearer to the end than this is at the end, in CSS pixels. */
const endTolerance = 16

function Tail({ service, run }: { readonly service: ServiceView; readonly run: LogRun }) {
  const { tail, problem } = useLog({ namespace: service.namespace, name: service.name, pid: service.pid, run })
  /** The lines shown while a person reads further up; undefined while the view follows. */
  const [held, setHeld] = useState<LogTail>()
  const box = useRef<HTMLDivElement>(null)
  const { entries, nextId } = held ?? tail
  useLayoutEffect(() => {
    if (held === undefined && box.current !== null) box.current.scrollTop = box.current.scrollHeight
  }, [held, tail])
  const missed = tail.nextId - nextId
  return (
    <>
      <div
        ref={box}
        className={styles['lines']}
        role="log"
        aria-live="off"
        aria-label="Output"
        tabIndex={0}
        onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
          const atEnd = scrollHeight - scrollTop - clientHeight <= endTolerance
          setHeld((before) => (atEnd ? undefined : (before ?? tail)))
        }}
      >
        <Lines entries={entries} />
        {entries.length === 0 && problem === undefined && <p className={styles['gap']}>Nothing was printed yet.</p>}
        {problem !== undefined && <p className={styles['gap']}>{problem}</p>}
      </div>
      {held !== undefined && (
        <div className={styles['paused']}>
          <span>{missed === 0 ? 'Paused' : `Paused · ${missed} new ${missed === 1 ? 'line' : 'lines'}`}</span>
          <Button onPress={() => setHeld(undefined)}>Follow</Button>
        </div>
      )}
    </>
  )
}

const Lines = memo(({ entries }: { readonly entries: readonly LogEntry[] }) =>
  entries.map(({ id, kind, text }) => (
    <p key={id} className={styles[kind]}>
      {text}
    </p>
  )),
)
