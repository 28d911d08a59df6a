import { useEffect, useRef, useState } from 'react'
import { LinkError } from '../contract/client.ts'
import { type KnownHistory, newerLimit, step, withNewer, withOlder } from './history-pages.ts'
import { useLink, useSnapshot, useWindow } from './store.ts'

/** What happened on this machine: the agent tells when there is something newer, and only that is asked for. */
export function useHistory() {
  const link = useLink()
  const connected = useWindow(({ connection }) => connection.state === 'live')
  const newestId = useSnapshot((snapshot) => snapshot.newestHistoryId)
  const known = useRef<KnownHistory>(undefined)
  const latestId = useRef(newestId)
  const wishes = useRef({ newer: false, older: false })
  const isAsking = useRef(false)
  const [history, setHistory] = useState<KnownHistory>()
  /** Why there is no more, in a sentence. */
  const [problem, setProblem] = useState<string>()

  /** One page after the other, so that none is put beside what it was not asked for. */
  const askWishes = async () => {
    if (isAsking.current) return
    isAsking.current = true
    try {
      while (wishes.current.newer || wishes.current.older) {
        const before = wishes.current.newer ? undefined : known.current?.entries.at(-1)?.id
        wishes.current[wishes.current.newer ? 'newer' : 'older'] = false
        const limit = before === undefined ? newerLimit(known.current, latestId.current) : step
        const page = await link.query({ name: 'history', limit, ...(before !== undefined && { before }) })
        known.current = (before === undefined ? withNewer : withOlder)(known.current, page)
        setHistory(known.current)
        setProblem(undefined)
      }
    } catch (error) {
      if (!(error instanceof LinkError)) throw error
      wishes.current.older = false
      setProblem(error.message)
    } finally {
      isAsking.current = false
    }
  }

  useEffect(() => {
    latestId.current = newestId
    if (!connected || (known.current !== undefined && known.current.entries[0]?.id === newestId)) return
    wishes.current.newer = true
    void askWishes()
  }, [link, connected, newestId])

  const more = () => {
    wishes.current.older = true
    void askWishes()
  }
  return { history, problem, more }
}
