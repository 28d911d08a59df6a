import { useCallback, useEffect, useEffectEvent, useRef, useState } from 'react'
import type { AppBridge, BridgeReply } from '../contract/app-bridge.ts'
import type { AppState } from '../contract/app-state.ts'
import { LinkError } from '../contract/client.ts'
import type { CommandInput } from '../contract/commands.ts'
import type { Answer, QueryInput, QueryName } from '../contract/queries.ts'
import { RepeatedQuestion } from './repeated-question.ts'
import { useConnected, useLink, useWindow } from './store.ts'

export interface Asked<N extends QueryName> {
  /** The last one, also while another is on its way. */
  readonly answer: Answer<N> | undefined
  /** Why there is no newer one: one sentence. */
  readonly problem: string | undefined
  /** The answer is one to this very question, and not to the one before. */
  readonly isCurrent: boolean
  /** Another answer is on its way, or soon asked for. */
  readonly isAsking: boolean
  /** Has it asked once more. */
  readonly again: () => void
}

interface Kept<N extends QueryName> extends Pick<Asked<N>, 'answer' | 'problem'> {
  /** The question that was answered, as text. */
  readonly of?: string
  /** The question and signs that were answered or failed last, as text. */
  readonly settled?: string
}

/**
 * The agent's answer to a query, asked again when one of `signs` changes: each says that the answer may have changed. Signs that change
 * all the time do not keep the answer from coming. Another query replaces the one before, which is withdrawn, as it is when its component
 * is unmounted.
 */
export function useAnswer<N extends QueryName>(
  query: Extract<QueryInput, { name: N }>,
  signs: readonly unknown[] = [],
): Asked<N> {
  const link = useLink()
  const connected = useConnected()
  const [kept, setKept] = useState<Kept<N>>({ answer: undefined, problem: undefined })
  const [wishes, setWishes] = useState(0)
  const question = useRef<RepeatedQuestion>(undefined)
  const text = JSON.stringify(query)
  const wish = JSON.stringify([query, signs, wishes])
  const ask = useEffectEvent(async (signal: AbortSignal) => {
    try {
      const answer = await link.query<N>(query, signal)
      if (!signal.aborted) setKept({ answer, problem: undefined, of: text, settled: wish })
    } catch (error) {
      if (!(error instanceof LinkError)) throw error
      if (!signal.aborted) setKept((before) => ({ ...before, problem: error.message, settled: wish }))
    }
  })
  const begin = useEffectEvent(
    (signal: AbortSignal) => new RepeatedQuestion({ isFirst: kept.settled === undefined }, () => ask(signal)),
  )
  useEffect(() => {
    if (!connected) return
    const leaving = new AbortController()
    question.current = begin(leaving.signal)
    return () => {
      leaving.abort()
      question.current?.end()
      question.current = undefined
    }
  }, [link, connected, text])
  useEffect(() => question.current?.ask(), [link, connected, wish])
  const { answer, problem, of, settled } = kept
  const again = () => setWishes((before) => before + 1)
  return { answer, problem, isCurrent: of === text, isAsking: connected && settled !== wish, again }
}

/** How often a person came back to the window: what they did elsewhere may have changed what is there. */
export function useReturns(): number {
  const [returns, setReturns] = useState(0)
  useEffect(() => {
    const count = () => setReturns((before) => before + 1)
    window.addEventListener('focus', count)
    return () => window.removeEventListener('focus', count)
  }, [])
  return returns
}

/** So often an update that is under way is asked about, in milliseconds. */
const lookMs = 500

/**
 * State of the app itself, asked for again when a person comes back to the window, as from System Settings, and while an update
 * is under way.
 */
export function useAppState(app: AppBridge) {
  const [state, setState] = useState<AppState>()
  const [problem, setProblem] = useState<string>()
  const look = useCallback(async () => {
    const reply = await app.appState()
    if (reply.ok) setState(reply.value)
    setProblem(reply.ok ? undefined : reply.failure.message)
  }, [app])
  /** Shows what came of it; answers whether it was done. */
  const take = async (asked: Promise<BridgeReply<unknown>>): Promise<boolean> => {
    const reply = await asked
    if (reply.ok) await look()
    else setProblem(reply.failure.message)
    return reply.ok
  }
  const returns = useReturns()
  useEffect(() => void look(), [look, returns])
  const step = state?.update.step
  const isUnderWay = step === 'looking' || step === 'downloading' || step === 'installing'
  useEffect(() => {
    if (!isUnderWay) return undefined
    const timer = setInterval(() => void look(), lookMs)
    return () => clearInterval(timer)
  }, [look, isUnderWay])
  return { state, problem, look, take }
}

/** The request about one thing: `pending` while it is not answered, `disabled` while no agent can be asked. */
export function useRequest(about: string) {
  const pending = useWindow(({ requests }) => requests[about]?.state === 'pending')
  const disabled = !useConnected()
  const askAbout = useWindow((state) => state.ask)
  return { pending, disabled, ask: (command: CommandInput) => askAbout(about, command) }
}

/** How a button stands that asks for a command: its own request is under way, or it cannot be pressed. A pending button keeps the focus. */
export function usePressed(about: string, command: CommandInput | undefined) {
  const asked = useWindow(({ requests }) => {
    const request = requests[about]
    return request?.state === 'pending' ? request.command : undefined
  })
  const connected = useConnected()
  const pending = asked !== undefined && command !== undefined && JSON.stringify(asked) === JSON.stringify(command)
  return { pending, disabled: !connected || (asked !== undefined && !pending) }
}
