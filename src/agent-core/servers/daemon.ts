/** Programs of a person that hold several models, of which this agent starts no process. */
export const daemonRuntimes = ['ollama', 'omlx'] as const
export type DaemonRuntimeName = (typeof daemonRuntimes)[number]

/** Where a daemon listens. */
export interface DaemonAddress {
  readonly host: string
  readonly port: number
}

/** What a daemon is asked to hold in memory. */
export interface DaemonContent {
  /** As the daemon calls it, and requests have to. */
  readonly name: string
  /** What it is made of: GGUF files that are given to a daemon which lacks it, or the folder in which a daemon has to find it. */
  readonly files: readonly string[]
  /** Whether its name is one that only this agent gives: then it is removed once no service of this agent needs it. */
  readonly isOurs: boolean
  /** Absent = what the daemon gives it. */
  readonly contextTokens?: number | undefined
}

export interface InMemory {
  readonly bytes: number
  /** It is being loaded, whoever asked for that. */
  readonly isLoading?: boolean
  /** Another after each request that was answered. */
  readonly used: number
}

export interface HoldOptions {
  readonly signal: AbortSignal
  /** Names that services of this agent need. */
  readonly needed: () => ReadonlySet<string>
  /** One line for the log of the service. */
  readonly onStep: (line: string) => void
  /** Called before it is asked to load what it calls so. */
  readonly onLoad: (name: string) => void
}

/** How a daemon is asked. Each throws DaemonError. */
export interface Daemon {
  /** As people know it, with where it listens. */
  readonly title: string
  readonly version: (signal: AbortSignal) => Promise<string>
  /** The Bearer token for each request, as of the last question; undefined where it is not known to ask for one. */
  readonly apiKey?: string | undefined
  /** Resolves with the name that the model has there, once it is in memory. An abort ends the wait. */
  readonly hold: (content: DaemonContent, options: HoldOptions) => Promise<string>
  /** Undefined where it is not in memory. */
  readonly look: (name: string, signal: AbortSignal) => Promise<InMemory | undefined>
  /** How many requests it works at or keeps waiting, of all of its models. Absent = it does not say. */
  readonly requests?: (signal: AbortSignal) => Promise<number>
  /** It leaves memory when its requests are answered, or at once, as the daemon is. */
  readonly unload: (name: string, signal: AbortSignal) => Promise<void>
  /** Also right where it has none of that name. */
  readonly remove: (name: string, signal: AbortSignal) => Promise<void>
  /** Two names may mean one model. */
  readonly canonical: (name: string) => string
}

/**
 * `absent`: nobody listens. `silent`: it does not answer in time. `stranger`: another program answers. `failed`: it says so itself, or breaks the
 * connection. `foreign`: another user's program listens there, and was sent nothing. `notAsked`: this process could not ask, which says nothing of the daemon.
 */
export type DaemonTrouble = 'absent' | 'silent' | 'stranger' | 'foreign' | 'failed' | 'notAsked'

/** One sentence. */
export class DaemonError extends Error {
  override readonly name = 'DaemonError'
  readonly trouble: DaemonTrouble

  constructor(trouble: DaemonTrouble, message: string, options?: ErrorOptions) {
    super(message, options)
    this.trouble = trouble
  }
}
