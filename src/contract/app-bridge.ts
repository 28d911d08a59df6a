import { z } from 'zod'
import { type LinkFailure, lookers, type Unsubscribe } from './client.ts'
import { commandRequest, type CommandResult, serviceRef } from './commands.ts'
import { logRun, type StreamItem, streamRequest } from './log.ts'
import { type Answer, query } from './queries.ts'
import type { AgentSnapshot } from './snapshot.ts'
import { traceKinds, type TraceList } from './uninstall.ts'

export type BridgeReply<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly failure: LinkFailure }

/**
 * State of the Hugging Face token that the app keeps for its agent. `unreadable`: the keychain does not return it. `unavailable`: this
 * machine has no keychain to store it in.
 */
export type HubTokenState = 'none' | 'kept' | 'unreadable' | 'unavailable'

/** As macOS says it. `unavailable`: this is no app that could be opened at login. */
export type LoginItemState = 'not-registered' | 'enabled' | 'requires-approval' | 'unavailable'

const yesOrNo = z.boolean({ error: 'must be true or false' })

/** What concerns the icon, its menu, the window and notifications alone; all that concerns the agent is in the agent's settings. */
export const appPreferences = z.strictObject({
  /** Figures beside the icon. */
  showTitle: yesOrNo,
  /** What Quit does while models run here. */
  onQuit: z.enum(['ask', 'drain', 'keep'], { error: 'must be ask, drain or keep' }),
  notifications: yesOrNo,
  /** The app looks for a newer one by itself; a person who presses the button looks once. */
  looksForUpdates: yesOrNo,
})
export type AppPreferences = z.infer<typeof appPreferences>

/**
 * Why there are no updates: it runs from its sources, was built without an address to ask, has to be moved first, or this Mac's administrator
 * brings them.
 */
export type NoUpdates = 'source' | 'unpublished' | 'misplaced' | 'managed'

/** A newer app, from being looked for until it takes the place of this one. */
export type UpdateState =
  | { readonly step: 'unavailable'; readonly why: NoUpdates }
  /** Nobody has looked since the start. */
  | { readonly step: 'unknown' }
  | { readonly step: 'looking' }
  /** `offered`: what the server has, where that is older than what runs. */
  | { readonly step: 'newest'; readonly at: string; readonly offered?: string }
  | { readonly step: 'available'; readonly version: string; readonly bytes?: number }
  | {
      readonly step: 'downloading'
      readonly version: string
      readonly doneBytes: number
      /** Absent until the first of them came. */
      readonly totalBytes?: number
      readonly bytesPerSecond?: number
    }
  | { readonly step: 'downloaded'; readonly version: string }
  /** macOS checks who signed it; then the app ends and the other one is opened. */
  | { readonly step: 'installing'; readonly version: string }
  /** One sentence; this app runs on as it was. */
  | { readonly step: 'failed'; readonly message: string }

/** What became of the update that the app before this one ended for. */
export interface LastUpdate {
  readonly wanted: string
  readonly runs: string
}

/** `dismiss`: a person has read what went wrong, or what became of the last one. */
export const updateActions = ['look', 'download', 'cancel', 'install', 'dismiss'] as const
export type UpdateAction = (typeof updateActions)[number]

/** Where the app runs and cannot stay: on its disk image, where macOS put a downloaded one for safety, or in Downloads. */
export type Misplaced = 'diskImage' | 'translocated' | 'downloads'

/** State of the symbolic link by which a shell finds the app's `metal-agent`. */
export type CommandLinkState =
  /** The app has no command, or is not where it stays. */
  | { readonly state: 'unavailable' }
  | { readonly state: 'absent' }
  | { readonly state: 'linked'; readonly file: string }
  /** It leads to where an app was before. */
  | { readonly state: 'outdated'; readonly file: string; readonly target: string }
  /** Something else has that name, and is left alone. */
  | { readonly state: 'foreign'; readonly file: string }

/** What there is of the app beside its agent. Never holds the token. */
export interface AppState {
  readonly hubToken: HubTokenState
  readonly loginItem: LoginItemState
  /** Absent while their file cannot be used. */
  readonly preferences?: AppPreferences | undefined
  /** False where another program runs the agent, which then has no token of the app. */
  readonly isHere: boolean
  /** The window is one of its own; else it is under the icon. */
  readonly isTornOff: boolean
  readonly version: string
  readonly update: UpdateState
  /** Absent where this start follows no update. */
  readonly lastUpdate?: LastUpdate | undefined
  readonly commandLink: CommandLinkState
  /** Absent where the app is where it stays. */
  readonly misplaced?: Misplaced | undefined
}

export const chosenFiles = ['kubeconfig', 'executable', 'tokenFile', 'certificates'] as const
/** What a file is chosen for. */
export type ChosenFile = (typeof chosenFiles)[number]

export const systemPanes = ['loginItems', 'notifications', 'localNetwork'] as const
/** A part of System Settings. */
export type SystemPane = (typeof systemPanes)[number]

export const windowViews = ['services', 'models', 'activity', 'settings', 'help'] as const
/** A part of the window that a person turns to. */
export type WindowView = (typeof windowViews)[number]

/** Longer than any uid of a cluster. */
const maxUid = 200

/** What a person looks at in the window: one of its parts, or a service by its uid. */
const lookedAt = z.union([
  z.strictObject({ view: z.enum(windowViews) }),
  z.strictObject({ service: z.string().min(1).max(maxUid) }),
])
export type LookedAt = z.infer<typeof lookedAt>

export const powerRuleChanges = ['install', 'remove'] as const
/** Changes of the sudo rule that lets powermetrics run. */
export type PowerRuleChange = (typeof powerRuleChanges)[number]

