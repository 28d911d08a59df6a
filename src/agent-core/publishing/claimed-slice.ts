import type { EndpointSlice } from '../kube/resources.ts'
import { refKey } from '../util/object-key.ts'
import { lostTo, type ClaimJudgement, ClaimMemory, isDeletable, isHeld } from './claim.ts'
import { HeldClaim, uncertainAfterMs } from './held-claim.ts'
import {
  annotations,
  heartbeatOf,
  heartbeatPatch,
  isOfOtherType,
  type MergePatch,
  type Publication,
  type Published,
  publishedOf,
  type PublishTarget,
  sliceBody,
  sliceIsCurrent,
  slicePatch,
  sliceShows,
  type PublishedState,
  stateOf,
  stateIn,
  withdrawPatch,
} from './objects.ts'
import { type Publishing, publicationBy } from './publishing.ts'
import { type Obstacle, recheckMs } from './service.ts'
import { done, settledWrite, WriteQueue, watchedStore, type WriteResult, type WriteStep } from './writes.ts'

const firstEpoch = 1

/** What is wanted of a slice. */
export type SliceWish =
  /** To take one that is free or was released, or to verify one of ours. */
  | { readonly to: 'claim' }
  /** To say that we live; posted again where it is gone, without an address: whether the server answers is for others to say. */
  | { readonly to: 'renew' }
  /** To take it from a dead holder, by what the server says now. */
  | { readonly to: 'takeOver' }
  /** To say where the server listens, and whether it answers. */
  | { readonly to: 'publish'; readonly published: Published }
  /** To mark the address as not ready; the claim stays. */
  | { readonly to: 'withdraw' }
  /** To mark a dead holder's address as not ready; the claim stays. */
  | { readonly to: 'withdrawDead' }
  /** To tell LLMKube's controller of no ingress. */
  | { readonly to: 'withoutPin' }
  /** To mark the address as not ready, and to free the claim for any agent. */
  | { readonly to: 'release' }
  /** To delete it where it is ours or has no holder. */
  | { readonly to: 'delete' }

/** The write that a wish needs. Those that leave the claim with us name its epoch; `renew` touches nothing but the metadata. */
type SliceStep =
  | { readonly do: 'write'; readonly epoch: number; readonly published: Published | undefined }
  | { readonly do: 'renew'; readonly epoch: number }
  | { readonly do: 'patch'; readonly body: MergePatch }
  | { readonly do: 'delete' }
  | { readonly do: 'stop'; readonly result: WriteResult }

/** What a decision is based on. */
interface SliceFacts {
  readonly claim: ClaimJudgement
  readonly slice: EndpointSlice | undefined
  readonly target: PublishTarget
  /** The epoch of the claim we hold for this InferenceService, whether or not its slice exists. */
  readonly heldEpoch: number | undefined
  /** What would be written for an address. */
  readonly publicationFor: (published: Published | undefined, epoch?: number) => Publication
  readonly isDoubtful: boolean
}

const stop = (result: WriteResult): SliceStep => ({ do: 'stop', result })

