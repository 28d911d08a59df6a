import type { Logger } from '../observability/logger.ts'
import type { Account, Driver, Ending } from './driver.ts'
import { defaultStartupStallMs, defaultStopGraceMs, type LaunchRules } from './launch.ts'
import { missedAfterMs, watchLiveness } from './liveness.ts'
import type { RunOutput } from './output.ts'
import { watchStart } from './readiness.ts'
import type { Exit, Exited, Hang, ServerState, Trouble } from './server-state.ts'
import { Termination, type EndCause, type EndOptions } from './termination.ts'

/** What every run of a server needs from its surroundings. */
export interface RunContext {
  readonly launch: LaunchRules
  readonly log: Logger
  readonly now: () => number
  readonly onState: (state: ServerState) => void
  readonly onProbe: (seconds: number, healthy: boolean) => void
}

interface ServerRunOptions extends RunContext {
  readonly driver: Driver
  readonly port: number
  readonly output: RunOutput
  /** An earlier agent started it. */
  readonly isFound: boolean
  /** Given for a server that was ready before this agent found it. */
  readonly readySince?: number | undefined
}

/** A run that is over, and what is known about why. */
export interface RunEnd {
  readonly exited: Omit<Exited, 'settled' | 'failures' | 'retryAt'>
  /** It ended because another process had its port. */
  readonly portTaken: boolean
  /** 0 where it never got ready. */
  readonly servedMs: number
}

/** A server that hangs will hardly hear SIGTERM. */
const hungGraceMs = 2_000

/** One life of what serves: from the spawn, or the load, over its readiness and liveness until nothing of it is left. */
export class ServerRun {
  readonly driver: Driver
  readonly port: number
  readonly #options: ServerRunOptions
  readonly #letGo = Promise.withResolvers<undefined>()
  /** Aborted as soon as the run is to end, or has ended. */
  readonly #watching = new AbortController()
  /** Undefined where it never got ready. */
  #readySince: number | undefined
  #isHealthy: boolean
  #termination: Termination | undefined
  #reaped = false

  constructor(options: ServerRunOptions) {
    const { driver, port, readySince } = options
    this.#options = options
    this.driver = driver
    this.port = port
    this.#readySince = readySince
    this.#isHealthy = readySince !== undefined
  }

  /**
   * SIGTERM to the whole group, SIGKILL after the grace; before it, a server that is stopped while it serves may finish its requests.
   * Asked again, the shorter times count; a run that is over takes no further wish.
   */
  end(cause: EndCause, options: EndOptions = {}): void {
    if (this.#reaped) return
    if (this.#termination) {
      this.#termination.hasten(cause, options)
      return
    }
    this.#watching.abort()
    const { driver, port } = this
    driver.poller.limitIdleness(undefined)
    const { launch: rules, log, now } = this.#options
    this.#termination = new Termination({
      ...options,
      ...{ cause, rules, log, now, port, driver, isServing: this.#isHealthy },
      onState: (state) => this.#set(state),
    })
    this.#termination.begin()
  }

  /** Requests in flight are cut: SIGTERM now. False where no wait for them is under way. */
  skipDrain(): boolean {
    return !this.#reaped && (this.#termination?.skipDrain() ?? false)
  }

  /** What runs, runs on, and this agent neither watches nor signals it from now on. */
  letGo(): void {
    this.driver.letGo()
    this.#termination?.over()
    this.#letGo.resolve(undefined)
  }

