import type { PortHolder, PortListeners, ProcessFacts } from '../platform/platform.ts'
import type { LivenessTimings } from './liveness.ts'
import type { Poller } from './poller.ts'
import type { HealthProbe, ProbeAnswer } from './probe.ts'
import type { StartFigures } from './readiness.ts'
import type { Exit, ExitCause, Exited, Hang, Life, ServerState, Trouble } from './server-state.ts'

/** What a run is of: a process with its group, or a model in a daemon. Each says how it is asked, looked at and ended; when, the run decides. */
export interface Driver {
  readonly life: Life
  readonly poller: Poller
  /** Settles in the turn in which it is seen that nothing of it answers any longer. */
  readonly exited: Promise<Exit>
  /** Answers 200 once it can answer requests, and 503 while it loads. */
  readonly readiness: HealthProbe
  readonly health: HealthProbe
  /** Asks one that counts nothing for a token. */
  readonly token?: HealthProbe | undefined
  readonly timings: LivenessTimings
  /** Its first process waits for another, also for one that has ended. */
  readonly isLauncher: boolean
  /** What is told where it does not answer, in place of what the look says. */
  readonly trouble?: Trouble
  /** The sentence where it does not end although it was told to by all means. */
  readonly hangsMessage: string
  /** What the daemon says that it holds; undefined for a process, whose memory the system tells. */
  readonly toldBytes?: number | undefined
  /** What a daemon asks requests for. */
  readonly apiKey?: string | undefined
  /** It finishes its requests after SIGTERM too, unless the gateway cuts them. */
  readonly finishesLate: boolean
  /** False once the daemon need not keep its model for it; of no meaning for a process. */
  readonly needsEngine: boolean
  readonly answers: (timeLimitMs: number, signal: AbortSignal) => Promise<ProbeAnswer>
  readonly listeners: () => Promise<PortListeners>
  readonly figures: () => Promise<StartFigures>
  readonly members: () => Promise<readonly ProcessFacts[]>
  /** From its readiness on, until the signal. Never rejects. */
  readonly watchMemory?: (signal: AbortSignal) => Promise<void>
  /** SIGTERM: it is to end, its requests in flight having had their time. SIGKILL: by all means. */
  readonly signalNow: (signal: NodeJS.Signals) => void
  /** Told of each state of the run, in its turn. */
  readonly told?: (state: ServerState) => void
  /** In the turn of the exit. */
  readonly reaped: () => void
  readonly letGo: () => void
  /** What is known at once of why it ended. */
  readonly account: (ending: Ending) => Account
  /** Ends what it left behind. Never rejects. */
  readonly settle: (ending: Ending, onLeft: (sentence: string) => void) => Promise<Settled>
}

/** How a run came to its end, as far as the run knows. */
export interface Ending {
  readonly exit: Exit
  readonly at: number
  readonly cause: ExitCause
  readonly outOf: Exited['outOf']
  readonly hang: Hang | undefined
  readonly holders: readonly PortHolder[] | undefined
  /** When the rest of it is killed, on the monotonic clock. */
  readonly killAt: number
}

export type Account = Pick<Exited, 'message' | 'guess' | 'memory' | 'tail' | 'firstError'>

export interface Settled {
  readonly account: Account
  /** What could not be ended, as a sentence. */
  readonly left?: string | undefined
  /** It ended because another process had its port. */
  readonly portTaken: boolean
}
