import type { PowerFigures, PowerView } from '../../contract/power.ts'
import type { Logger } from '../observability/logger.ts'
import { macCommands, nextIntervalMs, type PowerCommands } from './powermetrics.ts'
import type { Kill } from './powermetrics-run.ts'
import { PowerSampler, type Reading } from './sampler.ts'
import { plausibleWatts } from './watts.ts'

export interface PowerSettings {
  readonly isEnabled: boolean
  readonly intervalMs: number
  /** As it was stated; any other than that of macOS switches the measurement off. */
  readonly powermetrics: string
}

export interface PowerOptions {
  readonly platform: 'darwin' | 'linux'
  readonly settings: () => PowerSettings
  readonly log: Logger
  /** Somebody follows what the agent does. */
  readonly hasReaders: () => boolean
  /** Figures or how it goes. */
  readonly onChange: (figures: PowerFigures | undefined) => void
  /** Instead of those of macOS. */
  readonly commands?: PowerCommands | undefined
  readonly lookMs?: number | undefined
  readonly stallMs?: number | undefined
  /** Instead of process.kill. */
  readonly kill?: Kill | undefined
}

/** Prometheus scrapes once a minute where nobody set it: one that is missed ends no measurement. */
const lookLimitMs = 150_000

const formatSeconds = (ms: number): string => `${ms / 1_000} s`

/** The power this machine draws, measured only while it is asked for and somebody looks. */
export class Power {
  readonly #options: PowerOptions
  #sampler: PowerSampler | undefined
  /** Of the samplers that were stopped. */
  #ended: Promise<unknown> = Promise.resolve()
  /** Their powermetrics too; one that hangs may outlast them. */
  #exited: Promise<unknown> = Promise.resolve()
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
    const { isEnabled, intervalMs } = this.#options.settings()
    if (!isEnabled) return undefined
    const unavailable = this.#whyUnavailable()
    if (unavailable !== undefined) return { state: 'unavailable', message: unavailable }
    if (!this.#sampler) return { state: 'idle', message: 'Power is not measured while nobody looks.' }
    const every = howOften(intervalMs)
    switch (this.#reading?.kind) {
      case undefined: {
        const soonest = formatSeconds(2 * nextIntervalMs(intervalMs))
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

  /** Undefined while there are none; never older than a powermetrics that hangs may be. */
  get figures(): PowerFigures | undefined {
    return this.#figures
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
        else this.#end()
      }, lookMs).unref()
    }
    if (this.#sampler) return
    this.#sampler = this.#begin()
    this.#show(undefined)
  }

  /** What is set counts now, also for who looks already. */
  settingsChanged(): void {
    const { settings, hasReaders } = this.#options
    const { isEnabled, intervalMs } = settings()
    if (isEnabled) this.#tellOfSettings()
    const wasWatched = this.#sampler !== undefined
    if (!isEnabled || this.#sampler?.intervalMs !== nextIntervalMs(intervalMs)) this.#end()
    if (wasWatched || hasReaders()) this.look()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnding = true
    this.#end()
    await this.#ended
  }

  #begin(): PowerSampler {
    const { settings, log, commands = macCommands, stallMs, kill } = this.#options
    const intervalMs = nextIntervalMs(settings().intervalMs)
    const onReading = (reading: Reading): void => {
      this.#reading = reading
      this.#show(reading.kind === 'sample' ? plausibleWatts(reading.sample) : undefined)
    }
    return new PowerSampler({ commands, intervalMs, onReading, log, stallMs, kill }, this.#exited)
  }

  #end(): void {
    clearTimeout(this.#lookTimer)
    this.#lookTimer = undefined
    const sampler = this.#sampler
    this.#sampler = undefined
    this.#reading = undefined
    this.#ended = Promise.all([this.#ended, sampler?.stop()])
    this.#exited = Promise.all([this.#exited, sampler?.exited])
    this.#show(undefined)
  }

  #show(figures: PowerFigures | undefined): void {
    this.#figures = figures
    this.#options.onChange(figures)
  }

  #whyUnavailable(): string | undefined {
    const { platform, commands, settings } = this.#options
    const { powermetrics } = settings()
    if (powermetrics !== macCommands.powermetrics) {
      return `Power is not measured with ${powermetrics}: sudo's rule names ${macCommands.powermetrics}, so leave out --powermetrics-bin.`
    }
    return platform === 'darwin' || commands !== undefined
      ? undefined
      : 'Power is not measured on Linux: it is read from powermetrics, which only macOS has.'
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

function howOften(wantedMs: number): string {
  const chosen = nextIntervalMs(wantedMs)
  const other =
    chosen === wantedMs ? '' : `, not every ${formatSeconds(wantedMs)}, since sudo's rule names 0.5, 1, 2, 5 and 10 s`
  return `Power is measured every ${formatSeconds(chosen)}${other}.`
}
