import type { Logger } from '../observability/logger.ts'
import { backOffCeilingMs } from '../support/back-off.ts'
import { within } from '../support/within.ts'
import { whyEnded } from './failure-words.ts'
import type { PowerCommands, PowerIntervalMs } from './powermetrics.ts'
import type { PowerSample } from './powermetrics-parser.ts'
import { runPowermetrics } from './powermetrics-run.ts'

export type Reading =
  | { readonly kind: 'sample'; readonly sample: PowerSample }
  /** From now on there is none, until the next sample; one sentence why. */
  | { readonly kind: 'failed'; readonly message: string }

interface SamplerOptions {
  readonly commands: PowerCommands
  readonly intervalMs: PowerIntervalMs
  readonly onReading: (reading: Reading) => void
  readonly log: Logger
  /** Without a sample for so long powermetrics hangs, and its last figures are old; absent = as the interval asks for. */
  readonly stallMs?: number | undefined
}

/** sudo writes each refusal to the system's log, so that a rule that is missing is not asked for every second. */
const backOff = { firstMs: 1_000, maxMs: 60_000 }
/** As many samples, and its next end is the first failure again. */
const soundSamples = 10

/** A sample is known to be whole when the next one begins, and a machine that swaps is late. */
const stallLimitMs = (intervalMs: number): number => 3 * intervalMs + 5_000

/** Keeps powermetrics running until it is stopped: what ends or hangs is started anew, with back-off. */
export class PowerSampler {
  readonly intervalMs: PowerIntervalMs
  readonly #options: SamplerOptions
  readonly #stop = new AbortController()
  readonly #kept: Promise<void>
  #told: string | undefined

  /** Begins once `after` has settled, so that there is one powermetrics at a time. */
  constructor(options: SamplerOptions, after: Promise<unknown>) {
    this.#options = options
    this.intervalMs = options.intervalMs
    this.#kept = this.#keep(after)
  }

  /** Resolves when powermetrics has ended. Nothing is read any more at once. */
  stop(): Promise<void> {
    this.#stop.abort()
    return this.#kept
  }

  async #keep(after: Promise<unknown>): Promise<void> {
    const { signal } = this.#stop
    const stopped = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
    await after
    let failures = 0
    while (!signal.aborted) {
      const samples = await this.#once()
      failures = samples >= soundSamples ? 1 : failures + 1
      await within(backOffCeilingMs(backOff, failures), stopped)
    }
  }

  async #once(): Promise<number> {
    const { commands, onReading, log, stallMs = stallLimitMs(this.intervalMs) } = this.#options
    const { signal } = this.#stop
    let samples = 0
    const end = await runPowermetrics({
      commands,
      intervalMs: this.intervalMs,
      stallMs,
      signal,
      onSample: (sample) => {
        if (signal.aborted) return
        samples += 1
        this.#told = undefined
        onReading({ kind: 'sample', sample })
      },
    })
    if (signal.aborted) return samples
    const message = whyEnded(end)
    onReading({ kind: 'failed', message })
    if (message !== this.#told) log.warn('power is not measured', { text: message })
    this.#told = message
    return samples
  }
}
