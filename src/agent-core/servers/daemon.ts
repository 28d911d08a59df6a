/** Programs of a person that hold several models, of which this agent starts no process. */
export const daemonRuntimes = ['ollama'] as const
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
  /** GGUF files that it is made of where the daemon does not have it; empty = the daemon has it, or nobody serves it. */
  readonly files: readonly string[]
  /** Whether its name is one that only this agent gives: then it is removed once no service of this agent needs it. */
  readonly isOurs: boolean
  /** Absent = what the daemon gives it. */
  readonly contextTokens?: number | undefined
}

export interface InMemory {
  readonly bytes: number
  /** Another after each request that was answered. */
  readonly used: number
}

export interface HoldOptions {
  readonly signal: AbortSignal
  /** Names that services of this agent need. */
  readonly needed: () => ReadonlySet<string>
  /** One line for the log of the service. */
  readonly onStep: (line: string) => void
}

/** How a daemon is asked. Each throws DaemonError. */
export interface Daemon {
  /** As people know it, with where it listens. */
  readonly title: string
  readonly version: (signal: AbortSignal) => Promise<string>
  /** Resolves once the model is in memory; what it is made of is sent where the daemon lacks it. An abort ends the load. */
  readonly hold: (content: DaemonContent, options: HoldOptions) => Promise<void>
  /** Undefined where it is not in memory. */
  readonly look: (name: string, signal: AbortSignal) => Promise<InMemory | undefined>
  /** It leaves memory when its requests are answered. */
  readonly unload: (name: string, signal: AbortSignal) => Promise<void>
  /** Also right where it has none of that name. */
  readonly remove: (name: string, signal: AbortSignal) => Promise<void>
  /** Two names may mean one model. */
  readonly canonical: (name: string) => string
}

/** `absent`: nobody listens. `silent`: it does not answer in time. `stranger`: another program answers. `failed`: it says so itself. */
export type DaemonTrouble = 'absent' | 'silent' | 'stranger' | 'failed'

/** One sentence. */
export class DaemonError extends Error {
  override readonly name = 'DaemonError'
  readonly trouble: DaemonTrouble

  constructor(trouble: DaemonTrouble, message: string, options?: ErrorOptions) {
    super(message, options)
    this.trouble = trouble
  }
}
