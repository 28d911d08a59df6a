import { refKey } from '../util/object-key.ts'
import type { EndpointSlice } from '../kube/resources.ts'
import { ClaimedSlice, type ClaimedSliceOptions } from './claimed-slice.ts'
import { HeartbeatWatch } from './heartbeat-watch.ts'
import { holderOf } from './claim-text.ts'
import { annotations, serviceNameOf, targetOf, type PublishTarget } from './objects.ts'
import type { SliceView } from './slice-claim.ts'
import { heartbeatOf } from './slice-object.ts'

/** Stamps and the `Date` header have whole seconds each. */
const stampErrorMs = 2_000

/** The slices of all InferenceServices by namespace/name, and for how long each holder has been silent. */
export class ClaimedSlices {
  readonly #options: ClaimedSliceOptions
  readonly #watch: HeartbeatWatch
  readonly #slices = new Map<string, ClaimedSlice>()
  readonly #unsubscribe: () => void

  constructor(options: ClaimedSliceOptions) {
    this.#options = options
    this.#watch = new HeartbeatWatch(options)
    this.#unsubscribe = options.slices.cache.onChange(({ before, after }) => {
      if (after) this.#hear(after)
      else if (before) this.#watch.forget(before.metadata.uid)
    })
  }

  of(target: PublishTarget): ClaimedSlice {
    const key = refKey(target)
    const known = this.#slices.get(key)
    if (known) return known
    const slice = new ClaimedSlice(key, this.#options, (cached) => this.#silentMs(cached))
    this.#slices.set(key, slice)
    return slice
  }

  /** From the cache alone. */
  view(target: PublishTarget): SliceView {
    const { cache } = this.#options.slices
    const isThere = cache.get(target.namespace, serviceNameOf(target.name)) !== undefined
    const slice = isThere ? this.of(target) : this.#slices.get(refKey(target))
    return slice?.view(target) ?? { slice: undefined, claim: { kind: 'absent' }, recheckInMs: undefined }
  }

  /** What the claims are held for. */
  held(): PublishTarget[] {
    return [...this.#slices.values()].flatMap(({ heldFor }) => heldFor ?? [])
  }

  /** Of the claims that are held. */
  heartbeatAgesMs(): number[] {
    return [...this.#slices.values()].flatMap(({ heartbeatAgeMs }) => heartbeatAgeMs ?? [])
  }

  /** Holds what an agent of this machine before this one claimed, where nothing has asked for it yet. */
  findOwn(): void {
    const { slices, node } = this.#options
    for (const slice of [...slices.cache.values()]) {
      const target = targetOf(slice)
      if (!target || holderOf(slice.metadata.annotations[annotations.claim]) !== node) continue
      const found = this.of(target)
      if (!found.heldFor) found.judge(target)
    }
  }

  /** What waits for its turn is not written any more. */
  dropWaiting(): void {
    for (const slice of this.#slices.values()) slice.dropWaiting()
  }

  watchGap(): void {
    this.#watch.watchGap()
    for (const slice of this.#slices.values()) slice.watchGap()
  }

  setWatchLive(live: boolean): void {
    if (live === this.#watch.isLive) return
    this.#watch.setLive(live)
    if (live) return
    for (const slice of this.#slices.values()) slice.watchGap()
  }

  forget(key: string): void {
    this.#slices.get(key)?.forget()
    this.#slices.delete(key)
  }

  /** The signal must have been aborted before. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#unsubscribe()
    await Promise.all([...this.#slices.values()].map((slice) => slice[Symbol.asyncDispose]()))
  }

  #silentMs(slice: EndpointSlice): number {
    this.#hear(slice)
    return this.#watch.silentMs(slice.metadata.uid)
  }

  #hear(slice: EndpointSlice): void {
    const { uid } = slice.metadata
    // A new holder is a sign of life, even within the second of the old one's last heartbeat.
    const sign = `${heartbeatOf(slice)} ${slice.metadata.annotations[annotations.claim] ?? ''}`
    this.#watch.observe(uid, sign, this.#watch.hasSeen(uid) ? 0 : this.#stampedSilenceMs(slice))
  }

  /** For how long a holder has been silent by the server's own stamps. */
  #stampedSilenceMs({ metadata }: EndpointSlice): number {
    const stamps = metadata.managedFields
      .map(({ time }) => Date.parse(time ?? ''))
      .filter((stamp) => !Number.isNaN(stamp))
    return stamps.length === 0 ? 0 : this.#options.api.serverNow() - Math.max(...stamps) - stampErrorMs
  }
}
