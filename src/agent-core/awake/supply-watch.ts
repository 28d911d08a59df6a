import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'
import type { PowerSupply } from '../platform/power-supply.ts'

export interface SupplyWatchOptions {
  readonly platform: Pick<Platform, 'powerSupply'>
  readonly log: Logger
  readonly onChange: () => void
  readonly everyMs?: number
}

/** A person who pulls the plug waits no longer for what follows. */
const batteryEveryMs = 15_000
/** A battery may be added, or Low Power Mode chosen. */
const otherwiseEveryMs = 300_000

/** What the machine runs on, as of a moment ago. */
export class SupplyWatch implements Disposable {
  readonly #options: SupplyWatchOptions
  #current: PowerSupply | undefined
  #next: NodeJS.Timeout | undefined
  #isFailing = false
  #isEnded = false

  constructor(options: SupplyWatchOptions) {
    this.#options = options
  }

  /** Undefined where the system does not say. */
  get current(): PowerSupply | undefined {
    return this.#current
  }

  /** Never rejects. Looks once, and again and again from then on. */
  async look(): Promise<void> {
    const { platform, log, onChange, everyMs } = this.#options
    clearTimeout(this.#next)
    try {
      const found = await platform.powerSupply()
      this.#isFailing = false
      const isNews = JSON.stringify(found) !== JSON.stringify(this.#current)
      this.#current = found
      if (isNews && !this.#isEnded) onChange()
    } catch (error) {
      if (!this.#isFailing) log.warn('power supply not known', { error })
      this.#isFailing = true
    }
    if (this.#isEnded) return
    const waitMs = everyMs ?? (this.#current?.charge === undefined ? otherwiseEveryMs : batteryEveryMs)
    this.#next = setTimeout(() => void this.look(), waitMs).unref()
  }

  [Symbol.dispose](): void {
    this.#isEnded = true
    clearTimeout(this.#next)
  }
}