function decide(facts: SliceFacts, wish: SliceWish): SliceStep {
  const { claim, slice, target, heldEpoch, publicationFor } = facts
  const lost = (): SliceStep => stop(lostTo(claim, target))
  const kept = (): SliceStep => (isHeld(claim) ? { do: 'renew', epoch: claim.epoch } : lost())
  const taken = (epoch: number): SliceStep => ({ do: 'write', epoch, published: undefined })
  const shown = slice && publishedOf(slice)
  switch (wish.to) {
    case 'claim':
    case 'renew':
      if (!slice) return taken(heldEpoch ?? firstEpoch)
      return wish.to === 'claim' && claim.kind === 'released' ? taken(firstEpoch) : kept()
    case 'takeOver':
      if (claim.kind === 'released') return taken(firstEpoch)
      return claim.kind === 'dead' ? taken(claim.epoch + 1) : kept()
    case 'publish': {
      const { published } = wish
      if (!slice && heldEpoch !== undefined) return { do: 'write', epoch: heldEpoch, published }
      if (!slice || !isHeld(claim)) return lost()
      const wanted = publicationFor(published, claim.epoch)
      // Its holder has the first try to make it again.
      if (isOfOtherType(slice, wanted)) return { do: 'delete' }
      if (!facts.isDoubtful && sliceIsCurrent(slice, wanted)) return stop(done)
      return { do: 'write', epoch: claim.epoch, published }
    }
    case 'withdraw':
      if (!slice) return stop(done)
      if (!isHeld(claim)) return lost()
      return shown?.ready === true
        ? { do: 'write', epoch: claim.epoch, published: { ...shown, ready: false } }
        : stop(done)
    case 'withdrawDead':
      return slice && claim.kind === 'dead' && claim.ready ? { do: 'patch', body: withdrawPatch(slice) } : stop(done)
    case 'withoutPin':
      return slice && isHeld(claim) && annotations.ingressPin in slice.metadata.annotations
        ? { do: 'patch', body: { metadata: { annotations: { [annotations.ingressPin]: null } } } }
        : stop(done)
    case 'release':
      return slice && isHeld(claim)
        ? { do: 'patch', body: slicePatch(publicationFor(shown && { ...shown, ready: false }), slice) }
        : stop(done)
    case 'delete':
      if (!slice) return stop(done)
      return isDeletable(claim) ? { do: 'delete' } : lost()
  }
}

/** What the cache says of one slice. */
export interface SliceView {
  readonly slice: EndpointSlice | undefined
  readonly claim: ClaimJudgement
  /** Milliseconds until time alone may change this view. */
  readonly recheckInMs: number | undefined
}

/** How a write ended, and whether it was to say something else than before. */
interface SliceChange {
  readonly result: WriteResult
  readonly changed: boolean
}

/**
 * The EndpointSlice of one InferenceService, which is its claim: judged by the cache and by our own writes, written, and renewed while it is
 * ours. Everything that writes must run in its turn ({@link ClaimedSlice.inTurn}).
 */
export class ClaimedSlice {
  readonly #key: string
  readonly #publishing: Publishing
  readonly #silentMs: (slice: EndpointSlice) => number
  readonly #onRenewed: (target: PublishTarget, published: Published | undefined) => void
  /** Namespace and name of the slice. */
  readonly #place: { readonly namespace: string; readonly name: string }
  readonly #queue: WriteQueue
  /** Writes of Service and Endpoints: a cluster that does not answer to one of them holds up no withdrawal. */
  readonly #besides: WriteQueue
  readonly #memory: ClaimMemory
  /** The claim while it is ours. */
  #held: HeldClaim | undefined
  /** Events may have been missed since our last write. */
  #hadGap = false
  #isForgotten = false
  #obstacle: Obstacle | undefined

  /** `silentMs` records the heartbeat of a slice and returns how long its holder has been silent. */
  constructor(
    target: Pick<PublishTarget, 'namespace' | 'name'>,
    publishing: Publishing,
    {
      silentMs,
      onRenewed,
    }: {
      readonly silentMs: (slice: EndpointSlice) => number
      readonly onRenewed: (target: PublishTarget, published: Published | undefined) => void
    },
  ) {
    const { node, monotonicNow, naming, signal } = publishing
    this.#key = refKey(target)
    this.#publishing = publishing
    this.#silentMs = silentMs
    this.#onRenewed = onRenewed
    this.#place = { namespace: target.namespace, name: naming.nameOf(target.name) }
    this.#queue = new WriteQueue(signal)
    this.#besides = new WriteQueue(signal)
    this.#memory = new ClaimMemory(node.id, monotonicNow)
  }

  /** The InferenceService we hold the claim for, as it was wanted last. */
  get heldFor(): PublishTarget | undefined {
    return this.#held?.target
  }

  /** Since its last renewal; undefined: the claim is not ours. */
  get heartbeatAgeMs(): number | undefined {
    return this.#held?.ageMs
  }

  /** What the cache says must be confirmed before it is acted on. */
  get isDoubtful(): boolean {
    return this.#hadGap || this.#held?.isOverdue === true
  }

  get cached(): EndpointSlice | undefined {
    const { namespace, name } = this.#place
    return this.#publishing.slices.cache.get(namespace, name)
  }

