import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'
import type { PowerSupply } from '../platform/power-supply.ts'

export interface SupplyWatchOptions {
  readonly platform: Pick<Platform, 'powerSupply'>
  readonly log: Logger
  readonly onChange: (isOtherSource: boolean) => void
  readonly everyMs?: number
}

/** Between two looks at the supply: pulling the plug is noticed within this time. */
const batteryEveryMs = 15_000
/** What was known before so many looks that failed counts no more. */
const mostFailures = 3
/** A battery may be added, or Low Power Mode chosen. */
const otherwiseEveryMs = 300_000

/** What the machine runs on, as of a moment ago. */
export class SupplyWatch implements Disposable {
  readonly #options: SupplyWatchOptions
  #current: PowerSupply | undefined
  #next: NodeJS.Timeout | undefined
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
  async look(): Promise<void> {
    const { platform, log, onChange, everyMs } = this.#options
    clearTimeout(this.#next)
    try {
      const found = await platform.powerSupply()
      this.#failures = 0
      this.#take(found, onChange)
    } catch (error) {
      if (this.#failures === 0) log.warn('power supply not known', { error })
      this.#failures += 1
      if (this.#failures >= mostFailures) this.#take(undefined, onChange)
    }
    if (this.#isEnded) return
    const waitMs = everyMs ?? (this.#current?.charge === undefined ? otherwiseEveryMs : batteryEveryMs)
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