  /** Undefined where it was let go. Never rejects. */
  async untilOver(): Promise<RunEnd | undefined> {
    const { driver } = this
    const { output, now } = this.#options
    await using _bounded = output.bounded()
    using _asking = driver.poller
    const watching = this.#watch(this.#watching.signal)
    const exit = await Promise.race([driver.exited, this.#letGo.promise])
    this.#reaped = true
    this.#termination?.over()
    this.#watching.abort()
    if (!exit) return undefined
    driver.reaped()
    const at = now()
    const unsettled = (left?: string) => {
      const ending = this.#ending(exit, at)
      this.#set({ ...exitedOf(ending, driver.account(ending), left), settled: false, failures: 0 })
    }
    unsettled()
    await watching
    const ending = this.#ending(exit, at)
    const { account, left, portTaken } = await driver.settle(ending, unsettled)
    return {
      exited: { ...exitedOf(ending, account, left), ...(portTaken && { cause: 'portTaken' as const }) },
      portTaken,
      servedMs: this.#readySince === undefined ? 0 : at - this.#readySince,
    }
  }

  #ending(exit: Exit, at: number): Ending {
    const { cause = 'itself', hang, holders, killAt = 0 } = this.#termination ?? {}
    const outOf = this.#readySince === undefined ? 'start' : 'serving'
    return { exit, at, cause, outOf, hang, holders, killAt }
  }

  /** From its start over its readiness to its liveness, until the signal, which an end of the run gives. Never rejects. */
  async #watch(signal: AbortSignal): Promise<void> {
    const { now } = this.#options
    try {
      const verdict = await this.#untilReady(signal)
      if (verdict.kind === 'stalled') this.#endSilent()
      if (verdict.kind === 'failing' || verdict.kind === 'alone') this.#endHung(verdict.kind)
      if (verdict.kind === 'portTaken') this.end('portTaken', { holders: verdict.holders })
      if (verdict.kind !== 'ready' || signal.aborted) return
      const readySince = this.#readySince ?? now()
      this.#readySince = readySince
      this.#tellHealth(readySince, true)
      const measuring = this.driver.watchMemory?.(signal)
      const hang = await this.#untilHung(signal, readySince)
      if (hang) this.#endHung(hang)
      await measuring
    } catch (error) {
      this.#options.log.error('the watch over a server failed', { ...this.#about, error })
      this.end('stalled')
    }
  }

  /** A server that was ready before it was found does not start, so its silence is a hang. */
  #endSilent(): void {
    if (this.#readySince === undefined) this.end('stalled')
    else this.#endHung('silent')
  }

  #endHung(hang: Hang): void {
    const { stopGraceMs = defaultStopGraceMs } = this.#options.launch
    this.end('hung', { hang, graceMs: Math.min(hungGraceMs, stopGraceMs) })
  }

  async #untilReady(signal: AbortSignal) {
    const { driver, port } = this
    const { timings } = driver
    const { now, isFound } = this.#options
    const { startupStallMs = defaultStartupStallMs } = this.#options.launch
    // A server that was found running counts as what it was until it has been silent for as long as makes any server unhealthy.
    const endTrust = () => {
      this.#isHealthy = false
      this.#tell({ kind: 'starting', since: now(), ...this.#about })
    }
    const trust = isFound ? setTimeout(endTrust, timings.misses * timings.answerWithinMs) : undefined
    try {
      return await watchStart({
        ...{ port, signal, probe: driver.readiness, isLauncher: driver.isLauncher },
        stallMs: this.#readySince === undefined ? startupStallMs : missedAfterMs(timings, timings.hungMisses),
        listeners: () => driver.listeners(),
        figures: () => driver.figures(),
        onLoading: () => {
          clearTimeout(trust)
          this.#tell({ kind: 'loading', since: now(), ...this.#about })
        },
        onBlindLook: () => {
          if (this.#isHealthy) trust?.refresh()
        },
        onTrouble: (message, error) => this.#warn(message, error),
      })
    } finally {
      clearTimeout(trust)
    }
  }

  /** Resolves with the kind of hang, or undefined when the signal ended the watch. */
  #untilHung(signal: AbortSignal, readySince: number): Promise<Hang | undefined> {
    const { port, driver } = this
    const { poller, timings, health: probe, token } = driver
    const { launch, onProbe } = this.#options
    return watchLiveness({
      ...{ port, signal, probe, token, poller, timings, onProbe },
      members: () => driver.members(),
      asksForProgress: launch.sleepsWhenIdle !== true,
      onHealth: (healthy, trouble) => this.#tellHealth(readySince, healthy, trouble && (driver.trouble ?? trouble)),
      onTrouble: (message, error) => this.#warn(message, error),
    })
  }

  #tellHealth(readySince: number, healthy: boolean, trouble?: Trouble): void {
    this.#isHealthy = healthy
    const health = { healthy, ...(trouble && { trouble }) }
    this.#tell({ kind: 'ready', since: this.#options.now(), readySince, ...this.#about, ...health })
  }

  /** A run that is being ended tells of that alone. */
  #tell(state: ServerState): void {
    if (!this.#termination) this.#set(state)
  }

  #set(state: ServerState): void {
    this.driver.told?.(state)
    this.#options.onState(state)
  }

  get #about() {
    return { ...this.driver.life, port: this.port }
  }

  #warn(message: string, error: unknown): void {
    this.#options.log.warn(message, { ...this.#about, error })
  }
}

const exitedOf = (
  { exit, at, cause, outOf }: Ending,
  account: Account,
  left: string | undefined,
): RunEnd['exited'] => ({
  ...{ kind: 'exited', since: at, ...exit, cause, outOf, ...account },
  ...(left !== undefined && { left }),
})
