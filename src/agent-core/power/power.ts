import type { PowerFigures, PowerView } from '../../contract/power.ts'
import type { Logger } from '../observability/logger.ts'
import type { Executable } from '../util/find-executable.ts'
import { nextIntervalMs } from './intervals.ts'
import { macmonSource } from './macmon.ts'
import type { PowerSource } from './power-source.ts'
import { macCommands, powermetricsSource, type PowerCommands } from './powermetrics.ts'
import type { Kill } from './program-run.ts'
import { PowerSampler, type Reading } from './sampler.ts'
import { plausibleWatts } from './watts.ts'

export interface PowerSettings {
  readonly isEnabled: boolean
  /** While nobody looks too, as seldom as can be. */
  readonly isContinuous: boolean
  readonly intervalMs: number
  readonly source: 'powermetrics' | 'macmon'
  /** As it was stated; any other than that of macOS switches the measurement by it off. */
  readonly powermetrics: string
  /** As it was stated; absent = it is looked for. */
  readonly macmon?: string | undefined
}

export interface PowerOptions {
  readonly platform: 'darwin' | 'linux'
  readonly settings: () => PowerSettings
  readonly log: Logger
  /** Somebody follows what the agent does. */
  readonly hasReaders: () => boolean
  /** Figures or how it goes. */
  readonly onChange: (figures: PowerFigures | undefined) => void
  readonly findMacmon: () => Promise<Executable>
  /** Instead of those of macOS. */
  readonly commands?: PowerCommands | undefined
  /** Instead of the one that is set. */
  readonly source?: PowerSource | undefined
  readonly lookMs?: number | undefined
  readonly stallMs?: number | undefined
  /** Instead of process.kill. */
  readonly kill?: Kill | undefined
}

/** What is measured with now. */
interface Sampling {
  readonly sampler: PowerSampler
  readonly source: PowerSource
  readonly intervalMs: number
  /** Whether what is set now asks for another. */
  readonly choice: string
}

/** Prometheus scrapes once a minute where nobody set it: one that is missed ends no measurement. */
const lookLimitMs = 150_000

/** While nobody looks: the longest that sudo's rule names, since each sample wakes the machine. */
const unseenIntervalMs = 10_000

const formatSeconds = (ms: number): string => `${ms / 1_000} s`

/** The power this machine draws, measured only while it is asked for, and somebody looks or it is asked for all the time. */
export class Power {
  readonly #options: PowerOptions
  #sampling: Sampling | undefined
  /** Of the samplers that were stopped. */
  #ended: Promise<void> = Promise.resolve()
  /** Their programs too, by the name of the source; one that hangs may outlast them. */
  readonly #exited = new Map<string, Promise<void>>()
  #reading: Reading | undefined
  #figures: PowerFigures | undefined
  #lookTimer: NodeJS.Timeout | undefined
  #isEnding = false
  /** What was logged about the settings. */
  #told: string | undefined

  constructor(options: PowerOptions) {
    this.#options = options
  }