/** What a verb is answered with. */
interface Answers {
  done: undefined
  /** The app's state after the change. */
  changed: AppState
  state: AppState
  /** Undefined where the person chose none. */
  file: string | undefined
  /** Undefined where the person does not want it. */
  agreed: CommandResult | undefined
  traces: TraceList
  snapshot: AgentSnapshot
  result: CommandResult
  answer: Answer
}

interface VerbRow {
  /** What the page says. */
  readonly in: z.ZodType
  readonly out: keyof Answers
}

const nothing = z.undefined()
/** Chosen by the page. */
const id = z.string().min(1).max(100)

/** What is pushed to the page until it leaves; every value carries the id. */
const listenRequest = z.object({
  id,
  request: z.discriminatedUnion('name', [
    z.object({ name: z.literal('snapshot'), looker: z.enum(lookers).default('window') }),
    ...streamRequest.options,
  ]),
})
export type ListenInput = z.input<typeof listenRequest>['request']

/** What a page asks of the agent; what an AgentLink is made of. */
export const agentVerbs = {
  snapshot: { in: nothing, out: 'snapshot' },
  command: { in: commandRequest, out: 'result' },
  query: { in: z.object({ id, query }), out: 'answer' },
  /** Tells the agent that nobody waits for the answer. */
  withdraw: { in: z.object({ id }), out: 'done' },
  listen: { in: listenRequest, out: 'done' },
  leave: { in: z.object({ id }), out: 'done' },
} as const satisfies Readonly<Record<string, VerbRow>>

/** What only the app can do, for its own window; there is nothing of it over HTTP. */
export const appVerbs = {
  appState: { in: nothing, out: 'state' },
  /** Kept encrypted by the keychain, over a token that is there. Whether it is a token is judged where it is kept. */
  setHubToken: { in: z.string().max(65_536), out: 'changed' },
  removeHubToken: { in: nothing, out: 'changed' },
  setLoginItem: { in: z.boolean(), out: 'changed' },
  prefer: { in: appPreferences.partial(), out: 'changed' },
  chooseFile: { in: z.enum(chosenFiles), out: 'file' },
  openPane: { in: z.enum(systemPanes), out: 'done' },
  /** In Terminal, after the person saw what it runs. */
  changePowerRule: { in: z.enum(powerRuleChanges), out: 'agreed' },
  /** Answered when it has begun; the state tells how far it is. */
  update: { in: z.enum(updateActions), out: 'changed' },
  /** Links the app's command into a folder of the PATH, or takes the link away. */
  setCommandLink: { in: z.boolean(), out: 'changed' },
  /** The app ends, and is opened from there. */
  moveToApplications: { in: nothing, out: 'agreed' },
  /** Everything that was ever written, here and in the cluster. */
  traces: { in: nothing, out: 'traces' },
  /** Removes these, after the person said yes once more, and ends the app. */
  uninstall: { in: z.array(z.enum(traceKinds)), out: 'done' },
  /** Shows the file of one run of a service's server in the folder that it is in. */
  revealLog: { in: z.object({ service: serviceRef, run: logRun }), out: 'done' },
  /** Whether something that a person wrote is in the page alone, which is then kept while it is hidden. */
  keep: { in: z.boolean(), out: 'done' },
  hide: { in: nothing, out: 'done' },
  /** Opens the same as a window of its own, in place of this page; not where a person wants to keep what they wrote here. */
  tearOff: { in: lookedAt, out: 'done' },
  /** Escape was pressed, and nothing in the page took it. */
  escape: { in: nothing, out: 'done' },
  /** Whether the page has the keyboard focus. */
  focus: { in: z.boolean(), out: 'done' },
} as const satisfies Readonly<Record<string, VerbRow>>

const verbs = { ...agentVerbs, ...appVerbs }
type Verbs = typeof verbs
export type Verb = keyof Verbs
export type AppVerb = keyof typeof appVerbs
export const verbRow = (verb: Verb): VerbRow => verbs[verb]
export const verbNames = Object.keys(verbs) as Verb[]

type Said<V extends Verb> = z.input<Verbs[V]['in']>
type Answered<V extends Verb> = Answers[Verbs[V]['out']]
type Content<T> = undefined extends T ? [] : [content: T]

/** Each verb as the page calls it. */
export type AppBridge = {
  readonly [V in AppVerb]: (...content: Content<Said<V>>) => Promise<BridgeReply<Answered<V>>>
}

/** Each verb as it is carried out. Throws a LinkError where it is not. */
export type VerbWork<V extends Verb = Verb> = {
  readonly [K in V]: (
    ...content: Content<z.output<Verbs[K]['in']>>
  ) => Verbs[K]['out'] extends 'done' | 'changed' ? unknown : Promise<Answered<K>> | Answered<K>
}

/**
 * What the app's preload puts on `window.metalbar`, as far as it can be copied between two JavaScript worlds, where an error loses its class
 * and everything but its message.
 */
export interface Bridge {
  ask<V extends Verb>(verb: V, ...content: Content<Said<V>>): Promise<BridgeReply<Answered<V>>>
  listen(
    request: ListenInput,
    next: (item: AgentSnapshot | StreamItem) => void,
    end: (failure: LinkFailure) => void,
  ): Unsubscribe
}

/** The app as the page calls it. */
export const appOver = (bridge: Bridge): AppBridge =>
  Object.fromEntries(
    Object.keys(appVerbs).map((verb) => [verb, (...content: []) => bridge.ask(verb as 'appState', ...content)]),
  ) as unknown as AppBridge

/** From main to the page, of what the page listens to. */
export type Push =
  | { readonly id: string; readonly item: AgentSnapshot | StreamItem }
  /** Ends the stream of this id. */
  | { readonly id: string; readonly failure: LinkFailure }
