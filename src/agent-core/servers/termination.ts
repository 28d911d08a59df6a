import type { PortHolder } from '../platform/platform.ts'
import { awakeTimeout, type AwakeTimeout } from '../util/awake-timeout.ts'
import { drain } from './drain.ts'
import { hangsMessage } from './exit-message.ts'
import { defaultDrainLimitMs, defaultStopGraceMs } from './launch.ts'
import type { ProcessGroup } from './process-group.ts'
import type { RunContext } from './run-context.ts'
import type { ExitCause, Hang } from './server-state.ts'

export interface EndOptions {
  /** Between SIGTERM and SIGKILL. */
  readonly graceMs?: number | undefined
  /** How long requests in flight may take to finish; 0 = they are cut. */
  readonly drainMs?: number | undefined
  /** How long no request may have come before it ends; see drain. */
  readonly quietMs?: number | undefined
  readonly holders?: readonly PortHolder[]
  readonly hang?: Hang
  /** One sentence; with the cause `exceeded` alone. */
  readonly why?: string
}

/** Why a run is ended by us. */
export type EndCause = Exclude<ExitCause, 'itself'>

interface TerminationOptions extends EndOptions {
  readonly cause: EndCause
  readonly context: Pick<RunContext, 'launch' | 'platform' | 'log' | 'now' | 'onState' | 'onCounters'>
  readonly group: Pick<ProcessGroup, 'signalNow'>
  readonly pid: number
  readonly port: number
  /** Whether requests can be in flight. */
  readonly isServing: boolean
}

/** SIGKILL takes effect at once unless the process hangs in the kernel. */
export const killLimitMs = 5_000

/** From the request to stop until a process that is not over cannot be ended. */
export const longestStopMs = (drainMs: number, graceMs = defaultStopGraceMs): number =>
  drainMs + graceMs + 2 * killLimitMs

/** A process that hangs in the kernel ends as soon as the kernel lets go of it, so SIGKILL is repeated. */
export const killAgainMs = 1_000

/** The way of a run to its end: drain, SIGTERM to the whole group, SIGKILL after the grace. `over` ends it. */
export class Termination {
  readonly holders: readonly PortHolder[]
  readonly hang: Hang | undefined
  readonly why: string | undefined
  readonly #options: TerminationOptions
  /** Aborted = requests in flight are not waited for any longer. */
  readonly #drained = new AbortController()
  readonly #drains: boolean
  #cause: EndCause
  #graceMs: number
  /** On the monotonic clock. */
  #drainUntil: number
  /** On the monotonic clock; undefined until SIGTERM is sent. */
  #killAt: number | undefined
  /** As told last; undefined where none are waited for. */
  #requestsInFlight: number | undefined
  /** It did not end although it was killed. */
  #hangs = false
  #isOver = false
  #timer: AwakeTimeout | undefined

  constructor(options: TerminationOptions) {
    this.#options = options
    const { cause, holders = [], hang } = options
    const { stopGraceMs = defaultStopGraceMs, drainLimitMs = defaultDrainLimitMs } = options.context.launch
    this.holders = holders
    this.hang = hang
    this.why = options.why
    this.#cause = cause
    this.#graceMs = options.graceMs ?? stopGraceMs
    const { drainMs = drainLimitMs } = options
    this.#drains = cause === 'stopped' && options.isServing && drainMs > 0
    this.#drainUntil = performance.now() + drainMs
  }

  get cause(): EndCause {
    return this.#cause
  }

  /** On the monotonic clock; undefined until SIGTERM is sent. */
  get killAt(): number | undefined {
    return this.#killAt
  }

  begin(): void {
    this.#tell()
    if (this.#drains) void this.#drain()
    else this.#terminate()
  }

  /** Asked again, the shorter times count, and `stopped` is the cause that is told, but not of what took too much memory. */
  hasten(cause: EndCause, { graceMs, drainMs }: EndOptions): void {
    if (cause === 'stopped' && this.#cause !== cause && this.#cause !== 'exceeded') {
      this.#cause = cause
      this.#tell()
    }
    if (drainMs === 0) this.#drained.abort()
    if (drainMs !== undefined) this.#drainUntil = Math.min(this.#drainUntil, performance.now() + drainMs)
    if (graceMs === undefined || graceMs >= this.#graceMs) return
    this.#graceMs = graceMs
    if (this.#killAt !== undefined) this.#killAfter(Math.min(this.#killAt, performance.now() + graceMs))
  }

  /** Requests in flight are cut: SIGTERM now. False where no drain is under way. */
  skipDrain(): boolean {
    if (this.#killAt !== undefined) return false
    this.#drained.abort()
    return true
  }

  /** The process is gone or no longer ours: no signal is sent and nothing is told any more. */
  over(): void {
    this.#isOver = true
    this.#timer?.clear()
    this.#drained.abort()
  }

  /** New requests go elsewhere by now. Never rejects. */
  async #drain(): Promise<void> {
    const { pid, port, quietMs, context } = this.#options
    const { platform, log, onCounters } = context
    const left = await drain({
      port,
      platform,
      until: () => this.#drainUntil,
      signal: this.#drained.signal,
      quietMs,
      onRequests: (requests) => this.#tell(requests),
      onCounters,
      onSlept: (ms) => {
        this.#drainUntil += ms
        if (this.#requestsInFlight !== undefined) this.#tell(this.#requestsInFlight)
      },
      onTrouble: (message, error) => log.warn(message, { pid, port, error }),
    })
    if (this.#isOver) return
    if (left > 0) log.warn('requests in flight are cut', { pid, port, requests: left })
    if (this.#requestsInFlight !== undefined) this.#tell()
    this.#terminate()
  }

  #terminate(): void {
    this.#options.group.signalNow('SIGTERM')
    this.#killAfter(performance.now() + this.#graceMs)
  }

  #killAfter(at: number): void {
    this.#timer?.clear()
    this.#killAt = at
    this.#timer = awakeTimeout(() => this.#kill(killLimitMs), at - performance.now())
  }

  /** Repeated until the process is gone: no other server may take its place before that. */
  #kill(nextMs: number): void {
    this.#options.group.signalNow('SIGKILL')
    this.#timer = awakeTimeout(() => {
      if (!this.#hangs) {
        this.#hangs = true
        this.#tell()
      }
      this.#kill(killAgainMs)
    }, nextMs)
  }

  #tell(requestsInFlight?: number): void {
    const { pid, port, context } = this.#options
    const { now, onState } = context
    this.#requestsInFlight = requestsInFlight
    const endsAt = now() + Math.max(0, Math.round(this.#drainUntil - performance.now()))
    const drain = requestsInFlight === undefined ? {} : { drain: { requestsInFlight, endsAt } }
    const hangs = this.#hangs ? { hangs: hangsMessage(pid) } : {}
    onState({ kind: 'stopping', since: now(), cause: this.#cause, pid, port, ...drain, ...hangs })
  }
}
