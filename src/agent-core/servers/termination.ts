import type { Logger } from '../observability/logger.ts'
import type { PortHolder } from '../platform/platform.ts'
import { awakeTimeout, mostSleeps, sleptMs, type AwakeTimeout } from '../util/awake-timeout.ts'
import { pause } from '../util/pause.ts'
import { untilAborted } from '../util/until-aborted.ts'
import { defaultDrainLimitMs, defaultStopGraceMs, type LaunchRules } from './launch.ts'
import { killAgainMs, killLimitMs } from './process-group.ts'
import type { Driver } from './driver.ts'
import type { ExitCause, Hang, ServerState } from './server-state.ts'

export interface EndOptions {
  /** Between SIGTERM and SIGKILL. */
  readonly graceMs?: number | undefined
  /** How long requests in flight may take to finish; 0 = they are cut. */
  readonly drainMs?: number | undefined
  readonly holders?: readonly PortHolder[]
  readonly hang?: Hang
}

/** Why a run is ended by us. */
export type EndCause = Exclude<ExitCause, 'itself'>

interface TerminationOptions extends EndOptions {
  readonly cause: EndCause
  readonly rules: LaunchRules
  readonly driver: Pick<Driver, 'life' | 'poller' | 'signalNow' | 'hangsMessage' | 'finishesLate'>
  readonly log: Logger
  readonly now: () => number
  readonly onState: (state: ServerState) => void
  readonly port: number
  /** Whether requests can be in flight. */
  readonly isServing: boolean
}

/** From the request to stop until a process that is not over cannot be ended. */
export const longestStopMs = (drainMs: number, graceMs = defaultStopGraceMs): number =>
  drainMs + graceMs + 2 * killLimitMs

/** A look takes about a millisecond at a server that is well; one in the middle of a long batch does not answer. */
const lookLimitMs = 500
/** Readers of a snapshot are told no more often either. */
const lookEveryMs = 250
/**
 * Between the withdrawal and the moment in which the last node of the cluster knows of it, requests still come. Where none was in
 * flight hardly any will come; where some were, others are likely to be on their way.
 */
const quietSettleMs = 50
const busySettleMs = 1_000

/** The way of a run to its end: drain, SIGTERM to the whole group, SIGKILL after the grace. `over` ends it. */
export class Termination {
  readonly holders: readonly PortHolder[]
  readonly hang: Hang | undefined
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
  /** Requests in flight are not waited for any longer: where no process ends with them the gateway cuts them. */
  #isCut: boolean
  #timer: AwakeTimeout | undefined

