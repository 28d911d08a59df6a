import { refKey } from '../util/object-key.ts'
import type { Logger } from '../observability/logger.ts'
import { isHeld } from './claim.ts'
import type { ClaimedSlices } from './claimed-slices.ts'
import type { EndpointsWriter } from './endpoints-writer.ts'
import { renewEveryMs } from './heartbeat-pulse.ts'
import type { Publication, Published, PublishTarget } from './objects.ts'
import { publishedOf } from './slice-object.ts'
import { isAnswered } from './settled-write.ts'
import { done } from './write-result.ts'

/** So often Endpoints that say ready are tried to be written before the claim is given up without it. */
const lastWriteTries = 3

export interface EndpointsUpkeepOptions {
  readonly endpoints: EndpointsWriter
  readonly slices: Pick<ClaimedSlices, 'held' | 'of'>
  readonly publication: (target: PublishTarget, published: Published | undefined) => Publication
  /** Where they are looked for; undefined = in all namespaces. */
  readonly namespace: string | undefined
  readonly log: Logger
  readonly signal: AbortSignal
  /** Between two looks. */
  readonly everyMs: number | undefined
}

/** Keeps the Endpoints of held claims as their slices are, between the writes of these and with the last of them. */
export class EndpointsUpkeep implements Disposable {
  readonly #options: EndpointsUpkeepOptions
  /** How often in a row the Endpoints of a claim that is given up could not be written. */
  readonly #lastWriteFailures = new Map<string, number>()
  #timer: NodeJS.Timeout | undefined
  /** Each renewal of a claim asks for its Endpoints, as they may not be listed. */
  #asksForEach = false

  constructor(options: EndpointsUpkeepOptions) {
    this.#options = options
  }

  /** Looks at them from now on. */
  start(): void {
    this.#timer = setTimeout(() => {
      void this.#look().finally(() => {
        if (!this.#options.signal.aborted) this.start()
      })
    }, this.#options.everyMs ?? renewEveryMs).unref()
  }

  /** With a renewal of the claim. */
  renewed(target: PublishTarget, published: Published | undefined): Promise<void> {
    return this.#keep(target, published, { reread: this.#asksForEach })
  }

  /** Endpoints that the cluster refuses again and again do not keep other agents from the claim. */
  async writeLast(target: PublishTarget, published: Published | undefined): Promise<void> {
    const { endpoints, publication, log } = this.#options
    const key = refKey(target)
    try {
      await endpoints.write(publication(target, published), { reread: !endpoints.has(key), despiteOthers: true })
    } catch (error) {
      if (!isAnswered(error)) throw error
      const failures = (this.#lastWriteFailures.get(key) ?? 0) + 1
      this.#lastWriteFailures.set(key, failures)
      if (failures < lastWriteTries) throw error
      log.warn('Endpoints left as they are', { key, error })
    }
    this.#lastWriteFailures.delete(key)
  }

  /** The signal must have been aborted before. */
  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
  }

  /** Beside other work, which goes on also where this fails: the next look tries again. */
  async #keep(
    target: PublishTarget,
    published: Published | undefined,
    options?: { readonly reread: boolean },
  ): Promise<void> {
    const { endpoints, publication, log } = this.#options
    try {
      await endpoints.write(publication(target, published), options)
    } catch (error) {
      log.debug('Endpoints not kept', { key: refKey(target), error })
    }
  }

  /** Lists the Endpoints once, to find and correct foreign changes; without the list it corrects those known to differ. */
  async #look(): Promise<void> {
    const { endpoints, slices, namespace, log, signal } = this.#options
    try {
      this.#asksForEach = !(await endpoints.lookAtAll(namespace))
    } catch (error) {
      if (signal.aborted) return
      log.debug('Endpoints not looked at', { error })
    }
    await Promise.all(slices.held().map((target) => this.#mend(target)))
  }

  async #mend(target: PublishTarget): Promise<void> {
    const slice = this.#options.slices.of(target)
    await slice.inTurn(async () => {
      // What is wanted may have changed while this waited for its turn.
      const wanted = slice.heldFor
      const cached = wanted && slice.cached(wanted)
      if (cached && isHeld(slice.judge(wanted))) await this.#keep(wanted, publishedOf(cached))
      return done
    })
  }
}
