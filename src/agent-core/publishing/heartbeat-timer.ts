import { jitteredMs } from '../util/back-off.ts'
import type { HeartbeatPulse } from './heartbeat-pulse.ts'

const retry = { firstMs: 1_000, maxMs: 15_000 }
/** After a start or a gap the holder must be heard soon, but not in one burst for all its services. */
const soonMs = 2_000

export type Beat = 'renewed' | 'failed' | 'ended'

/** Calls `beat` again and again until it says that there is nothing left to renew. */
export class HeartbeatTimer {
  readonly #beat: () => Promise<Beat>
  readonly #random: () => number
  readonly #pulse: HeartbeatPulse
  readonly #renewal = (): Promise<void> => this.#tick()
  #failures = 0
  #timer: NodeJS.Timeout | undefined
  #stopped = false

  /** `beat` must not throw. */
  constructor(options: {
    readonly beat: () => Promise<Beat>
    readonly random: () => number
    readonly pulse: HeartbeatPulse
  }) {
    this.#beat = options.beat
    this.#random = options.random
    this.#pulse = options.pulse
  }

  /** Another write has just renewed the claim. */
  renewed(): void {
    this.#failures = 0
    this.#rest()
    if (!this.#stopped) this.#pulse.join(this.#renewal)
  }

  soon(): void {
    this.#schedule(Math.min(soonMs, this.#pulse.everyMs) * this.#random())
  }

  [Symbol.dispose](): void {
    this.#stopped = true
    this.#rest()
  }

  #schedule(delayMs: number): void {
    this.#rest()
    if (!this.#stopped) this.#timer = setTimeout(() => void this.#tick(), delayMs)
  }

  #rest(): void {
    clearTimeout(this.#timer)
    this.#pulse.leave(this.#renewal)
  }

  async #tick(): Promise<void> {
    if (this.#stopped) return
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
    const maxMs = Math.min(retry.maxMs, this.#pulse.everyMs)
    this.#schedule(jitteredMs({ ...retry, maxMs }, this.#failures, this.#random))
  }
}