  /** Reads only the cache. */
  view(target: PublishTarget): SliceView {
    const slice = this.cached
    const obstacle = slice ? undefined : this.#obstacle
    const obstacleInMs = obstacle ? recheckMs - (this.#publishing.monotonicNow() - obstacle.at) : 0
    if (obstacle && obstacleInMs > 0) {
      return { slice, claim: { kind: 'taken', message: obstacle.message }, recheckInMs: obstacleInMs }
    }
    const claim = this.#judge(target, slice)
    return { slice, claim, recheckInMs: 'deadInMs' in claim ? claim.deadInMs : undefined }
  }

  /** Reads the holder from the cache; adopts a slice of ours and lets go of a foreign one. */
  judge(target: PublishTarget): ClaimJudgement {
    return this.#judge(target, this.cached)
  }

  /** After all earlier turns; not at all where a gap in the watch has made it obsolete. */
  inTurn(work: () => Promise<WriteResult>): Promise<WriteResult> {
    return this.#queue.add(work)
  }

  /** As {@link ClaimedSlice.inTurn}, for the objects that go with the slice: after all earlier turns of theirs. */
  beside<T>(work: () => Promise<T>): Promise<T | WriteResult> {
    return this.#besides.add(work)
  }

  /** Done where the claim is ours; asks the server where that is doubtful. */
  async confirm(target: PublishTarget): Promise<WriteResult> {
    const claim = this.judge(target)
    if (!isHeld(claim)) return lostTo(claim, target)
    return this.isDoubtful ? this.#renew(target) : done
  }

  /** Does what a wish needs, with the preconditions that make it safe. Throws where the server refuses it, which changes nothing. */
  async write(target: PublishTarget, wish: SliceWish): Promise<SliceChange> {
    const { api, slices, signal } = this.#publishing
    const isUnsure = (this.isDoubtful && this.cached !== undefined) || wish.to === 'takeOver'
    let remember: (() => void) | undefined
    let [changed, isDeletion] = [false, false]
    const settled = await settledWrite<EndpointSlice, WriteResult>({
      ...{ ...this.#place, api, signal, store: watchedStore(slices) },
      known: isUnsure || wish.to === 'withdrawDead' ? 'unread' : this.cached,
      decide: (slice) => {
        const facts = this.#facts(target, slice)
        const step = decide(facts, wish)
        isDeletion = step.do === 'delete'
        remember = undefined
        if (step.do === 'stop') return step
        if (step.do === 'write' || step.do === 'renew') {
          changed ||= step.do === 'write' && slice !== undefined
          const held = this.#holding(facts, step)
          remember = held.remember
          return held.write
        }
        if (!slice) return { do: 'stop', result: done }
        return step.do === 'delete' ? { do: 'delete', object: slice } : { ...step, object: slice }
      },
    })
    if (settled.kind === 'refused') throw settled.error
    const isWritten = settled.kind === 'written'
    // It had addresses of another type.
    if (isWritten && isDeletion && wish.to === 'publish') return this.write(target, wish)
    const result = settled.kind === 'stopped' ? settled.result : done
    if (result.kind === 'done') remember?.()
    if (wish.to === 'release' || (wish.to === 'delete' && result.kind === 'done')) this.#end()
    if (wish.to === 'withdrawDead' && isWritten) this.#memory.withdrewUnheld()
    return { result, changed }
  }

  dropWaiting(): void {
    this.#queue.dropWaiting()
    this.#besides.dropWaiting()
  }

  /** Events may have been missed: the slice is read again before it is relied on. */
  watchGap(): void {
    this.dropWaiting()
    this.#hadGap = true
    this.#held?.renewSoon()
  }

  /** Nothing is renewed from now on, whatever a write that is under way brings. */
  forget(): void {
    this.#isForgotten = true
    this.#letGo()
  }

  /** The signal must have been aborted before. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#letGo()
    await Promise.all([this.#queue.settled(), this.#besides.settled()])
  }

  #judge(target: PublishTarget, slice: EndpointSlice | undefined): ClaimJudgement {
    if (!slice) return this.#memory.judgeAbsence(target)
    const isEdited = (last: PublishedState): boolean =>
      !sliceShows(slice, publicationBy(this.#publishing, target, undefined), last)
    const claim = this.#memory.judge({ slice, silentMs: this.#silentMs(slice), isEdited }, target)
    if (claim.kind === 'ours') {
      if (!this.#held) this.#adopt(target, claim.epoch, slice)
      return this.#held?.isOverdue ? uncertain(target, claim.epoch) : claim
    }
    if (claim.kind !== 'previous') this.#letGo()
    return claim
  }

  /** After a restart, or when the answer to our own write was lost. */
  #adopt(target: PublishTarget, epoch: number, slice: EndpointSlice): void {
    this.#memory.wrote(stateIn(slice), { uid: slice.metadata.uid, epoch, heartbeat: heartbeatOf(slice) })
    this.#hold(target, epoch)
    this.#held?.renewSoon()
  }

  /** A write of ours, or the cache, has just shown that it is ours. */
  #hold(target: PublishTarget, epoch: number): void {
    if (this.#isForgotten || this.#publishing.signal.aborted) return
    const held = this.#held?.target.uid === target.uid ? this.#held : this.#newHeldClaim(target, epoch)
    if (held !== this.#held) this.#letGo()
    this.#held = held
    held.renewed(target, epoch)
    this.#hadGap = false
    this.#obstacle = undefined
  }

  #newHeldClaim(target: PublishTarget, epoch: number): HeldClaim {
    const held: HeldClaim = new HeldClaim(target, epoch, {
      key: this.#key,
      publishing: this.#publishing,
      renew: () =>
        this.#queue.add(async () => {
          if (this.#held !== held) return undefined
          const result = await this.#renew(held.target)
          if (result.kind !== 'done') this.#letGo()
          return result
        }),
      isDoubtful: () => this.isDoubtful,
    })
    return held
  }

