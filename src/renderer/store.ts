import { createContext, use } from 'react'
import { useStore } from 'zustand'
import { createStore, type StoreApi } from 'zustand/vanilla'
import type { AppBridge, WindowView } from '../contract/app-bridge.ts'
import { type AgentLink, LinkError } from '../contract/client.ts'
import type { CommandInput, CommandResult, ServiceRef } from '../contract/commands.ts'
import { type AgentSnapshot, mirrored } from '../contract/snapshot.ts'
import { type Addition, additionRequests, emptyAddition } from './addition.ts'
import { type PowerSample, withPower } from './gauges.ts'
import { AgentConnection, type Connection } from './link/connection.ts'
import type { SettingSection } from '../contract/settings-table.ts'
import { type Draft, pageOf } from './settings-draft.ts'

/** A command to the agent about one thing, and its result. */
export type Request = {
  readonly requestId: string
  readonly command: CommandInput
  /** The command that undoes this one. */
  readonly undo?: CommandInput | undefined
} & (
  | { readonly state: 'pending' }
  | { readonly state: 'answered'; readonly result: CommandResult }
  /** The agent went away: it is not known whether it was done, and repeating it does it once. */
  | { readonly state: 'unknown'; readonly message: string }
)

interface WindowState {
  readonly connection: Connection
  /** The last one, however old; absent until the first. */
  readonly snapshot: AgentSnapshot | undefined
  /** What the agent's clock is ahead of this computer's, in milliseconds. */
  readonly clockLead: number
  /** The power of the last two minutes, as far as this window has seen it; oldest first. */
  readonly powerTrail: readonly PowerSample[]
  readonly view: WindowView
  /** Uid of the service whose detail is open. */
  readonly selected: string | undefined
  /** A person just chose the service, so the focus moves to its detail; not while they only step past it. */
  readonly isChosen: boolean
  /** The page where a model is added stands in the place of a service's detail. */
  readonly isAdding: boolean
  /** What is written there, kept while another page is shown. */
  readonly addition: Addition
  /** Unsaved changes of the settings, kept while another view is shown. */
  readonly draft: Draft
  readonly settingPage: SettingSection
  /** What the settings are searched for. */
  readonly settingSearch: string
  /** The setting or other part of the settings that a person was led to last, until they turn to something else. */
  readonly goal: { readonly id: string } | undefined
  /** Filter of the activity, kept while another view is shown. */
  readonly historyFilter: HistoryFilter
  /** By uid of the service, or `node` for what concerns the whole machine. */
  readonly requests: Readonly<Record<string, Request>>
  /** Tries at once to reach the agent. */
  readonly reconnect: () => void
  readonly show: (view: WindowView) => void
  /** Turns to the services. */
  readonly select: (uid: string | undefined) => void
  /** Turns to the page where a model is added. `known` is what is known of it already. */
  readonly add: (known?: Partial<Addition>) => void
  /** Another choice leaves behind what was answered and created for the one before. */
  readonly writeAddition: (change: Partial<Addition>) => void
  /** Kept only where the addition is still the one that was applied. */
  readonly writeCreated: (applied: Addition, created: ServiceRef) => void
  /** Discards everything that was written there. */
  readonly discardAddition: () => void
  /** Resolves true if the command was done or accepted. */
  readonly ask: (about: string, command: CommandInput, options?: AskOptions) => Promise<boolean>
  readonly dismiss: (about: string) => void
  readonly write: (change: (draft: Draft) => Draft) => void
  readonly turnSettings: (page: SettingSection) => void
  readonly searchSettings: (text: string) => void
  /** Turns to the page of the settings that has it, and takes the focus there. */
  readonly leadTo: (id: string) => void
  readonly filterHistory: (change: Partial<HistoryFilter>) => void
}

interface HistoryFilter {
  readonly text: string
  readonly problemsOnly: boolean
}

interface AskOptions {
  /** Repeats an earlier request. */
  readonly requestId?: string
  readonly undo?: CommandInput | undefined
}

/** Long enough to read that it worked; what did not work, or can be undone, stays. */
const doneShownMs = 6_000

export type WindowStore = StoreApi<WindowState>

