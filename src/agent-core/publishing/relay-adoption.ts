import type { Logger } from '../observability/logger.ts'
import { refKey } from '../util/object-key.ts'
import { type PublishTarget, serviceNameOf } from './objects.ts'

/** LLMKube's controller takes a service up within seconds, once its relay's image is there; its own agent speaks up after this time too. */
const adoptedWithinMs = 300_000
const usualLookEveryMs = 30_000

export interface RelayAdoptionOptions {
  /** Services that pods reach by a relay alone. */
  readonly relayed: () => readonly PublishTarget[]
  /** Whether the Service that pods ask leads to one. Throws ApiError. */
  readonly leadsToRelay: (target: PublishTarget) => Promise<boolean>
  readonly generationOf: (target: PublishTarget) => number | undefined
  /** Called once for each generation of an InferenceService, with a sentence. */
  readonly onNotAdopted: (key: string, message: string) => void
  readonly log: Logger
  readonly monotonicNow: () => number
  readonly lookEveryMs?: number | undefined
}

/** Notices services that are published for a relay alone, and that LLMKube's controller leads to none: no pod reaches them. */
export class RelayAdoption implements Disposable {
  readonly #options: RelayAdoptionOptions
  /** By key: since when it is published so. */
  readonly #since = new Map<string, number>()
  readonly #told = new Map<string, string>()
  #timer: NodeJS.Timeout | undefined
  #isStopped = false

  constructor(options: RelayAdoptionOptions) {
    this.#options = options
  }

  /** To be called while something is published for a relay alone. */
  watch(): void {
    if (this.#isStopped) return
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      void this.#look().then(() => {
        if (this.#since.size > 0) this.watch()
      })
    }, this.#options.lookEveryMs ?? usualLookEveryMs).unref()
  }

  [Symbol.dispose](): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  /** Never rejects: what cannot be read decides nothing, and is read again at the next look. */
  async #look(): Promise<void> {
    const { relayed, monotonicNow, log } = this.#options
    const targets = relayed()
    const keys = new Set(targets.map(refKey))
    for (const one of [this.#since, this.#told]) for (const key of one.keys()) if (!keys.has(key)) one.delete(key)
    for (const target of targets) {
      const key = refKey(target)
      const since = this.#since.get(key) ?? monotonicNow()
      this.#since.set(key, since)
      if (monotonicNow() - since < adoptedWithinMs) continue
      try {
        await this.#lookAt(key, target)
      } catch (error) {
        log.debug('adoption not checked', { key, error })
      }
    }
  }

  async #lookAt(key: string, target: PublishTarget): Promise<void> {
    const { leadsToRelay, generationOf, onNotAdopted } = this.#options
    const about = `${target.uid} ${generationOf(target) ?? 0}`
    if (this.#told.get(key) === about || (await leadsToRelay(target)) || this.#isStopped) return
    this.#told.set(key, about)
    onNotAdopted(
      key,
      `LLMKube's controller routes Service ${serviceNameOf(target.name)} to no relay, so no pod reaches this model. Controllers older than 0.10 have no relays: set --publish auto or direct for them.`,
    )
  }
}
