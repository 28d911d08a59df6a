import type { KubeApi } from '../kube/kube-api.ts'
import type { EndpointSlice } from '../kube/resources.ts'
import { isDeletable, isHeld, type ClaimJudgement } from './claim.ts'
import {
  claimStep,
  publishStep,
  renewStep,
  takeOverStep,
  withdrawStep,
  type HoldStep,
  type SliceFacts,
} from './hold-step.ts'
import { serviceNameOf, type Published, type PublishTarget } from './objects.ts'
import { SliceClaim, type SliceClaimOptions, type SliceView } from './slice-claim.ts'
import {
  heartbeatPatch,
  publishedOf,
  sliceBody,
  sliceIsCurrent,
  slicePatch,
  toldBy,
  toldIn,
  withdrawPatch,
} from './slice-object.ts'
import { settledWrite, type WriteStep } from './settled-write.ts'
import { Turns } from './turns.ts'
import { watchedStore } from './watched-kind.ts'
import { done, lostTo, type WriteResult } from './write-result.ts'

export interface ClaimedSliceOptions extends SliceClaimOptions {
  readonly api: KubeApi
  /** Called within the same turn. */
  readonly onRenewed: (target: PublishTarget, slice: EndpointSlice) => Promise<void>
}

/** How a write ended, and whether it was to say something else than before. */
export interface SliceChange {
  readonly result: WriteResult
  readonly changed: boolean
}

/**
 * The EndpointSlice of one InferenceService, which is its claim: written, and renewed while it is ours.
 * Everything that writes must run in its turn ({@link ClaimedSlice.inTurn}).
 */
export class ClaimedSlice {
  readonly #options: ClaimedSliceOptions
  readonly #turns: Turns
  readonly #claim: SliceClaim

