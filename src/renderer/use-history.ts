import { useEffect, useRef, useState } from 'react'
import { LinkError } from '../contract/client.ts'
import { maxPage, type QueryInput } from '../contract/queries.ts'
import { type KnownHistory, withNewer, withOlder } from './history-pages.ts'
import { useLink, useSnapshot, useWindow } from './store.ts'

/** Asked for at first, and at each wish for more. */
const step = 50

/** What happened on this machine: the agent tells when there is something newer, and only that is asked for. */
export function useHistory() {
  const link = useLink()
  const connected = useWindow(({ connection }) => connection.state === 'live')
  const newestId = useSnapshot((snapshot) => snapshot.newestHistoryId)
  const known = useRef<KnownHistory>(undefined)
  const [history, setHistory] = useState<KnownHistory>()
  /** Why there is no more, in a sentence. */
  const [problem, setProblem] = useState<string>()

  const ask = (question: Omit<Extract<QueryInput, { name: 'history' }>, 'name'>, merge: typeof withNewer) => {
    link.query({ name: 'history', ...question }).then(
      (page) => {
        known.current = merge(known.current, page)
        setHistory(known.current)
        setProblem(undefined)
      },
      (error: unknown) => {
        if (!(error instanceof LinkError)) throw error
        setProblem(error.message)
      },
    )
  }

  useEffect(() => {
    if (!connected) return
    const missing = newestId - (known.current?.entries[0]?.id ?? 0)
    if (known.current !== undefined && missing === 0) return
    ask({ limit: known.current !== undefined && missing > 0 && missing <= maxPage ? missing : step }, withNewer)
  }, [link, connected, newestId])

  const more = () => {
    const before = known.current?.entries.at(-1)?.id
    if (before !== undefined) ask({ before, limit: step }, withOlder)
  }
  return { history, problem, more }
}
