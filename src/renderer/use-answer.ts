import { useCallback, useEffect, useRef, useState } from 'react'
import type { AppBridge, AppState, BridgeReply } from '../contract/app-bridge.ts'
import { LinkError } from '../contract/client.ts'
import type { CommandInput } from '../contract/commands.ts'
import type { Answer, QueryInput, QueryName } from '../contract/queries.ts'
import { RepeatedQuestion } from './repeated-question.ts'
import { useLink, useWindow } from './store.ts'

export interface Asked<N extends QueryName> {
  /** The last one, also while another is on its way. */
  readonly answer: Answer<N> | undefined
  /** Why there is no newer one: one sentence. */
  readonly problem: string | undefined
  /** The answer is one to this very question, and not to the one before. */
  readonly isCurrent: boolean
}

interface Kept<N extends QueryName> extends Omit<Asked<N>, 'isCurrent'> {
  /** The question that was answered, as text. */
  readonly of: string | undefined
}

/**
 * The agent's answer to a query, asked again when one of `signs` changes: each says that the answer may have changed. Their number is
 * fixed. Signs that change all the time do not keep the answer from coming. Another query replaces the one before, which is withdrawn,
 * as it is when its component is unmounted.
 */
export function useAnswer<N extends QueryName>(
  query: Extract<QueryInput, { name: N }>,
  signs: readonly unknown[],
): Asked<N> {
  const link = useLink()
  const connected = useWindow(({ connection }) => connection.state === 'live')
  const [asked, setAsked] = useState<Kept<N>>({ answer: undefined, problem: undefined, of: undefined })
  const question = useRef<RepeatedQuestion>(undefined)
  const text = JSON.stringify(query)
  useEffect(() => {
    if (!connected) return
    const leaving = new AbortController()
    const isFirst = asked.answer === undefined && asked.problem === undefined
    question.current = new RepeatedQuestion({ isFirst }, () =>
      link.query<N>(JSON.parse(text) as Extract<QueryInput, { name: N }>, leaving.signal).then(
        (answer) => {
          if (!leaving.signal.aborted) setAsked({ answer, problem: undefined, of: text })
        },
        (error: unknown) => {
          if (!(error instanceof LinkError)) throw error
          if (!leaving.signal.aborted) setAsked((before) => ({ ...before, problem: error.message }))
        },
      ),
    )
    return () => {
      leaving.abort()
      question.current?.end()
      question.current = undefined
    }
  }, [link, connected, text])
  useEffect(() => question.current?.ask(), [link, connected, text, ...signs])
  const { answer, problem, of } = asked
  return { answer, problem, isCurrent: of === text }
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
  /** Answers whether it was done. */
  const take = useCallback(async (asked: Promise<BridgeReply<AppState | null>>): Promise<boolean> => {
    const reply = await asked
    if (reply.ok && reply.value !== null) setState(reply.value)
    setProblem(reply.ok ? undefined : reply.failure.message)
    return reply.ok
  }, [])
  useEffect(() => {
    const look = () => void take(app.appState())
    look()
    window.addEventListener('focus', look)
    return () => window.removeEventListener('focus', look)
  }, [app, take])
  const step = state?.update.step
  const isUnderWay = step === 'looking' || step === 'downloading' || step === 'installing'
  useEffect(() => {
    if (!isUnderWay) return undefined
    const timer = setInterval(() => void take(app.appState()), lookMs)
    return () => clearInterval(timer)
  }, [app, take, isUnderWay])
  return { state, problem, take }
}

/** The request about one thing: `pending` while it is not answered, `disabled` while no agent can be asked. */
export function useRequest(about: string) {
  const pending = useWindow(({ requests }) => requests[about]?.state === 'pending')
  const disabled = useWindow(({ connection }) => connection.state !== 'live')
  const askAbout = useWindow((state) => state.ask)
  return { pending, disabled, ask: (command: CommandInput) => askAbout(about, command) }
}

/** How a button stands that asks for a command: its own request is under way, or it cannot be pressed. A pending button keeps the focus. */
export function usePressed(about: string, command: CommandInput | undefined) {
  const asked = useWindow(({ requests }) => {
    const request = requests[about]
    return request?.state === 'pending' ? request.command : undefined
  })
  const connected = useWindow(({ connection }) => connection.state === 'live')
  const pending = asked !== undefined && command !== undefined && JSON.stringify(asked) === JSON.stringify(command)
  return { pending, disabled: !connected || (asked !== undefined && !pending) }
}
