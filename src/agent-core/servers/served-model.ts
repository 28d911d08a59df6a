import type { DaemonAddress } from './daemon.ts'
import type { EndOptions } from './termination.ts'

/** What a server serves and is expected to hold, as noted at its start. */
export interface ServerFacts {
  readonly digest: string
  /** The address that it listens at. */
  readonly host: string
  /** The estimate of its memory. */
  readonly needBytes: number | undefined
  /** The part of it that is mapped from files: some systems do not measure that. */
  readonly mappedBytes: number
  /** What it loads; undefined where an earlier agent started it and did not note that. */
  readonly files: readonly string[] | undefined
  /** Where and by which name requests reach it; undefined for a process, which is asked at its own port. */
  readonly engine?: DaemonEngine | undefined
}

/** A model in a daemon, as requests reach it. */
export interface DaemonEngine extends DaemonAddress {
  readonly model: string
  /** Only this agent gives such a name. */
  readonly isOurs: boolean
}

/** Names of what services may have together in a daemon's memory. */
export interface DaemonMemory {
  /** The same for all that one model there serves. */
  readonly sharedAs: string
  /** The same for all models of one file, of which it has one in memory at a time; undefined where the file is not known. */
  readonly weightsAs: string | undefined
}

export const daemonMemoryOf = (
  { host, port, model, isOurs }: DaemonEngine,
  [weights]: readonly string[] = [],
): DaemonMemory => ({
  // What a daemon lists by itself may have another name there than was expected.
  sharedAs: `${host}:${port} ${isOurs ? model : (weights ?? model)}`,
  weightsAs: weights === undefined ? undefined : `${host}:${port} ${weights}`,
})

export type StopOptions = Pick<EndOptions, 'graceMs' | 'drainMs'>

export type StopReport = { readonly stopped: true } | { readonly stopped: false; readonly message: string }
