import type { BridgeReply } from './bridge-reply.ts'
import type { CommandResult, ServiceRef } from './commands.ts'
import type { LogRun } from './log.ts'

/** The output of one run of a service's server. */
export interface RunLog {
  readonly service: ServiceRef
  readonly run: LogRun
}

/**
 * Of the Hugging Face token that the app keeps for its agent. `unreadable`: the system's keychain does not give it back. `unavailable`: this
 * machine has no keychain to keep it in.
 */
export type HubTokenState = 'none' | 'kept' | 'unreadable' | 'unavailable'

/** As macOS says it. `unavailable`: this is no app that could be opened at login. */
export type LoginItemState = 'not-registered' | 'enabled' | 'requires-approval' | 'not-found' | 'unavailable'

/** What concerns the icon, its menu, the window and notifications alone; all that concerns the agent is in the agent's settings. */
export interface AppPreferences {
  /** Figures beside the icon. */
  readonly showTitle: boolean
  /** What Quit does while models run here. */
  readonly onQuit: 'ask' | 'drain' | 'keep'
  readonly notifications: boolean
}

export type PreferenceChanges = { readonly [K in keyof AppPreferences]?: AppPreferences[K] | undefined }

/** What there is of the app beside its agent. Never holds the token. */
export interface AppState {
  readonly hubToken: HubTokenState
  readonly loginItem: LoginItemState
  /** Absent while their file cannot be used. */
  readonly preferences?: AppPreferences
  /** False where another program runs the agent, which then has no token of the app. */
  readonly isHere: boolean
}

export const chosenFiles = ['kubeconfig', 'executable', 'tokenFile', 'certificates'] as const
/** What a file is chosen for. */
export type ChosenFile = (typeof chosenFiles)[number]

export const systemPanes = ['loginItems', 'notifications'] as const
/** A part of System Settings. */
export type SystemPane = (typeof systemPanes)[number]

export const powerRuleChanges = ['install', 'remove'] as const
/** Of the rule by which sudo lets powermetrics run. */
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
  /** Shows the file in the folder that it is in. */
  revealLog(log: RunLog): Promise<BridgeReply<null>>
  /** Whether something that a person wrote is in the page alone, which is then kept while it is hidden. */
  keep(isKept: boolean): Promise<BridgeReply<null>>
}
