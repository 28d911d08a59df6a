import type { PowerFigures, PowerView } from '../../contract/power.ts'
import type { Logger } from '../observability/logger.ts'
import { backOffCeilingMs, type BackOff } from '../util/back-off.ts'
import type { Executable } from '../util/find-executable.ts'
import { within } from '../util/within.ts'
import { macmonSource } from './macmon.ts'
import { plausibleWatts, startProgram, type Kill, type PowerIntervalMs, type PowerSource } from './power-source.ts'
import { macCommands, powermetricsSource, type PowerCommands } from './powermetrics.ts'

export interface PowerSettings {
  readonly isEnabled: boolean
  readonly source: 'powermetrics' | 'macmon'
  /** The path of macmon, where a person set it. */
  readonly macmon?: string | undefined
}

export interface PowerOptions {
  readonly platform: 'darwin' | 'linux'
  readonly settings: () => PowerSettings
  readonly log: Logger
  /** Somebody follows what the agent does. */
  readonly hasReaders: () => boolean
  /** The figures or the state of measuring changed. */
  readonly onChange: (figures: PowerFigures | undefined) => void
  readonly findMacmon: () => Promise<Executable>
  /** Instead of those of macOS. */
  readonly commands?: PowerCommands | undefined
  /** Instead of the one that is set. */
  readonly source?: PowerSource | undefined
  readonly lookMs?: number | undefined
  readonly stallMs?: number | undefined
  readonly backOff?: BackOff
  /** Instead of process.kill. */
  readonly kill?: Kill | undefined
}

/** One choice of source and interval, from its beginning until something else is wanted. */
interface Sampling {
  readonly source: PowerSource
  readonly intervalMs: PowerIntervalMs
  /** Where it differs from what is set now, another sampling is needed. */
  readonly choice: string
  readonly stop: AbortController
  /** Settles when it was stopped. */
  readonly stopped: Promise<void>
  /** A failure that was logged and has not been followed by a sample. */
  logged?: string | undefined
}

/** Why there are no figures; `isFinal`: it is not tried again before a person does something. */
interface Failure {
  readonly message: string
  readonly isFinal: boolean
}

/** Prometheus scrapes once a minute by default: one that is missed ends no measurement. */
const lookLimitMs = 150_000
/** While nobody looks: the longest that sudo's rule names, since each sample wakes the machine. */
const unseenIntervalMs = 10_000
/** While somebody looks, in milliseconds: as the Go agent measures where nothing else is stated. */
const seenIntervalMs = 1_000
/** sudo writes each refusal to the system's log, so a missing rule is not asked for every second. */
const usualBackOff: BackOff = { firstMs: 1_000, maxMs: 60_000 }
/** After this many samples the next failure counts as the first again. */
const soundSamples = 10
/** A sample is known to be whole when the next one begins, and a machine that swaps is late. */
const stallLimitMs = (intervalMs: number): number => 3 * intervalMs + 5_000

/** The power this machine draws, measured while it is enabled: seldom, and as often as is set while somebody looks. */
export class Power {
  readonly #options: PowerOptions
  #sampling: Sampling | undefined
  /** Samplings whose end is still under way. */
  readonly #loops = new Set<Promise<void>>()
  /** By the name of the source: settles when its last program has exited, which one that hangs may put off for long. */
  readonly #exited = new Map<string, Promise<unknown>>()
  #failure: Failure | undefined
  #figures: PowerFigures | undefined
  #lookTimer: NodeJS.Timeout | undefined
  #isEnding = false
  /** What was logged about the settings. */
  #logged: string | undefined

  constructor(options: PowerOptions) {
    this.#options = options
  }

  /** Undefined while it is not enabled. */
  get view(): PowerView | undefined {
    return this.#options.settings().isEnabled ? { source: this.#source().name, ...this.#progress() } : undefined
  }

  /** Undefined while there are none; never older than a powermetrics that hangs may be. */
  get figures(): PowerFigures | undefined {
    return this.#figures
  }

  /** How often a figure comes; undefined while nothing is measured. */
  get intervalMs(): number | undefined {
    return this.#sampling?.intervalMs
  }