  /** `silentMs` takes notice of a slice and says for how long its holder has been silent. */
  constructor(key: string, options: ClaimedSliceOptions, silentMs: (slice: EndpointSlice) => number) {
    this.#options = options
    this.#turns = new Turns(options.signal)
    this.#claim = new SliceClaim(key, options, {
      silentMs,
      renew: (heldFor) =>
        this.#turns.take(async () => {
          const target = heldFor()
          return target && this.#renew(target)
        }),
    })
  }

  /** Whom we hold the claim for, as it was wanted last. */
  get heldFor(): PublishTarget | undefined {
    return this.#claim.heldFor
  }

  /** Since its last renewal; undefined: the claim is not ours. */
  get heartbeatAgeMs(): number | undefined {
    return this.#claim.heartbeatAgeMs
  }

  /** What the cache says must be confirmed before it is acted on. */
  get isDoubtful(): boolean {
    return this.#claim.isDoubtful
  }

  cached(target: PublishTarget): EndpointSlice | undefined {
    return this.#claim.cached(target)
  }

  /** From the cache alone. */
  view(target: PublishTarget): SliceView {
    return this.#claim.view(target)
  }

  /** Reads the holder from the cache; adopts a slice of ours and lets go of a foreign one. */
  judge(target: PublishTarget): ClaimJudgement {
    return this.#claim.judge(target)
  }

  /** After all earlier turns; not at all where a gap in the watch has made it obsolete. */
  inTurn(work: () => Promise<WriteResult>): Promise<WriteResult> {
    return this.#turns.take(work)
  }

  /** Takes a slice that is free or was released; verifies a slice of ours. */
  async claim(target: PublishTarget): Promise<WriteResult> {
    return (await this.#write(target, this.cached(target), claimStep)).result
  }

  /** Takes it from a dead holder, by what the server says now. */
  async takeOver(target: PublishTarget): Promise<WriteResult> {
    return (await this.#write(target, 'unread', takeOverStep)).result
  }

  /** Says where the server listens, and whether it answers. */
  publish(target: PublishTarget, published: Published): Promise<SliceChange> {
    const isCurrent = (slice: EndpointSlice, epoch: number): boolean =>
      !this.isDoubtful && sliceIsCurrent(slice, this.#options.publication(target, published, epoch))
    return this.#write(target, this.cached(target), (facts) => publishStep(facts, published, isCurrent))
  }

  /** Not ready any more; the claim stays. */
  withdraw(target: PublishTarget): Promise<SliceChange> {
    return this.#write(target, this.cached(target), withdrawStep)
  }

  /** Takes a dead holder's address out of service; the claim stays. */
  async withdrawDead(target: PublishTarget): Promise<WriteResult> {
    let isWritten: boolean | undefined
    const result = await this.#settle(target, 'unread', ({ claim, slice }) => {
      isWritten = slice !== undefined && claim.kind === 'dead' && claim.ready
      return slice && isWritten
        ? { do: 'patch', object: slice, body: withdrawPatch(slice) }
        : { do: 'stop', result: done }
    })
    if (isWritten && result.kind === 'done') this.#claim.withdrewUnheld()
    return result
  }

  /** Done where the claim is ours; asks the server where that is doubtful. */
  async confirm(target: PublishTarget): Promise<WriteResult> {
    const claim = this.judge(target)
    if (!isHeld(claim)) return lostTo(claim, target)
    return this.isDoubtful ? this.#renew(target) : done
  }

  /** Not ready any more, and free for any agent. */
  async release(target: PublishTarget): Promise<WriteResult> {
    const result = await this.#settle(target, this.cached(target), ({ claim, slice }) => {
      if (!slice || !isHeld(claim)) return { do: 'stop', result: done }
      const shown = publishedOf(slice)
      const released = this.#options.publication(target, shown && { ...shown, ready: false }, undefined)
      return { do: 'patch', object: slice, body: slicePatch(released, slice) }
    })
    this.#claim.end()
    return result
  }

  /** Only a slice that is ours or has no holder. */
  async delete(target: PublishTarget): Promise<WriteResult> {
    const result = await this.#settle(target, this.cached(target), ({ claim, slice }) => {
      if (!slice) return { do: 'stop', result: done }
      return isDeletable(claim) ? { do: 'delete', object: slice } : { do: 'stop', result: lostTo(claim, target) }
    })
    if (result.kind === 'done') this.#claim.end()
    return result
  }

  dropWaiting(): void {
    this.#turns.dropWaiting()
  }

  /** Events may have been missed: our slices are read again before they are relied on. */
  watchGap(): void {
    this.#turns.dropWaiting()
    this.#claim.watchGap()
  }

  /** Nothing is renewed from now on, whatever a write that is under way brings. */
  forget(): void {
    this.#claim.forget()
  }

  /** The signal must have been aborted before. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#claim.letGo()
    await this.#turns.settled()
  }

  /** Says that we live; posts the slice again where it is gone. */
  async #renew(target: PublishTarget): Promise<WriteResult> {
    const { result } = await this.#write(target, this.cached(target), renewStep)
    const slice = this.cached(target)
    if (result.kind === 'done' && slice) await this.#options.onRenewed(target, slice)
    return result
  }

  /** A write that makes or keeps the claim ours. */
  async #write(
    target: PublishTarget,
    known: EndpointSlice | undefined | 'unread',
    decide: (facts: SliceFacts) => HoldStep,
  ): Promise<SliceChange> {
    let written: (() => void) | undefined
    let changed = false
    const read = known !== undefined && this.isDoubtful ? 'unread' : known
    const result = await this.#settle(target, read, (facts) => {
      written = undefined
      const step = decide(facts)
      if (step.do === 'stop') return step
      changed ||= step.do === 'write'
      const { slice } = facts
      const { epoch } = step
      const shown = slice && publishedOf(slice)
      const publication = this.#options.publication(target, step.do === 'renew' ? shown : step.published, epoch)
      const told = toldBy(publication)
      const { heartbeat } = publication
      if (step.do !== 'renew') this.#claim.writing(told)
      written = () => {
        if (step.do === 'renew')
          this.#claim.wrote('renewed', target, slice ? toldIn(slice) : told, { epoch, heartbeat })
        else this.#claim.wrote('told', target, told, { epoch, heartbeat })
      }
      if (step.do === 'create' || !slice) return { do: 'create', body: sliceBody(publication) }
      const body = step.do === 'renew' ? heartbeatPatch(publication, slice) : slicePatch(publication, slice)
      return { do: 'patch', object: slice, body }
    })
    if (result.kind === 'done') written?.()
    return { result, changed }
  }

  /** Any write, with the preconditions that make it safe. Throws where the server refuses it, which changes nothing. */
  async #settle(
    target: PublishTarget,
    known: EndpointSlice | undefined | 'unread',
    decide: (facts: SliceFacts) => WriteStep<EndpointSlice, WriteResult>,
  ): Promise<WriteResult> {
    const { api, slices, signal } = this.#options
    const settled = await settledWrite<EndpointSlice, WriteResult>({
      api,
      store: watchedStore(slices),
      namespace: target.namespace,
      name: serviceNameOf(target.name),
      signal,
      known,
      decide: (slice) => decide(this.#claim.facts(target, slice)),
    })
    if (settled.kind === 'refused') throw settled.error
    return settled.kind === 'stopped' ? settled.result : done
  }
}
