import type { Logger } from '../observability/logger.ts'
import { backOffCeilingMs } from '../util/back-off.ts'
import { within } from '../util/within.ts'
import type { PowerIntervalMs } from './intervals.ts'
import type { PowerSample, PowerSource } from './power-source.ts'
import { startProgram, type Kill, type ProgramLife } from './program-run.ts'

export type Reading =
  | { readonly kind: 'sample'; readonly sample: PowerSample }
  /** From now on there is none, until the next sample; one sentence why. */
  | { readonly kind: 'failed'; readonly message: string }
  /** The same, and it is not tried again before a person does something. */
  | { readonly kind: 'stuck'; readonly message: string }

interface SamplerOptions {
  readonly source: PowerSource
  readonly intervalMs: PowerIntervalMs
  readonly onReading: (reading: Reading) => void
  readonly log: Logger
  /** Without a sample for so long the program hangs, and its last figures are old; absent = as the interval asks for. */
  readonly stallMs?: number | undefined
  readonly kill?: Kill | undefined
}

/** sudo writes each refusal to the system's log, so that a rule that is missing is not asked for every second. */
const backOff = { firstMs: 1_000, maxMs: 60_000 }
/** As many samples, and its next end is the first failure again. */
const soundSamples = 10

/** A sample is known to be whole when the next one begins, and a machine that swaps is late. */
const stallLimitMs = (intervalMs: number): number => 3 * intervalMs + 5_000

/** Keeps a source of power running until it is stopped: what ends or hangs is started anew, with back-off. */
export class PowerSampler {
  /** Settles when it was stopped and its program has exited, however long that takes. */
  readonly exited: Promise<unknown>
  readonly #options: SamplerOptions
  readonly #stop = new AbortController()
  readonly #stopped: Promise<void>
  readonly #kept: Promise<void>
  #life: ProgramLife | undefined
  #told: string | undefined

  /** Begins once `after` has settled, so that there is one program of a source at a time. */
  constructor(options: SamplerOptions, after: Promise<unknown>) {
    this.#options = options
    const { signal } = this.#stop
    this.#stopped = new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
    this.#kept = this.#keep(after)
    this.exited = this.#kept.then(() => this.#life?.exited)
  }

  /** Resolves when the program has ended, or cannot be waited for any longer. Nothing is read any more at once. */
  stop(): Promise<void> {
    this.#stop.abort()
    return this.#kept
  }

  /** Never rejects: nobody waits for it while it measures. */
  async #keep(after: Promise<unknown>): Promise<void> {
    const { signal } = this.#stop
    await this.#untilGone(after)
    let failures = 0
    while (!signal.aborted) {
      const samples = await this.#once()
      failures = samples >= soundSamples ? 1 : failures + 1
      await within(backOffCeilingMs(backOff, failures), this.#stopped)
    }
  }

  async #once(): Promise<number> {
    const { source, intervalMs, kill } = this.#options
    const { signal } = this.#stop
    const command = await source.command(intervalMs)
    if (signal.aborted) return 0
    if (typeof command === 'string') {
      this.#tell({ kind: 'failed', message: command })
      return 0
    }
    let samples = 0
    const life = startProgram({
      command,
      reader: source.reader(),
      stallMs: this.#stallMs,
      signal,
      kill,
      onSample: (sample) => {
        if (signal.aborted) return
        samples += 1
        this.#told = undefined
        this.#report({ kind: 'sample', sample })
      },
    })
    this.#life = life
    const end = await life.ended
    // Before it is gone, which may take long: what it measured is old by now.
    this.#tell({ kind: 'failed', message: await source.whyEnded(end) })
    await life.released
    await this.#untilGone(life.exited)
    return samples
  }

  /** Waits for a program that is to end, and says so where that takes long: none is started beside it. */
  async #untilGone(exited: Promise<unknown>): Promise<void> {
    const timer = setTimeout(() => this.#tell({ kind: 'stuck', message: this.#options.source.stuck }), this.#stallMs)
    await Promise.race([exited, this.#stopped])
    clearTimeout(timer)
  }

  #tell(reading: Exclude<Reading, { kind: 'sample' }>): void {
    if (this.#stop.signal.aborted) return
    this.#report(reading)
    const { message } = reading
    if (message !== this.#told) this.#options.log.warn('power is not measured', { text: message })
    this.#told = message
  }

  /** A defect of what is done with a reading must not end the measurement, nor leave its program behind. */
  #report(reading: Reading): void {
    try {
      this.#options.onReading(reading)
    } catch (error) {
      this.#options.log.error('a defect of what takes a reading of power', { error })
    }
  }

  get #stallMs(): number {
    const { stallMs, intervalMs } = this.#options
    return stallMs ?? stallLimitMs(intervalMs)
  }
}
