import { z } from 'zod'

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
