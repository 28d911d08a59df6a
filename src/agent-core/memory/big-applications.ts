import type { Logger } from '../observability/logger.ts'
import type { BigApplication } from '../platform/platform.ts'

/** How long the list counts as current: making it costs a look at every process. */
const currentForMs = 10_000

/** The applications with the most memory, which a person could quit. */
export class BigApplications {
  readonly #ask: () => Promise<readonly BigApplication[]>
  readonly #log: Logger
  #latest: { readonly at: number; readonly found: readonly BigApplication[] } | undefined

  constructor(ask: () => Promise<readonly BigApplication[]>, log: Logger) {
    this.#ask = ask
    this.#log = log
  }

  /** The biggest first; empty where they are not known. */
  get found(): readonly BigApplication[] {
    return this.#latest?.found ?? []
  }

  /** Never rejects. */
  async refresh(): Promise<void> {
    const now = performance.now()
    if (this.#latest && now - this.#latest.at < currentForMs) return
    try {
      this.#latest = { at: now, found: await this.#ask() }
    } catch (error) {
      this.#log.debug('biggest applications not known', { error })
    }
  }
}
