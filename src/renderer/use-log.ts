import { useEffect, useRef, useState } from 'react'
import { LinkError, type Unsubscribe } from '../contract/client.ts'
import type { ServiceRef } from '../contract/commands.ts'
import type { LogChunk, LogRun } from '../contract/log.ts'
import { emptyTail, withChunk } from './log-tail.ts'
import { useLink, useWindow } from './store.ts'

/** A stream that broke alone is opened again after this, in milliseconds. */
const retryMs = 2_000

/** One run of one service; `pid` because a process may have output where its predecessor had none. */
export interface LogSource extends ServiceRef {
  readonly run: LogRun
  readonly pid: number | undefined
}

/** The end of a server's output and, for the run that goes on, what it adds to it. Made for one service and run. */
export function useLog({ namespace, name, run, pid }: LogSource) {
  const link = useLink()
  const connected = useWindow(({ connection }) => connection.state === 'live')
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