  /** Somebody looks now. */
  look(): void {
    const { settings, hasReaders, lookMs = lookLimitMs } = this.#options
    if (this.#isEnding || !settings().isEnabled || this.#whyUnavailable() !== undefined) return
    this.#lookTimer?.refresh()
    this.#lookTimer ??= setTimeout(() => {
      if (hasReaders()) this.#lookTimer?.refresh()
      else this.#forgetLook()
    }, lookMs).unref()
    this.#measureAsWanted()
  }

  /** Settings count at once, also for those who look already. */
  settingsChanged(): void {
    const { settings, hasReaders } = this.#options
    const { isEnabled } = settings()
    if (isEnabled) this.#logSettings()
    if (!isEnabled) this.#forgetLook()
    else if (hasReaders()) this.look()
    this.#measureAsWanted()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnding = true
    this.#forgetLook()
    await Promise.all(this.#loops)
  }

  #progress(): Pick<PowerView, 'state' | 'message'> {
    const unavailable = this.#whyUnavailable()
    if (unavailable !== undefined) return { state: 'unavailable', message: unavailable }
    if (this.#failure) {
      const { message, isFinal } = this.#failure
      return { state: 'failed', message: isFinal ? message : `${message} The agent tries again.` }
    }
    const every = `Power is measured every ${seconds(this.#wantedMs)}.`
    if (this.#figures) return { state: 'measuring', message: every }
    const firstMs = this.#source().firstAfter * this.#wantedMs
    return { state: 'starting', message: `${every} The first figures take ${seconds(firstMs)}.` }
  }

  #source(): PowerSource {
    const { settings, source, findMacmon, commands = macCommands } = this.#options
    if (source) return source
    return settings().source === 'macmon' ? macmonSource(findMacmon) : powermetricsSource(commands, findMacmon)
  }

  get #wantedMs(): PowerIntervalMs {
    return this.#lookTimer ? seenIntervalMs : unseenIntervalMs
  }

  /** Undefined where nothing is to be measured. Two that differ need another program, or the same one started again. */
  get #wantedChoice(): string | undefined {
    const { isEnabled, source, macmon } = this.#options.settings()
    if (this.#isEnding || !isEnabled || this.#whyUnavailable() !== undefined) return undefined
    return JSON.stringify([source, source === 'macmon' ? macmon : undefined, this.#wantedMs])
  }

  #forgetLook(): void {
    clearTimeout(this.#lookTimer)
    this.#lookTimer = undefined
    this.#measureAsWanted()
  }

  #measureAsWanted(): void {
    const choice = this.#wantedChoice
    if (choice === this.#sampling?.choice) return
    this.#sampling?.stop.abort()
    this.#sampling = undefined
    this.#failure = undefined
    if (choice !== undefined) {
      const stop = new AbortController()
      const stopped = new Promise<void>((resolve) => {
        stop.signal.addEventListener('abort', () => resolve(), { once: true })
      })
      const intervalMs = this.#wantedMs
      this.#sampling = { source: this.#source(), intervalMs, choice, stop, stopped }
      const loop = this.#keepMeasuring(this.#sampling).finally(() => this.#loops.delete(loop))
      this.#loops.add(loop)
    }
    this.#show(undefined)
  }

  /** Starts a program that ended or hangs again, with back-off, until the sampling is stopped. Never rejects. */
  async #keepMeasuring(sampling: Sampling): Promise<void> {
    const { source, stopped } = sampling
    const { signal } = sampling.stop
    const { backOff = usualBackOff } = this.#options
    const isStopped = (): boolean => signal.aborted
    await this.#untilExited(sampling)
    let failures = 0
    while (!isStopped()) {
      const command = await source.command(sampling.intervalMs)
      if (isStopped()) return
      let samples = 0
      if (typeof command === 'string') this.#failed(sampling, { message: command, isFinal: false })
      else {
        const life = startProgram({
          command,
          reader: source.reader(),
          stallMs: this.#stallMs(sampling),
          signal,
          kill: this.#options.kill,
          onSample: (sample) => {
            if (isStopped()) return
            samples += 1
            sampling.logged = undefined
            this.#failure = undefined
            this.#showSafely(plausibleWatts(sample))
          },
        })
        this.#exited.set(source.name, life.exited)
        // Said before the program is gone, which may take long: what it measured is old already.
        this.#failed(sampling, { message: await source.whyEnded(await life.ended), isFinal: false })
        await life.released
        await this.#untilExited(sampling)
      }
      failures = samples >= soundSamples ? 1 : failures + 1
      await within(backOffCeilingMs(backOff, failures), stopped)
    }
  }

  /** Waits for an earlier program of this source, and says so where that takes long: no other is started beside it. */
  async #untilExited(sampling: Sampling): Promise<void> {
    const { source, stopped } = sampling
    const report = () => this.#failed(sampling, { message: source.stuck, isFinal: true })
    const timer = setTimeout(report, this.#stallMs(sampling))
    await Promise.race([this.#exited.get(source.name), stopped])
    clearTimeout(timer)
  }

  #failed(sampling: Sampling, failure: Failure): void {
    if (sampling.stop.signal.aborted) return
    this.#failure = failure
    this.#showSafely(undefined)
    const { message } = failure
    if (message !== sampling.logged) this.#options.log.warn('power is not measured', { text: message })
    sampling.logged = message
  }

  /** A defect of what takes a reading must not end the measurement, nor leave its program behind. */
  #showSafely(figures: PowerFigures | undefined): void {
    try {
      this.#show(figures)
    } catch (error) {
      this.#options.log.error('a defect in the reader of power', { error })
    }
  }

  #show(figures: PowerFigures | undefined): void {
    this.#figures = figures
    this.#options.onChange(figures)
  }

  #stallMs({ intervalMs }: Sampling): number {
    return this.#options.stallMs ?? stallLimitMs(intervalMs)
  }

  #whyUnavailable(): string | undefined {
    const { platform, settings } = this.#options
    return platform === 'darwin' ? undefined : `Power is not measured on Linux: ${whyNotOnLinux[settings().source]}.`
  }

  #logSettings(): void {
    const text = this.#whyUnavailable()
    if (text !== undefined && text !== this.#logged) this.#options.log.warn('power', { text })
    this.#logged = text
  }
}

const whyNotOnLinux = {
  powermetrics: 'it is read from powermetrics, which only macOS has',
  macmon: 'it is read by macmon, which only runs on macOS',
}

const seconds = (ms: number): string => `${ms / 1_000} s`
