import type { DaemonAddress } from './daemon.ts'
import type { Poller } from './poller.ts'
import type { ProbeAnswer, ServerRuntime } from './probe.ts'
import type { RunFolder } from './run-folder.ts'
import type { ServerState } from './server-state.ts'
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

/** What serves the model of a service: a process of its own, or a model in a daemon. Nothing else need know which. */
export interface ServedModel {
  readonly facts: ServerFacts
  readonly state: ServerState
  readonly runtime: ServerRuntime
  /** Undefined until the folder is created. */
  readonly folder: RunFolder | undefined
  /** The executable and its arguments; undefined before there is a process, where an earlier agent did not note them, and for a daemon's model. */
  readonly command: readonly string[] | undefined
  /** What answers, and how to ask what it does; undefined before there is anything to ask. */
  readonly run: RunningModel | undefined
  /** An earlier agent started it. */
  readonly isFound: boolean
  readonly sleepsWhenIdle: boolean
  /** The daemon is to keep its model for it; false for a process. */
  readonly needsEngine: boolean
  start(): void
  /** What runs, runs on; what does not run yet is not started. */
  letGo(): void
  /** Requests in flight may finish before; resolves when nothing of it is left, or with what is. Calls join; shorter times count at once. */
  stop(options?: StopOptions): Promise<StopReport>
  /** Cuts the requests that are still in flight, as far as that can be done; false where none are waited for. */
  skipDrain(): boolean
}

export interface RunningModel {
  /** Its first process, which is the number of its process group; undefined for a daemon's model. */
  readonly pid: number | undefined
  /** Where it is reached: its own port, or for a daemon's model the one at which the gateway listens for it. */
  readonly port: number
  readonly poller: Poller
  /** What the daemon says that it holds; undefined for a process, whose memory the system tells. */
  readonly toldBytes: number | undefined
  /** Whether it answers now, asked where it listens. Never rejects. */
  readonly answers: (timeLimitMs: number, signal: AbortSignal) => Promise<ProbeAnswer>
  /** What a daemon asks requests for. */
  readonly apiKey?: string | undefined
}