  /** Undefined while nobody asked for it. */
  get view(): PowerView | undefined {
    const { isEnabled } = this.#options.settings()
    return isEnabled ? { source: this.#source().name, ...this.#progress() } : undefined
  }

  /** Undefined while there are none; never older than a powermetrics that hangs may be. */
  get figures(): PowerFigures | undefined {
    return this.#figures
  }

  /** How often a figure comes; undefined while nothing is measured. */
  get intervalMs(): number | undefined {
    return this.#sampling?.intervalMs
  }

  /** Somebody looks, now. */
  look(): void {
    const { settings, hasReaders, lookMs = lookLimitMs } = this.#options
    if (this.#isEnding || !settings().isEnabled) return
    if (this.#whyUnavailable() !== undefined) return
    if (this.#lookTimer) this.#lookTimer.refresh()
    else {
      this.#lookTimer = setTimeout(() => {
        if (hasReaders()) this.#lookTimer?.refresh()
        else this.#forgetLook()
      }, lookMs).unref()
    }
    this.#measureAsWanted()
  }

  /** What is set counts now, also for who looks already. */
  settingsChanged(): void {
    const { settings, hasReaders } = this.#options
    const { isEnabled } = settings()
    if (isEnabled) this.#tellOfSettings()
    if (!isEnabled) this.#forgetLook()
    else if (hasReaders()) this.look()
    this.#measureAsWanted()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnding = true
    this.#forgetLook()
    await this.#ended
  }

  #progress(): Pick<PowerView, 'state' | 'message'> {
    const intervalMs = this.#wantedMs
    const unavailable = this.#whyUnavailable()
    if (unavailable !== undefined) return { state: 'unavailable', message: unavailable }
    if (!this.#sampling) return { state: 'idle', message: 'Power is not measured while nobody looks.' }
    const every = howOften(intervalMs)
    switch (this.#reading?.kind) {
      case undefined: {
        const soonest = formatSeconds(this.#sampling.source.firstAfter * nextIntervalMs(intervalMs))
        return { state: 'starting', message: `${every} The first figures take ${soonest}.` }
      }
      case 'sample':
        return { state: 'measuring', message: every }
      case 'failed':
        return { state: 'failed', message: `${this.#reading.message} It is tried again.` }
      case 'stuck':
        return { state: 'failed', message: this.#reading.message }
    }
  }

  #source(): PowerSource {
    const { settings, source, findMacmon, commands = macCommands } = this.#options
    if (source) return source
    return settings().source === 'macmon' ? macmonSource(findMacmon) : powermetricsSource(commands, findMacmon)
  }

  /** As often as is set for those who look. */
  get #wantedMs(): number {
    const { intervalMs } = this.#options.settings()
    return this.#lookTimer ? intervalMs : Math.max(intervalMs, unseenIntervalMs)
  }

  get #isWanted(): boolean {
    const { isEnabled, isContinuous } = this.#options.settings()
    if (this.#isEnding || !isEnabled || this.#whyUnavailable() !== undefined) return false
    return isContinuous || this.#lookTimer !== undefined
  }

  #forgetLook(): void {
    clearTimeout(this.#lookTimer)
    this.#lookTimer = undefined
    this.#measureAsWanted()
  }

  #measureAsWanted(): void {
    const choice = this.#isWanted ? choiceOf(this.#options.settings(), this.#wantedMs) : undefined
    if (choice === this.#sampling?.choice) return
    this.#end()
    if (choice === undefined) return
    this.#sampling = this.#begin(choice)
    this.#show(undefined)
  }

  #begin(choice: string): Sampling {
    const { log, stallMs, kill } = this.#options
    const intervalMs = nextIntervalMs(this.#wantedMs)
    const source = this.#source()
    const onReading = (reading: Reading): void => {
      this.#reading = reading
      this.#show(reading.kind === 'sample' ? plausibleWatts(reading.sample) : undefined)
    }
    const before = this.#exited.get(source.name) ?? Promise.resolve()
    const sampler = new PowerSampler({ source, intervalMs, onReading, log, stallMs, kill }, before)
    return { sampler, source, intervalMs, choice }
  }

  #end(): void {
    this.#reading = undefined
    if (this.#sampling) {
      const { sampler, source } = this.#sampling
      this.#ended = both(this.#ended, sampler.stop())
      this.#exited.set(source.name, both(this.#exited.get(source.name), sampler.exited))
    }
    this.#sampling = undefined
    this.#show(undefined)
  }

  #show(figures: PowerFigures | undefined): void {
    this.#figures = figures
    this.#options.onChange(figures)
  }

  #whyUnavailable(): string | undefined {
    const { platform, settings } = this.#options
    const { source, powermetrics } = settings()
    if (source === 'powermetrics' && powermetrics !== macCommands.powermetrics) {
      return `Power is not measured with ${powermetrics}: sudo's rule names ${macCommands.powermetrics}, so leave out --powermetrics-bin.`
    }
    return platform === 'darwin' ? undefined : `Power is not measured on Linux: ${whyNotOnLinux[source]}.`
  }

  #tellOfSettings(): void {
    const { settings, log } = this.#options
    const { intervalMs } = settings()
    const isOther = nextIntervalMs(intervalMs) !== intervalMs
    const text = this.#whyUnavailable() ?? (isOther ? howOften(intervalMs) : undefined)
    if (text !== undefined && text !== this.#told) log.warn('power', { text })
    this.#told = text
  }
}

/** Without their results, which would be kept for every sampler that there ever was. */
const both = (first: Promise<unknown> | undefined, second: Promise<unknown>): Promise<void> =>
  Promise.all([first, second]).then(() => undefined)

const whyNotOnLinux = {
  powermetrics: 'it is read from powermetrics, which only macOS has',
  macmon: 'it is read by macmon, which only runs on macOS',
}

/** Two that differ need another program, or the same one begun anew. */
const choiceOf = ({ source, macmon }: PowerSettings, intervalMs: number): string =>
  JSON.stringify([source, source === 'macmon' ? macmon : undefined, nextIntervalMs(intervalMs)])

function howOften(wantedMs: number): string {
  const chosen = nextIntervalMs(wantedMs)
  const other =
    chosen === wantedMs ? '' : `, not every ${formatSeconds(wantedMs)}: the intervals are 0.5, 1, 2, 5 and 10 s`
  return `Power is measured every ${formatSeconds(chosen)}${other}.`
}
