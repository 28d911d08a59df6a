import { jitteredMs } from '../support/back-off.ts'

/** LLMKube calls an agent gone after 180 s: this leaves room for three misses. */
export const renewEveryMs = 45_000
/** Many agents that started together must not stay in step. */
const jitter = 0.1
const retry = { firstMs: 1_000, maxMs: 15_000 }
/** After a start or a gap the holder must be heard soon, but not in one burst for all its services. */
const soonMs = 2_000

export type Beat = 'renewed' | 'failed' | 'ended'

/** Calls `beat` again and again until it says that there is nothing left to renew. */
export class HeartbeatTimer {
  readonly #beat: () => Promise<Beat>
  readonly #random: () => number
  readonly #everyMs: number
  #failures = 0
  #timer: NodeJS.Timeout | undefined
  #stopped = false

  /** `beat` must not throw. */
  constructor(options: {
    readonly beat: () => Promise<Beat>
    readonly random: () => number
    readonly everyMs?: number | undefined
  }) {
    this.#beat = options.beat
    this.#random = options.random
    this.#everyMs = options.everyMs ?? renewEveryMs
  }

  /** Another write has just renewed the claim. */
  renewed(): void {
    this.#failures = 0
    this.#schedule(this.#everyMs * (1 - jitter + 2 * jitter * this.#random()))
  }

  soon(): void {
    this.#schedule(Math.min(soonMs, this.#everyMs) * this.#random())
  }

  [Symbol.dispose](): void {
    this.#stopped = true
    clearTimeout(this.#timer)
  }

  #schedule(delayMs: number): void {
    clearTimeout(this.#timer)
    if (!this.#stopped) this.#timer = setTimeout(() => void this.#tick(), delayMs)
  }

  async #tick(): Promise<void> {
    const beat = await this.#beat()
    if (beat === 'ended') {
      this[Symbol.dispose]()
      return
    }
    if (beat === 'renewed') {
      this.renewed()
      return
    }
    this.#failures += 1
    const maxMs = Math.min(retry.maxMs, this.#everyMs)
    this.#schedule(jitteredMs({ ...retry, maxMs }, this.#failures, this.#random))
  }
}