  constructor(options: TerminationOptions) {
    this.#options = options
    const { cause, holders = [], hang } = options
    const { stopGraceMs = defaultStopGraceMs, drainLimitMs = defaultDrainLimitMs } = options.rules
    this.holders = holders
    this.hang = hang
    this.#cause = cause
    this.#graceMs = options.graceMs ?? stopGraceMs
    const { drainMs = drainLimitMs } = options
    this.#isCut = drainMs === 0 && options.driver.finishesLate
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

  /** Asked again, the shorter times count, and `stopped` is the cause that is told. */
  hasten(cause: EndCause, { graceMs, drainMs }: EndOptions): void {
    if (cause === 'stopped' && this.#cause !== cause) {
      this.#cause = cause
      this.#tell()
    }
    if (drainMs === 0) {
      this.#drained.abort()
      this.#cut()
    }
    if (drainMs !== undefined) this.#drainUntil = Math.min(this.#drainUntil, performance.now() + drainMs)
    if (graceMs === undefined || graceMs >= this.#graceMs) return
    this.#graceMs = graceMs
    if (this.#killAt !== undefined) this.#killAfter(Math.min(this.#killAt, performance.now() + graceMs))
  }

  /** Requests in flight are cut: SIGTERM now. False where no drain is under way, and what still answers requests is cut already. */
  skipDrain(): boolean {
    if (this.#killAt !== undefined && (this.#isCut || !this.#options.driver.finishesLate)) return false
    this.#drained.abort()
    this.#cut()
    return true
  }

  #cut(): void {
    if (this.#isCut || !this.#options.driver.finishesLate) return
    this.#isCut = true
    this.#tell(this.#requestsInFlight)
  }

  /** The process is gone or no longer ours: no signal is sent and no state told from now on. */
  over(): void {
    this.#isOver = true
    this.#timer?.clear()
    this.#drained.abort()
  }

  /** The endpoint is withdrawn, so that new requests go elsewhere. Never rejects. */
  async #drain(): Promise<void> {
    const left = await this.#untilQuiet()
    if (this.#isOver) return
    if (left > 0) this.#options.log.warn('requests in flight are cut', { ...this.#about, requests: left })
    if (this.#requestsInFlight !== undefined) this.#tell()
    this.#terminate()
  }

  /**
   * Waits until the server has had no request in flight for a moment. Where the server does not count them, open connections stand for
   * requests: an idle one that a client keeps then holds the wait to its end. Resolves with the requests still in flight; never rejects.
   */
  async #untilQuiet(): Promise<number> {
    const { signal } = this.#drained
    let before: Look = { requests: 0, work: undefined }
    let settleMs = quietSettleMs
    let idleSince: number | undefined
    let sleeps = 0
    let isSeen = true
    for (;;) {
      const look = await this.#look(before, isSeen)
      if (signal.aborted) break
      isSeen = look !== undefined
      const now = performance.now()
      // Requests may be in flight, since nobody could look: it waits up to its limit.
      if (!look) idleSince = undefined
      else {
        if (look.requests !== before.requests) this.#tell(look.requests)
        if (look.requests > 0 || (before.work !== undefined && look.work !== before.work)) {
          settleMs = busySettleMs
          idleSince = undefined
        }
        if (look.requests === 0) idleSince ??= now
        before = look
      }
      const idleMs = idleSince === undefined ? 0 : now - idleSince
      if (now >= this.#drainUntil || (idleSince !== undefined && idleMs >= settleMs)) break
      const waitMs = Math.min(lookEveryMs, isSeen ? settleMs - idleMs : lookEveryMs, this.#drainUntil - now)
      if (!(await pause(Math.max(1, Math.ceil(waitMs)), signal))) break
      // Only the pause is measured: a look may take long on a machine that is awake.
      const waitedMs = performance.now() - now
      if (waitedMs <= sleptMs || ++sleeps > mostSleeps) continue
      idleSince = undefined
      // No request could advance while the machine slept.
      this.#drainUntil += waitedMs
      if (this.#requestsInFlight !== undefined) this.#tell(this.#requestsInFlight)
    }
    return before.requests
  }

  /** Undefined where it cannot be told. A server that is silent for a moment has what it had at its last count. Never rejects. */
  async #look(before: Look, wasSeen: boolean): Promise<Look | undefined> {
    const { driver, log } = this.#options
    const { signal } = this.#drained
    try {
      const looking = driver.poller.look({ withinMs: lookLimitMs, connections: true, evenAsleep: true })
      const { answer, requests = 0, work } = await untilAborted(looking, signal)
      const keepsCount = (answer === 'silent' || answer === 'cannotAsk') && before.requests > 0 && requests > 0
      return keepsCount ? before : { requests, work }
    } catch (error) {
      if (wasSeen && !signal.aborted)
        log.warn('could not tell whether requests are in flight', { ...this.#about, error })
      return undefined
    }
  }

  #terminate(): void {
    this.#options.driver.signalNow('SIGTERM')
    this.#killAfter(performance.now() + this.#graceMs)
  }

  #killAfter(at: number): void {
    this.#timer?.clear()
    this.#killAt = at
    this.#timer = awakeTimeout(() => this.#kill(killLimitMs), at - performance.now())
  }

  /** Repeated until the process is gone: no other server may take its place before that. */
  #kill(nextMs: number): void {
    const { driver, rules } = this.#options
    this.#cut()
    if (rules.isNeverKilled !== true) driver.signalNow('SIGKILL')
    this.#timer = awakeTimeout(() => {
      if (!this.#hangs) {
        this.#hangs = true
        this.#tell()
      }
      this.#kill(killAgainMs)
    }, nextMs)
  }

  #tell(requestsInFlight?: number): void {
    const { now, onState } = this.#options
    this.#requestsInFlight = requestsInFlight
    const endsAt = now() + Math.max(0, Math.round(this.#drainUntil - performance.now()))
    const drain = requestsInFlight === undefined ? {} : { drain: { requestsInFlight, endsAt } }
    const hangs = this.#hangs ? { hangs: this.#options.driver.hangsMessage } : {}
    const cut = this.#isCut ? { isCut: true as const } : {}
    onState({ kind: 'stopping', since: now(), cause: this.#cause, ...this.#about, ...drain, ...hangs, ...cut })
  }

  get #about() {
    const { driver, port } = this.#options
    return { ...driver.life, port }
  }
}

interface Look {
  readonly requests: number
  /** Work counter of the server; undefined if it has none. */
  readonly work: number | undefined
}
