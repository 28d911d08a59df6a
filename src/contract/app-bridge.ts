import type { LinkFailure, Looker, Unsubscribe } from './client.ts'
import type { CommandInput, CommandResult, ServiceRef } from './commands.ts'
import type { LogRun, StreamInput, StreamItem } from './log.ts'
import type { Answer, QueryInput, QueryName } from './queries.ts'
import type { AgentSnapshot } from './snapshot.ts'
import type { TraceKind, TraceList } from './uninstall.ts'

export type BridgeReply<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly failure: LinkFailure }

/** The output of one run of a service's server. */
export interface RunLog {
  readonly service: ServiceRef
  readonly run: LogRun
}

/**
 * State of the Hugging Face token that the app keeps for its agent. `unreadable`: the keychain does not return it. `unavailable`: this
 * machine has no keychain to store it in.
 */
export type HubTokenState = 'none' | 'kept' | 'unreadable' | 'unavailable'

/** As macOS says it. `unavailable`: this is no app that could be opened at login. */
export type LoginItemState = 'not-registered' | 'enabled' | 'requires-approval' | 'unavailable'

/** What concerns the icon, its menu, the window and notifications alone; all that concerns the agent is in the agent's settings. */
export interface AppPreferences {
  /** Figures beside the icon. */
  readonly showTitle: boolean
  /** What Quit does while models run here. */
  readonly onQuit: 'ask' | 'drain' | 'keep'
  readonly notifications: boolean
  /** The app looks for a newer one by itself; a person who presses the button looks once. */
  readonly looksForUpdates: boolean
  readonly updateChannel: 'latest' | 'beta'
}

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

export type PreferenceChanges = { readonly [K in keyof AppPreferences]?: AppPreferences[K] | undefined }

/** What there is of the app beside its agent. Never holds the token. */
export interface AppState {
  readonly hubToken: HubTokenState
  readonly loginItem: LoginItemState
  /** Absent while their file cannot be used. */
  readonly preferences?: AppPreferences
  /** False where another program runs the agent, which then has no token of the app. */
  readonly isHere: boolean
  /** The window is one of its own; else it is under the icon. */
  readonly isTornOff: boolean
  readonly version: string
  readonly update: UpdateState
  /** Absent where this start follows no update. */
  readonly lastUpdate?: LastUpdate
  readonly commandLink: CommandLinkState
  /** Absent where the app is where it stays. */
  readonly misplaced?: Misplaced
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

/** What a person looks at in the window: one of its parts, or a service by its uid. */
export type LookedAt = { readonly view: WindowView } | { readonly service: string }

export const powerRuleChanges = ['install', 'remove'] as const
/** Changes of the sudo rule that lets powermetrics run. */
export type PowerRuleChange = (typeof powerRuleChanges)[number]

/** What only the app can do, for its own window; there is nothing of it over HTTP. What changes the app answers with its new state. */
export interface AppBridge {
  appState(): Promise<BridgeReply<AppState>>
  /** Kept encrypted by the keychain, over a token that is there. */
  setHubToken(token: string): Promise<BridgeReply<AppState>>
  removeHubToken(): Promise<BridgeReply<AppState>>
  setLoginItem(isOn: boolean): Promise<BridgeReply<AppState>>
  prefer(changes: PreferenceChanges): Promise<BridgeReply<AppState>>
  /** Null where the person chose none. */
  chooseFile(what: ChosenFile): Promise<BridgeReply<string | null>>
  openPane(pane: SystemPane): Promise<BridgeReply<null>>
  /** In Terminal, after the person saw what it runs; null where the person does not want it. */
  changePowerRule(change: PowerRuleChange): Promise<BridgeReply<CommandResult | null>>
  /** Answers when it has begun; how far it is says the state. */
  update(action: UpdateAction): Promise<BridgeReply<AppState>>
  /** Links the app's command into a folder of the PATH, or takes the link away. */
  setCommandLink(isWanted: boolean): Promise<BridgeReply<AppState>>
  /** The app ends, and is opened from there. Null where the person does not want it. */
  moveToApplications(): Promise<BridgeReply<CommandResult | null>>
  /** Everything that was ever written, here and in the cluster. */
  traces(): Promise<BridgeReply<TraceList>>
  /** Removes these, after the person said yes once more, and ends the app; null where the person does not want it. */
  uninstall(kinds: readonly TraceKind[]): Promise<BridgeReply<null>>
  /** Shows the file in the folder that it is in. */
  revealLog(log: RunLog): Promise<BridgeReply<null>>
  /** Whether something that a person wrote is in the page alone, which is then kept while it is hidden. */
  keep(isKept: boolean): Promise<BridgeReply<null>>
  hide(): Promise<BridgeReply<null>>
  /** Opens the same as a window of its own, in place of this page; not where a person wants to keep what they wrote here. */
  tearOff(at: LookedAt): Promise<BridgeReply<null>>
}

/**
 * What the app's preload puts on `window.metalbar`: an AgentLink, as far as it can be copied between two JavaScript worlds, where
 * an error loses its class and everything but its message; and beside it what the app alone can do.
 */
export interface Bridge extends AppBridge {
  follow(next: (snapshot: AgentSnapshot) => void, end: (failure: LinkFailure) => void, looker?: Looker): Unsubscribe
  snapshot(): Promise<BridgeReply<AgentSnapshot>>
  command(command: CommandInput, requestId: string): Promise<BridgeReply<CommandResult>>
  /** `id`: chosen by the page, for {@link withdraw}. */
  query<N extends QueryName>(query: Extract<QueryInput, { name: N }>, id: string): Promise<BridgeReply<Answer<N>>>
  /** Tells the agent that nobody waits for the answer. */
  withdraw(id: string): Promise<BridgeReply<null>>
  stream(request: StreamInput, next: (item: StreamItem) => void, end: (failure: LinkFailure) => void): Unsubscribe
}