  #letGo(): void {
    this.#held?.[Symbol.dispose]()
    this.#held = undefined
  }

  /** Forgets the slice after we released or deleted it. */
  #end(): void {
    this.#letGo()
    this.#memory.forgetWrites()
  }

  async #renew(target: PublishTarget): Promise<WriteResult> {
    const { result } = await this.write(target, { to: 'renew' })
    const slice = this.cached
    if (result.kind === 'done' && slice) this.#onRenewed(target, publishedOf(slice))
    return result
  }

  /** The request of a step that leaves the claim with us, and what is known once it was answered. */
  #holding(
    { slice, target, publicationFor }: SliceFacts,
    step: Extract<SliceStep, { do: 'write' | 'renew' }>,
  ): { readonly write: WriteStep<EndpointSlice, WriteResult>; readonly remember: () => void } {
    const { epoch } = step
    const publication = publicationFor(step.do === 'renew' ? slice && publishedOf(slice) : step.published, epoch)
    const state = stateOf(publication)
    if (step.do === 'write') this.#memory.writing(state)
    const remember = () => {
      const last = { uid: this.cached?.metadata.uid ?? '', epoch, heartbeat: publication.heartbeat }
      if (step.do === 'renew') this.#memory.renewed(last)
      else this.#memory.wrote(state, last)
      this.#hold(target, epoch)
    }
    if (!slice) return { write: { do: 'create', body: sliceBody(publication) }, remember }
    const body = step.do === 'renew' ? heartbeatPatch(publication, slice) : slicePatch(publication, slice)
    return { write: { do: 'patch', object: slice, body }, remember }
  }

  /** What a write is about to build on. */
  #facts(target: PublishTarget, slice: EndpointSlice | undefined): SliceFacts {
    const claim = this.#judge(target, slice)
    this.#held?.aimAt(target)
    if (claim.kind === 'taken') this.#obstacle = { ...claim, at: this.#publishing.monotonicNow() }
    return {
      ...{ claim, slice, target, isDoubtful: this.isDoubtful },
      heldEpoch: this.#held?.target.uid === target.uid ? this.#held.epoch : undefined,
      publicationFor: (published, epoch) => publicationBy(this.#publishing, target, published, epoch),
    }
  }
}

const uncertain = (target: PublishTarget, epoch: number): ClaimJudgement => ({
  kind: 'uncertain',
  epoch,
  message: `The claim on InferenceService ${refKey(target)} was not renewed for ${uncertainAfterMs / 1000} s, so another agent may take it; it is renewed as soon as the cluster answers.`,
})
