import type { Logger } from '../../observability/logger.ts'
import type { Platform } from '../../platform/platform.ts'
import type { PowerSupply } from '../../platform/power-supply.ts'

export interface SupplyWatchOptions {
  readonly platform: Pick<Platform, 'powerSupply'>
  readonly log: Logger
  readonly onChange: (isOtherSource: boolean) => void
  /** Something hangs on the supply, or somebody looks at it; {@link SupplyWatch.review} is to be called when that changes. */
  readonly isNeeded: () => boolean
  /** For tests, needed or not. */
  readonly everyMs?: number
}

/** Between two looks while it is needed: pulling the plug is noticed within this time. */
const neededEveryMs = 15_000
/** Where nothing needs the figures each look would be two commands for nothing; the next request on mains finds what is known no older than this. */
const batteryEveryMs = 150_000
/** A battery may be added, or Low Power Mode chosen. */
const otherwiseEveryMs = 300_000
/** What was known before so many looks that failed counts no more. */
const mostFailures = 3

/** What the machine runs on, as of a moment ago. */
export class SupplyWatch implements Disposable {
  readonly #options: SupplyWatchOptions
  #current: PowerSupply | undefined
  #next: NodeJS.Timeout | undefined
  /** On the monotonic clock. */
  #lookedAt = -Infinity
  #look: Promise<void> | undefined
  /** Looks in a row that failed. */
  #failures = 0
  #isEnded = false

  constructor(options: SupplyWatchOptions) {
    this.#options = options
  }

  /** Undefined where the system does not say, or has not answered several times in a row. */
  get current(): PowerSupply | undefined {
    return this.#current
  }

  /** Never rejects. Looks once, and again and again from then on. */
  look(): Promise<void> {
    return (this.#look ??= this.#lookOnce().finally(() => (this.#look = undefined)))
  }

  /** The system says that it changed: a look that runs may have asked before that. Never rejects. */
  async changed(): Promise<void> {
    await this.#look
    await this.look()
  }

  /** It may be needed now, or no longer: looks at once where what is known is too old for that. */
  review(): void {
    if (this.#isEnded || this.#look) return
    const restMs = this.#lookedAt + this.#everyMs - performance.now()
    if (restMs <= 0) void this.look()
    else this.#plan(restMs)
  }

  /** For one look: never older than while it is needed. */
  async fresh(): Promise<void> {
    if (performance.now() - this.#lookedAt >= neededEveryMs) await this.look()
    else await this.#look
  }

  async #lookOnce(): Promise<void> {
    const { platform, log, onChange } = this.#options
    clearTimeout(this.#next)
    this.#lookedAt = performance.now()
    try {
      const found = await platform.powerSupply()
      this.#failures = 0
      this.#take(found, onChange)
    } catch (error) {
      if (this.#failures === 0) log.warn('power supply not known', { error })
      this.#failures += 1
      if (this.#failures >= mostFailures) this.#take(undefined, onChange)
    }
    if (!this.#isEnded) this.#plan(this.#everyMs)
  }

  get #everyMs(): number {
    const { isNeeded, everyMs } = this.#options
    if (everyMs !== undefined) return everyMs
    if (this.#current?.charge === undefined) return otherwiseEveryMs
    return isNeeded() ? neededEveryMs : batteryEveryMs
  }

  #plan(waitMs: number): void {
    clearTimeout(this.#next)
    this.#next = setTimeout(() => void this.look(), waitMs).unref()
  }

  #take(found: PowerSupply | undefined, onChange: (isOtherSource: boolean) => void): void {
    const before = this.#current
    this.#current = found
    if (this.#isEnded || JSON.stringify(found) === JSON.stringify(before)) return
    onChange(found?.source !== before?.source)
  }

  [Symbol.dispose](): void {
    this.#isEnded = true
    clearTimeout(this.#next)
  }
}
