/** How a process came to its end. */
export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** What the processes of a server had in memory when they were last looked at before their end. */
export interface MemoryAtEnd {
  readonly residentBytes: number
  /** How long before the end it was measured. */
  readonly ageMs: number
}

/** What a run left behind in its output. */
export interface Evidence {
  /** The line that most likely says why. */
  readonly firstError?: string
  /** The last lines, oldest first. */
  readonly tail: readonly string[]
}

/**
 * What is wrong with a server that is there but does not serve: no answer, no processor time at all, or an answer that says so. `unknown`: the
 * daemon does not say whether it still has the model.
 */
export type Trouble = 'silent' | 'suspended' | 'failing' | 'unknown'

/** `stuck`: it answers, but the requests in flight do not advance. `alone`: its first process waits for one that has ended. */
export type Hang = Exclude<Trouble, 'unknown'> | 'stuck' | 'alone'

/** `itself`: the agent did not end it. */
export type ExitCause = 'itself' | 'stalled' | 'hung' | 'portTaken' | 'stopped'

export interface Exited extends Exit, Evidence {
  readonly kind: 'exited'
  readonly since: number
  readonly cause: ExitCause
  readonly outOf: 'start' | 'serving'
  /** Absent where it ended before the first look. */
  readonly memory?: MemoryAtEnd
  /** What ended how, and where a known cause fits, what to do about it. */
  readonly message: string
  /** The part of the message that says the cause and what to do about it. */
  readonly guess?: string
  /**
   * False from the instant of the exit, from when nothing answers. True once its whole process group is gone and its output was read:
   * only then may another be started, and only then are the evidence and `retryAt` there.
   */
  readonly settled: boolean
  /** What could not be ended, as a sentence; while it is not settled that is tried again. */
  readonly left?: string
  /** Failures in a row, this one included; 0 after a stop that was asked for. */
  readonly failures: number
  /** Not before then, in milliseconds since 1970. */
  readonly retryAt?: number
}

/** The latest starts of a service failed. */
export interface Failure {
  /** Failures in a row. */
  readonly failures: number
  /** When the next start may be tried. */
  readonly retryAt: number
}

/** A server that served for so long had recovered: a later crash counts as the first. */
export const stableAfterMs = 10 * 60_000

export interface FailedToSpawn {
  readonly kind: 'failedToSpawn'
  readonly since: number
  /** One sentence. */
  readonly message: string
  readonly failures: number
  readonly retryAt?: number
}

export interface Stopping {
  readonly kind: 'stopping'
  /** When this state began, not the stop. */
  readonly since: number
  readonly cause: Exclude<ExitCause, 'itself'>
  readonly pid?: number
  readonly load?: number
  readonly port?: number
  /** Only while requests may finish, and some are in flight or were. */
  readonly drain?: Draining
  /** It did not end although it was killed, as a sentence; it is killed again until it does. */
  readonly hangs?: string
  /** Requests in flight are not waited for. Those of a daemon's model are cut by the gateway, since no process ends with them. */
  readonly isCut?: true
}

export interface Draining {
  readonly requestsInFlight: number
  /** It is stopped then at the latest, in milliseconds since 1970. */
  readonly endsAt: number
}

export interface Ready {
  readonly kind: 'ready'
  /** When this health began, not the readiness. */
  readonly since: number
  readonly readySince: number
  readonly pid?: number
  readonly load?: number
  readonly port: number
  /** False after several probes in a row went unanswered; true again with the first answer. */
  readonly healthy: boolean
  /** Only while it is not healthy. */
  readonly trouble?: Trouble
}

/** The port is chosen and the process spawned, but it does not answer yet. */
export interface Starting {
  readonly kind: 'starting'
  readonly since: number
  readonly pid?: number
  readonly load?: number
  readonly port?: number
  /** An earlier agent started it, and it has not been asked for long enough to say that it does not answer. */
  readonly unasked?: true
}

/** Tells one life of a server from another: the pid of its first process, or for a daemon's model the number of its load. */
export interface Life {
  readonly pid?: number
  readonly load?: number
}

/** Undefined where it has none yet, or none any more that could be told. */
export const lifeOf = (state: ServerState | undefined): number | undefined => {
  if (!state || isOver(state) || state.kind === 'exited' || state.kind === 'failedToSpawn') return undefined
  return state.pid ?? state.load
}

/** `since` is in milliseconds since 1970. */
export type ServerState =
  | Starting
  /** It answers that it is loading. */
  | (Life & { readonly kind: 'loading'; readonly since: number; readonly port: number })
  | Ready
  | Stopping
  | Exited
  | FailedToSpawn

/** The server, or a process that it left behind, cannot be ended; the agent keeps trying, without a limit of time. */
export const isUnendable = (state: ServerState): boolean =>
  (state.kind === 'stopping' && state.hangs !== undefined) ||
  (state.kind === 'exited' && !state.settled && state.left !== undefined)

/** Nothing of it is left: another may be started under the same key. */
export const isOver = (state: ServerState): boolean =>
  state.kind === 'failedToSpawn' || (state.kind === 'exited' && state.settled)
