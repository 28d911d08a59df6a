import type { MemoryAtEnd } from './memory-watch.ts'

/** How a process came to its end. */
export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** What a run left behind in its output. */
export interface Evidence {
  /** The line that most likely says why. */
  readonly firstError?: string
  /** The last lines, oldest first. */
  readonly tail: readonly string[]
}

/** `itself`: nobody asked it to. */
export type ExitCause = 'itself' | 'stalled' | 'portTaken' | 'stopped'

export interface Exited extends Exit, Evidence {
  readonly kind: 'exited'
  readonly since: number
  readonly cause: ExitCause
  readonly outOf: 'start' | 'serving'
  /** Absent where it ended before anybody looked. */
  readonly memory?: MemoryAtEnd
  /** What ended how, and where a known cause fits, what to do about it. */
  readonly message: string
  /**
   * False from the instant of the exit: nothing answers any more. True once its whole process group is gone and its output was read:
   * only then may another be started, and only then are the evidence and `retryAt` there.
   */
  readonly settled: boolean
  /** What could not be ended, as a sentence. */
  readonly left?: string
  /** Failures in a row, this one included; 0 after a stop that was asked for. */
  readonly failures: number
  /** Not before then, in milliseconds since 1970. */
  readonly retryAt?: number
}

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
  readonly since: number
  readonly cause: Exclude<ExitCause, 'itself'>
  readonly pid?: number
  readonly port?: number
}

export interface Ready {
  readonly kind: 'ready'
  /** Of this health, not of the readiness. */
  readonly since: number
  readonly readySince: number
  readonly pid: number
  readonly port: number
  /** False after several probes in a row went unanswered; true again with the first answer. */
  readonly healthy: boolean
}

/** `since` is in milliseconds since 1970. */
export type ServerState =
  /** The port is chosen and the process spawned, but it does not answer yet. */
  | { readonly kind: 'starting'; readonly since: number; readonly pid?: number; readonly port?: number }
  /** It answers that it is loading. */
  | { readonly kind: 'loading'; readonly since: number; readonly pid: number; readonly port: number }
  | Ready
  | Stopping
  | Exited
  | FailedToSpawn

/** Nothing of it is left: another may be started under the same key. */
export const isOver = (state: ServerState): boolean =>
  state.kind === 'failedToSpawn' || (state.kind === 'exited' && state.settled)
