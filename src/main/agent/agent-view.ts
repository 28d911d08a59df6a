import type { Answer } from '../../contract/queries.ts'
import { createStore, type StoreApi } from 'zustand/vanilla'
import { messageOf } from '../../agent-core/util/message-of.ts'
import type { CommandLinkState, LastUpdate, LoginItemState, Misplaced, UpdateState } from '../../contract/app-state.ts'
import { LinkError, type AgentLink, type Listener, type Looker, type Unsubscribe } from '../../contract/client.ts'
import type { CommandInput, CommandResult } from '../../contract/commands.ts'
import { type AgentSnapshot, mirrored } from '../../contract/snapshot.ts'
import { iconWords, machineWords } from '../words.ts'
import { writePreferences, type ShellPreferences } from '../preferences.ts'

export type ListName = 'contexts' | 'hostAddresses'

/** What the agent answered when the menu was opened, or before; undefined = nothing yet, `problem` = why there is no answer. */
export type Listed<N extends ListName> = Answer<N> | { readonly problem: string } | undefined

/** What the icon and its menu show. */
export interface AgentView {
  /** Absent while no agent answers; then `problem` says why. */
  readonly snapshot: AgentSnapshot | undefined
  readonly problem: string
  /** No other program runs the agent: it runs in this app, and so ends with it, or could not be started. */
  readonly isHere: boolean
  /** No agent is started until files of the app that cannot be used are repaired or reset. */
  readonly isBroken: boolean
  readonly isQuitting: boolean
  readonly isMenuOpen: boolean
  /** Power is measured on Macs only. */
  readonly isMac: boolean
  /** What came of the menu's last command, unless the snapshot tells it. */
  readonly answer: Exclude<CommandResult, { outcome: 'done' | 'accepted' }> | undefined
  readonly contexts: Listed<'contexts'>
  readonly hostAddresses: Listed<'hostAddresses'>
  /** Absent while their file cannot be used. */
  readonly preferences: ShellPreferences | undefined
  /** As it was when the menu was last opened. */
  readonly loginItem: LoginItemState
  /** It was offered just now, for the first and last time. */
  readonly offersLoginItem: boolean
  readonly update: UpdateState
  /** Until something else is done about updates. */
  readonly lastUpdate: LastUpdate | undefined
  readonly misplaced: Misplaced | undefined
  /** As it was when the menu was last opened. */
  readonly commandLink: CommandLinkState
  /** Set while the window cannot be opened because its page crashed repeatedly: one sentence. */
  readonly pageProblem: string | undefined
}

export type AgentViewStore = StoreApi<AgentView>

export const createAgentView = (platform: NodeJS.Platform = process.platform): AgentViewStore =>
  createStore<AgentView>(() => ({
    snapshot: undefined,
    problem: iconWords.starting,
    isHere: true,
    isBroken: false,
    isQuitting: false,
    isMenuOpen: false,
    isMac: platform === 'darwin',
    answer: undefined,
    contexts: undefined,
    hostAddresses: undefined,
    preferences: undefined,
    loginItem: 'unavailable',
    offersLoginItem: false,
    update: { step: 'unavailable', why: 'source' },
    lastUpdate: undefined,
    misplaced: undefined,
    commandLink: { state: 'unavailable' },
    pageProblem: undefined,
  }))

/** An agent that restarts is back within seconds. */
const retryMs = 1_000

/** Keeps the view as the agent says, through its restarts; measures more while the menu is open or figures stand beside the icon. */
export function keepShowing(link: Pick<AgentLink, 'follow'>, view: AgentViewStore): Unsubscribe {
  let looker = lookerOf(view.getState())
  let leave: Unsubscribe = () => undefined
  let timer: NodeJS.Timeout | undefined
  const follow = () => {
    const listener: Listener<AgentSnapshot> = {
      next: (snapshot) => view.setState((before) => ({ snapshot: mirrored(before.snapshot, snapshot), problem: '' })),
      end: ({ message }) => {
        view.setState({ snapshot: undefined, problem: message })
        timer = setTimeout(follow, retryMs)
      },
    }
    leave = link.follow(listener, looker)
  }
  const stop = () => {
    clearTimeout(timer)
    leave()
  }
  follow()
  const unsubscribe = view.subscribe((now) => {
    const next = lookerOf(now)
    if (next === looker) return
    looker = next
    stop()
    follow()
  })
  return () => {
    unsubscribe()
    stop()
  }
}

const lookerOf = ({ isMenuOpen, preferences }: AgentView): Looker =>
  isMenuOpen || preferences?.showTitle === true ? 'menu' : 'icon'

/** Has a command of the menu carried out; where it is not, the menu says why until the next one. */
export const command = (
  link: AgentLink,
  view: AgentViewStore,
  input: CommandInput,
): Promise<CommandResult | undefined> => answer(view, () => link.command(input))

/** The same for what is more than a command; no result = the person cancelled it. */
export async function answer(
  view: AgentViewStore,
  run: () => Promise<CommandResult | undefined>,
): Promise<CommandResult | undefined> {
  view.setState({ answer: undefined })
  const result = await run().catch((error: unknown): CommandResult => ({
    outcome: 'failed',
    message: messageOf(error),
  }))
  if (result && result.outcome !== 'done' && result.outcome !== 'accepted') view.setState({ answer: result })
  return result
}

/** Takes it once, as soon as the view has it, which may be now. Answers what withdraws that. */
export function onceKnown<T>(
  view: AgentViewStore,
  pick: (now: AgentView) => T | undefined,
  take: (known: T) => void,
): Unsubscribe {
  const known = pick(view.getState())
  if (known !== undefined) {
    take(known)
    return () => undefined
  }
  const leave = view.subscribe((now) => {
    const later = pick(now)
    if (later === undefined) return
    leave()
    take(later)
  })
  return leave
}

type Changes = { readonly [K in keyof ShellPreferences]?: ShellPreferences[K] | undefined }

/** Changes some of them, on the disk and in the view. Throws what the disk answers, and a LinkError while their file cannot be used. */
export function keepPreferences(stateDir: string, view: AgentViewStore) {
  let last: Promise<void> = Promise.resolve()
  const write = async (changes: Changes) => {
    const { preferences: before } = view.getState()
    if (!before) throw new LinkError('refused', machineWords.noPreferences)
    const stated = Object.entries(changes).filter(([, value]) => value !== undefined)
    const preferences = { ...before, ...Object.fromEntries(stated) }
    await writePreferences(stateDir, preferences)
    view.setState({ preferences })
  }
  // One after the other, so that none is lost.
  return (changes: Changes): Promise<void> => {
    const done = last.then(() => write(changes))
    last = done.catch(() => undefined)
    return done
  }
}
