import { memo, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { ToggleButton } from 'react-aria-components/ToggleButton'
import { ToggleButtonGroup } from 'react-aria-components/ToggleButtonGroup'
import { LinkError, type Unsubscribe } from '../../contract/client.ts'
import type { ServiceRef } from '../../contract/commands.ts'
import type { LogChunk, LogRun } from '../../contract/log.ts'
import type { ServiceView } from '../../contract/service.ts'
import { Button } from '../components/buttons.tsx'
import { FindField } from '../components/fields.tsx'
import { classNames } from '../components/text.tsx'
import { emptyTail, found, type LogEntry, type LogTail, withChunk } from '../log.ts'
import { useApp, useConnected, useLink } from '../store.ts'
import { logWords } from '../words/services.ts'
import styles from './log-view.module.css'

/** What the server prints. It follows the newest line until a person scrolls up, and again from the end on. */
export function LogView({ service }: { readonly service: ServiceView }) {
  const [run, setRun] = useState<LogRun>('current')
  const [text, setText] = useState('')
  return (
    <section className={styles['log']} aria-label={logWords.title}>
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
        text={text}
        onText={setText}
      />
    </section>
  )
}

/** Nearer to the end than this is at the end, in CSS pixels. */
const endTolerance = 16

interface TailProps {
  readonly service: ServiceView
  readonly run: LogRun
  /** What is searched for. */
  readonly text: string
  readonly onText: (text: string) => void
}

/** The lines of one run, or those of them that contain what is searched for; Escape ends the search. */
function Tail({ service, run, text, onText }: TailProps) {
  const { tail, hasFile, problem } = useLog({ namespace: service.namespace, name: service.name, pid: service.pid, run })
  /** The lines shown while a person reads further up; undefined while the view follows. */
  const [held, setHeld] = useState<LogTail>()
  const box = useRef<HTMLDivElement>(null)
  const { entries, nextId } = held ?? tail
  const shown = useMemo(() => found(entries, text), [entries, text])
  useLayoutEffect(() => {
    if (held === undefined && box.current !== null) box.current.scrollTop = box.current.scrollHeight
  }, [held, shown, problem])
  const nothing = run === 'previous' && !hasFile ? logWords.noPrevious : logWords.nothing
  return (
    <>
      <div className={styles['search']} role="search">
        <FindField label={logWords.search} placeholder={logWords.searchHint} text={text} onChange={onText} />
        <span className={styles['count']} role="status">
          {text !== '' && logWords.found(shown.length)}
        </span>
      </div>
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
        <LogLines entries={shown} />
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

/** Shows the file of a run in its folder; a page in a browser has no button for it. */
function RevealLog({ service, run }: { readonly service: ServiceView; readonly run: LogRun }) {
  const app = useApp()
  const [problem, setProblem] = useState<string>()
  if (app === undefined) return null
  const reveal = async () => {
    const { namespace, name } = service
    const reply = await app.revealLog({ service: { namespace, name }, run })
    setProblem(reply.ok ? undefined : reply.failure.message)
  }
  return (
    <>
      <Button look="plain" onPress={() => void reveal()}>
        {logWords.reveal}
      </Button>
      {problem !== undefined && (
        <span className={styles['problem']} role="alert">
          {problem}
        </span>
      )}
    </>
  )
}

/** The printed lines; only those that changed are drawn again. */
const LogLines = memo(({ entries }: { readonly entries: readonly LogEntry[] }) =>
  entries.map(({ id, kind, text }) => (
    <p key={id} className={styles[kind]}>
      {text}
    </p>
  )),
)

/** A stream that broke alone is opened again after this, in milliseconds. */
const retryMs = 2_000

/** One run of one service; `pid` because a process may have output where its predecessor had none. */
interface LogSource extends ServiceRef {
  readonly run: LogRun
  readonly pid: number | undefined
}

/** The end of a server's output and, for the current run, what it adds to it. One service and run per component. */
function useLog({ namespace, name, run, pid }: LogSource) {
  const link = useLink()
  const connected = useConnected()
  const known = useRef(emptyTail)
  const [tail, setTail] = useState(emptyTail)
  /** Whether there is such a run. */
  const [hasFile, setHasFile] = useState(false)
  /** Why there is no more, in a sentence. */
  const [problem, setProblem] = useState<string>()

  useEffect(() => {
    if (!connected) return
    const service = { namespace, name }
    let left = false
    let unsubscribe: Unsubscribe | undefined
    let retry: ReturnType<typeof setTimeout> | undefined
    const add = (chunk: LogChunk) => {
      if (left) return
      known.current = withChunk(known.current, chunk)
      setTail(known.current)
      setProblem(undefined)
    }
    const fail = (error: unknown) => {
      if (!(error instanceof LinkError)) throw error
      if (!left) setProblem(error.message)
    }
    const follow = (from: LogChunk['end']) => {
      if (run === 'current' && !left) {
        const end = (error: LinkError) => {
          fail(error)
          // With the agent gone too, the connection ends this effect first.
          if (error.code === 'gone' && !left) retry = setTimeout(() => follow(known.current.end ?? from), retryMs)
        }
        unsubscribe = link.stream({ name: 'log', service, from }, { next: add, end })
      }
    }
    if (known.current.end !== undefined) follow(known.current.end)
    else {
      link.query({ name: 'log', service, run }).then((chunk) => {
        add(chunk)
        if (!left) setHasFile(chunk.file !== undefined)
        follow(chunk.end)
      }, fail)
    }
    return () => {
      left = true
      unsubscribe?.()
      clearTimeout(retry)
    }
  }, [link, connected, namespace, name, run, pid])

  return { tail, hasFile, problem }
}