export function createWindowStore(link: AgentLink): WindowStore {
  return createStore<WindowState>()((set, get) => {
    const connection = new AgentConnection(
      link,
      (next) =>
        set(({ snapshot, powerTrail }) => ({
          snapshot: mirrored(snapshot, next),
          powerTrail: withPower(powerTrail, next),
          clockLead: Date.parse(next.now) - Date.now(),
        })),
      (next) =>
        set(({ connection }) => (connection.state === 'live' && next.state === 'live' ? {} : { connection: next })),
    )
    const settle = (about: string, request: Request) => {
      if (get().requests[about]?.requestId === request.requestId) set(withRequest(about, request))
    }
    const dismissAdditionAnswers = () => {
      for (const about of Object.values(additionRequests)) get().dismiss(about)
    }
    return {
      connection: { state: 'connecting' },
      snapshot: undefined,
      clockLead: 0,
      powerTrail: [],
      view: 'services',
      selected: undefined,
      isChosen: false,
      isAdding: false,
      addition: emptyAddition,
      draft: {},
      settingPage: 'General',
      settingSearch: '',
      goal: undefined,
      historyFilter: { text: '', problemsOnly: false },
      requests: {},
      reconnect: () => connection.connect(),
      show: (view) => set({ view, isChosen: false, goal: undefined }),
      select: (selected) => set({ selected, view: 'services', isChosen: selected !== undefined, isAdding: false }),
      add: (known) => {
        // What was written before is there again, unless it was created meanwhile.
        if (known !== undefined || get().addition.created !== undefined) get().discardAddition()
        get().writeAddition(known ?? {})
        set({ view: 'services', isAdding: true, isChosen: true })
      },
      writeAddition: (change) => {
        const { addition } = get()
        const isAnother = 'chosen' in change && change.chosen !== addition.chosen
        if (isAnother) dismissAdditionAnswers()
        set({
          addition: { ...addition, ...(isAnother && { created: undefined, suggestedName: undefined }), ...change },
        })
      },
      writeCreated: (applied, created) =>
        set(({ addition }) => (addition === applied ? { addition: { ...addition, created } } : {})),
      discardAddition: () => {
        dismissAdditionAnswers()
        set({ addition: emptyAddition })
      },
      dismiss: (about) =>
        set(({ requests }) => ({
          requests: Object.fromEntries(Object.entries(requests).filter(([key]) => key !== about)),
        })),
      write: (change) => set(({ draft }) => ({ draft: change(draft) })),
      turnSettings: (settingPage) => set({ settingPage, settingSearch: '', goal: undefined }),
      searchSettings: (settingSearch) => set({ settingSearch, goal: undefined }),
      leadTo: (id) => {
        get().show('settings')
        get().turnSettings(pageOf(id) ?? get().settingPage)
        set({ goal: { id } })
      },
      filterHistory: (change) => set(({ historyFilter }) => ({ historyFilter: { ...historyFilter, ...change } })),
      ask: async (about, command, { requestId = crypto.randomUUID(), undo } = {}) => {
        set(withRequest(about, { state: 'pending', requestId, command, undo }))
        const request = { ...(await answerOf(link, command, requestId)), undo }
        settle(about, request)
        if (request.state !== 'answered' || !isGood(request.result)) return false
        if (undo !== undefined) return true
        setTimeout(() => {
          if (get().requests[about] === request) get().dismiss(about)
        }, doneShownMs)
        return true
      },
    }
  })
}

const withRequest = (about: string, request: Request) => (state: WindowState) => ({
  requests: { ...state.requests, [about]: request },
})

async function answerOf(link: AgentLink, command: CommandInput, requestId: string): Promise<Request> {
  try {
    return { state: 'answered', requestId, command, result: await link.command(command, requestId) }
  } catch (error) {
    if (!(error instanceof LinkError)) throw error
    return error.code === 'gone'
      ? { state: 'unknown', requestId, command, message: error.message }
      : { state: 'answered', requestId, command, result: { outcome: 'failed', message: error.message } }
  }
}

export const isGood = ({ outcome }: CommandResult) => outcome === 'done' || outcome === 'accepted'

interface WindowParts {
  readonly store: WindowStore
  readonly link: AgentLink
  /** What only the app can do; absent in a browser. */
  readonly app: AppBridge | undefined
}

export const WindowContext = createContext<WindowParts | undefined>(undefined)

export function useWindow<T>(select: (state: WindowState) => T): T {
  return useStore(useContextOrThrow().store, select)
}

/** Selects from the snapshot, for components that are drawn only once there is one. */
export const useSnapshot = <T>(select: (snapshot: AgentSnapshot) => T): T =>
  useWindow(({ snapshot }) => {
    if (snapshot === undefined) throw new Error('A part of the window is drawn before there is something to show.')
    return select(snapshot)
  })

/** Whether the agent can be asked. */
export const useConnected = () => useWindow(({ connection }) => connection.state === 'live')

export const useLink = (): AgentLink => useContextOrThrow().link
export const useApp = (): WindowParts['app'] => useContextOrThrow().app

/** A page in a browser may not set what chooses an executable or a cluster; the app may. */
export const useTrust = (): 'page' | 'shell' => (useApp() === undefined ? 'page' : 'shell')

function useContextOrThrow() {
  const value = use(WindowContext)
  if (value === undefined) throw new Error('A part of the window is drawn outside of it.')
  return value
}

/** What a person wrote and nothing but this page has: settings that are not applied, a model that is not created. */
const hasUnsaved = ({ draft, addition }: Pick<WindowState, 'draft' | 'addition'>): boolean => {
  const { created, ...written } = addition
  const isWritten = Object.entries(written).some(
    ([name, value]) => value !== emptyAddition[name as keyof typeof written],
  )
  return Object.keys(draft).length > 0 || (created === undefined && isWritten)
}

/** Reports whenever the window begins or ceases to have unsaved changes. */
export function tellUnsaved(store: WindowStore, tell: (hasIt: boolean) => void): void {
  store.subscribe((now, before) => {
    const hasIt = hasUnsaved(now)
    if (hasIt !== hasUnsaved(before)) tell(hasIt)
  })
}
