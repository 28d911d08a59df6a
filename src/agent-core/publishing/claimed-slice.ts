import { isApiError } from '../kube/api-error.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import type { EndpointSlice } from '../kube/resources.ts'
import type { Logger } from '../observability/logger.ts'
import { refKey, splitKey } from '../util/object-key.ts'
import { lostTo, type ClaimJudgement, ClaimMemory, isDeletable, isHeld } from './claim.ts'
import { holderOf } from './objects.ts'
import { type Beat, type HeartbeatPulse, HeartbeatTimer, HeartbeatWatch } from './heartbeat.ts'
import {
  annotations,
  heartbeatOf,
  heartbeatPatch,
  isOfOtherType,
  type Publication,
  type Published,
  publishedOf,
  type PublishTarget,
  sliceBody,
  sliceIsCurrent,
  slicePatch,
  sliceShows,
  targetOf,
  type PublishedState,
  stateOf,
  stateIn,
  withdrawPatch,
} from './objects.ts'
import { type Obstacle, recheckMs } from './service.ts'
import {
  done,
  settledWrite,
  WriteQueue,
  type WatchedKind,
  watchedStore,
  type WriteResult,
  type WriteStep,
} from './writes.ts'

/** Without a renewal for this long another agent may take the claim within seconds (180 s): it is no longer relied on. */
const uncertainAfterMs = 150_000

interface HeldClaimOptions {
  readonly key: string
  readonly log: Logger
  readonly monotonicNow: () => number
  readonly random: () => number
  readonly pulse: HeartbeatPulse
  /** In its turn; undefined = the claim was let go until then. Calls {@link HeldClaim.renewed} when it went well. */
  readonly renew: () => Promise<WriteResult | undefined>
  /** Whether the claim must be confirmed before it is relied on. */
  readonly isDoubtful: () => boolean
  /** Something changed that no watch tells: the claim was lost, or could not be renewed. */
  readonly onChange: (key: string) => void
}

/** A claim that is ours, renewed until it is let go. */
class HeldClaim {
  readonly #options: HeldClaimOptions
  readonly #timer: HeartbeatTimer
  #target: PublishTarget
  #epoch: number
  #renewedAt: number
  #saidUncertain = false
  #saidRefused = false
  #isOver = false

  constructor(target: PublishTarget, epoch: number, options: HeldClaimOptions) {
    this.#options = options
    this.#target = target
    this.#epoch = epoch
    this.#renewedAt = options.monotonicNow()
    const { random, pulse } = options
    this.#timer = new HeartbeatTimer({ beat: () => this.#beat(), random, pulse })
  }

  get target(): PublishTarget {
    return this.#target
  }

  get epoch(): number {
    return this.#epoch
  }

  get ageMs(): number {
    return this.#options.monotonicNow() - this.#renewedAt
  }

  get isOverdue(): boolean {
    return this.ageMs >= uncertainAfterMs
  }

  /** A write of ours has just renewed it. */
  renewed(target: PublishTarget, epoch: number): void {
    this.#target = target
    this.#epoch = epoch
    this.#renewedAt = this.#options.monotonicNow()
    this.#saidUncertain = false
    this.#saidRefused = false
    this.#timer.renewed()
  }

  /** What is renewed from now on is as wanted now, also where that needed no write. */
  aimAt(target: PublishTarget): void {
    if (target.uid === this.#target.uid) this.#target = target
  }

  renewSoon(): void {
    this.#timer.soon()
  }

  [Symbol.dispose](): void {
    this.#isOver = true
    this.#timer[Symbol.dispose]()
  }

  async #beat(): Promise<Beat> {
    const { key, log, renew, isDoubtful, onChange } = this.#options
    const wasUncertain = this.#saidUncertain
    try {
      const result = await renew()
      if (result === undefined) return 'ended'
      if (result.kind === 'dropped') return 'failed'
      if (result.kind !== 'done') {
        log.warn('claim lost', { key, reason: result.message })
        onChange(key)
        return 'ended'
      }
      if (wasUncertain) onChange(key)
      return 'renewed'
    } catch (error) {
      if (this.#isOver) return 'ended'
      // The outage itself is reported once for the whole cluster; a claim in danger is reported again, and a refusal once.
      const isNews = isDoubtful() || (!this.#saidRefused && isApiError(error, 400, 403, 422))
      this.#saidRefused ||= isNews
      log[isNews ? 'warn' : 'debug']('heartbeat failed', { key, error })
      if (isDoubtful() && !this.#saidUncertain) {
        this.#saidUncertain = true
        onChange(key)
      }
      return 'failed'
    }
  }
}

const firstEpoch = 1

/** A write that leaves the claim with us: `renew` touches nothing but the metadata. */
type HoldStep =
  | { readonly do: 'create' | 'write'; readonly epoch: number; readonly published: Published | undefined }
  | { readonly do: 'renew'; readonly epoch: number }
  | { readonly do: 'stop'; readonly result: WriteResult }

/** What a decision is based on. */
interface SliceFacts {
  readonly claim: ClaimJudgement
  readonly slice: EndpointSlice | undefined
  readonly target: PublishTarget
  /** The epoch of the claim we hold for this InferenceService, whether or not its slice exists. */
  readonly heldEpoch: number | undefined
}

/** Takes a slice that is free or was released; verifies a slice of ours. */
const claimStep = (facts: SliceFacts): HoldStep =>
  facts.slice && facts.claim.kind === 'released'
    ? { do: 'write', epoch: firstEpoch, published: undefined }
    : renewStep(facts)

/** Says that we live. Posted again without an address: whether the server answers is for others to say. */
const renewStep = ({ claim, slice, target, heldEpoch }: SliceFacts): HoldStep =>
  slice ? keepStep(claim, target) : { do: 'create', epoch: heldEpoch ?? firstEpoch, published: undefined }

/** Takes the claim over from a dead holder. */
function takeOverStep({ claim, target }: SliceFacts): HoldStep {
  if (claim.kind === 'released') return { do: 'write', epoch: firstEpoch, published: undefined }
  if (claim.kind === 'dead') return { do: 'write', epoch: claim.epoch + 1, published: undefined }
  return keepStep(claim, target)
}

/** Says where the server listens, where the slice does not say so already. */
function publishStep(
  { claim, slice, target, heldEpoch }: SliceFacts,
  published: Published,
  isCurrent: (slice: EndpointSlice, epoch: number) => boolean,
): HoldStep {
  if (!slice && heldEpoch !== undefined) return { do: 'create', epoch: heldEpoch, published }
  if (!slice || !isHeld(claim)) return { do: 'stop', result: lostTo(claim, target) }
  return isCurrent(slice, claim.epoch) ? { do: 'stop', result: done } : { do: 'write', epoch: claim.epoch, published }
}

/** Marks the address as not ready. */
function withdrawStep({ claim, slice, target }: SliceFacts): HoldStep {
  if (!slice) return { do: 'stop', result: done }
  if (!isHeld(claim)) return { do: 'stop', result: lostTo(claim, target) }
  const shown = publishedOf(slice)
  if (shown?.ready !== true) return { do: 'stop', result: done }
  return { do: 'write', epoch: claim.epoch, published: { ...shown, ready: false } }
}

const keepStep = (claim: ClaimJudgement, target: PublishTarget): HoldStep =>
  isHeld(claim) ? { do: 'renew', epoch: claim.epoch } : { do: 'stop', result: lostTo(claim, target) }

export interface ClaimedSliceOptions extends Pick<
  HeldClaimOptions,
  'log' | 'monotonicNow' | 'random' | 'pulse' | 'onChange'
> {
  readonly api: KubeApi
  readonly slices: WatchedKind<EndpointSlice>
  /** The name of a slice by that of its InferenceService. */
  readonly nameOf: (inferenceService: string) => string
  /** Our node id. */
  readonly node: string
  readonly signal: AbortSignal
  /** What to write; without an epoch it carries no claim. */
  readonly publication: (
    target: PublishTarget,
    published: Published | undefined,
    epoch: number | undefined,
  ) => Publication
  readonly onRenewed: (target: PublishTarget, slice: EndpointSlice) => void
}

/** What the cache says of one slice. */
export interface SliceView {
  readonly slice: EndpointSlice | undefined
  readonly claim: ClaimJudgement
  /** Milliseconds until time alone may change this view. */
  readonly recheckInMs: number | undefined
}

/** How a write ended, and whether it was to say something else than before. */
export interface SliceChange {
  readonly result: WriteResult
  readonly changed: boolean
}

/**
 * The EndpointSlice of one InferenceService, which is its claim: judged by the cache and by our own writes, written, and renewed while it is
 * ours. Everything that writes must run in its turn ({@link ClaimedSlice.inTurn}).
 */
export class ClaimedSlice {
  readonly #key: string
  readonly #options: ClaimedSliceOptions
  readonly #silentMs: (slice: EndpointSlice) => number
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
  constructor(key: string, options: ClaimedSliceOptions, silentMs: (slice: EndpointSlice) => number) {
    this.#key = key
    this.#options = options
    this.#silentMs = silentMs
    this.#queue = new WriteQueue(options.signal)
    this.#besides = new WriteQueue(options.signal)
    const { node: self, api, monotonicNow, nameOf } = options
    const { namespace, name } = splitKey(key)
    const place = { namespace, name: nameOf(name) }
    this.#memory = new ClaimMemory({ ...place, self, fieldManager: api.fieldManager, monotonicNow })
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

  cached({ namespace, name }: PublishTarget): EndpointSlice | undefined {
    const { slices, nameOf } = this.#options
    return slices.cache.get(namespace, nameOf(name))
  }

  /** Reads only the cache. */
  view(target: PublishTarget): SliceView {
    const slice = this.cached(target)
    const obstacle = slice ? undefined : this.#obstacle
    const obstacleInMs = obstacle ? recheckMs - (this.#options.monotonicNow() - obstacle.at) : 0
    if (obstacle && obstacleInMs > 0) {
      return { slice, claim: { kind: 'taken', message: obstacle.message }, recheckInMs: obstacleInMs }
    }
    const claim = this.#judge(target, slice)
    return { slice, claim, recheckInMs: recheckInMsOf(claim) }
  }

  /** Reads the holder from the cache; adopts a slice of ours and lets go of a foreign one. */
  judge(target: PublishTarget): ClaimJudgement {
    return this.#judge(target, this.cached(target))
  }

  /** After all earlier turns; not at all where a gap in the watch has made it obsolete. */
  inTurn(work: () => Promise<WriteResult>): Promise<WriteResult> {
    return this.#queue.add(work)
  }

  /** As {@link ClaimedSlice.inTurn}, for the objects that go with the slice: after all earlier turns of theirs. */
  beside<T>(work: () => Promise<T>): Promise<T | WriteResult> {
    return this.#besides.add(work)
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
  async publish(target: PublishTarget, published: Published): Promise<SliceChange> {
    const room = await this.#makeRoom(target, published)
    if (room.kind !== 'done') return { result: room, changed: false }
    const isCurrent = (slice: EndpointSlice, epoch: number): boolean =>
      !this.isDoubtful && sliceIsCurrent(slice, this.#options.publication(target, published, epoch))
    return this.#write(target, this.cached(target), (facts) => publishStep(facts, published, isCurrent))
  }

  /** Deletes a slice of ours that has addresses of another type; the claim stays with us, since its holder has the first try to make it again. */
  #makeRoom(target: PublishTarget, published: Published): Promise<WriteResult> {
    const cached = this.cached(target)
    const publication = this.#options.publication(target, published, undefined)
    if (!cached || !isOfOtherType(cached, publication)) return Promise.resolve(done)
    return this.#settle(target, cached, ({ claim, slice }) =>
      slice && isHeld(claim) && isOfOtherType(slice, publication)
        ? { do: 'delete', object: slice }
        : { do: 'stop', result: done },
    )
  }

  /** Marks the address as not ready; the claim stays. */
  withdraw(target: PublishTarget): Promise<SliceChange> {
    return this.#write(target, this.cached(target), withdrawStep)
  }

  /** Takes annotations away, and nothing else. */
  strip(target: PublishTarget, names: readonly string[]): Promise<WriteResult> {
    const annotations = Object.fromEntries(names.map((name) => [name, null]))
    return this.#settle(target, this.cached(target), ({ claim, slice }) =>
      slice && isHeld(claim) && names.some((name) => name in slice.metadata.annotations)
        ? { do: 'patch', object: slice, body: { metadata: { annotations } } }
        : { do: 'stop', result: done },
    )
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
    if (isWritten && result.kind === 'done') this.#memory.withdrewUnheld()
    return result
  }

  /** Done where the claim is ours; asks the server where that is doubtful. */
  async confirm(target: PublishTarget): Promise<WriteResult> {
    const claim = this.judge(target)
    if (!isHeld(claim)) return lostTo(claim, target)
    return this.isDoubtful ? this.#renew(target) : done
  }

  /** Marks the address as not ready, and frees the claim for any agent. */
  async release(target: PublishTarget): Promise<WriteResult> {
    const result = await this.#settle(target, this.cached(target), ({ claim, slice }) => {
      if (!slice || !isHeld(claim)) return { do: 'stop', result: done }
      const shown = publishedOf(slice)
      const released = this.#options.publication(target, shown && { ...shown, ready: false }, undefined)
      return { do: 'patch', object: slice, body: slicePatch(released, slice) }
    })
    this.#end()
    return result
  }

  /** Only a slice that is ours or has no holder. */
  async delete(target: PublishTarget): Promise<WriteResult> {
    const result = await this.#settle(target, this.cached(target), ({ claim, slice }) => {
      if (!slice) return { do: 'stop', result: done }
      return isDeletable(claim) ? { do: 'delete', object: slice } : { do: 'stop', result: lostTo(claim, target) }
    })
    if (result.kind === 'done') this.#end()
    return result
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
    const isAs = (state: PublishedState): boolean =>
      sliceShows(slice, this.#options.publication(target, undefined, undefined), state)
    const claim = this.#memory.judge({ slice, silentMs: this.#silentMs(slice), isAs }, target)
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
    if (this.#isForgotten || this.#options.signal.aborted) return
    const held = this.#held?.target.uid === target.uid ? this.#held : this.#newHeldClaim(target, epoch)
    if (held !== this.#held) this.#letGo()
    this.#held = held
    held.renewed(target, epoch)
    this.#hadGap = false
    this.#obstacle = undefined
  }

  #newHeldClaim(target: PublishTarget, epoch: number): HeldClaim {
    const held: HeldClaim = new HeldClaim(target, epoch, {
      ...this.#options,
      key: this.#key,
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

  /** Says that we live; posts the slice again where it is gone. */
  async #renew(target: PublishTarget): Promise<WriteResult> {
    const { result } = await this.#write(target, this.cached(target), renewStep)
    const slice = this.cached(target)
    if (result.kind === 'done' && slice) this.#options.onRenewed(target, slice)
    return result
  }

  /** A write that makes or keeps the claim ours. */
  async #write(
    target: PublishTarget,
    known: EndpointSlice | undefined | 'unread',
    decide: (facts: SliceFacts) => HoldStep,
  ): Promise<SliceChange> {
    let remember: (() => void) | undefined
    let changed = false
    const read = known !== undefined && this.isDoubtful ? 'unread' : known
    const result = await this.#settle(target, read, (facts) => {
      remember = undefined
      const step = decide(facts)
      if (step.do === 'stop') return step
      changed ||= step.do === 'write'
      const { slice } = facts
      const { epoch } = step
      const shown = slice && publishedOf(slice)
      const publication = this.#options.publication(target, step.do === 'renew' ? shown : step.published, epoch)
      const state = stateOf(publication)
      const { heartbeat } = publication
      if (step.do !== 'renew') this.#memory.writing(state)
      remember = () => {
        const last = { uid: this.cached(target)?.metadata.uid ?? '', epoch, heartbeat }
        if (step.do === 'renew') this.#memory.renewed(slice ? stateIn(slice) : state, last)
        else this.#memory.wrote(state, last)
        this.#hold(target, epoch)
      }
      if (step.do === 'create' || !slice) return { do: 'create', body: sliceBody(publication) }
      const body = step.do === 'renew' ? heartbeatPatch(publication, slice) : slicePatch(publication, slice)
      return { do: 'patch', object: slice, body }
    })
    if (result.kind === 'done') remember?.()
    return { result, changed }
  }

  /** Any write, with the preconditions that make it safe. Throws where the server refuses it, which changes nothing. */
  async #settle(
    target: PublishTarget,
    known: EndpointSlice | undefined | 'unread',
    decide: (facts: SliceFacts) => WriteStep<EndpointSlice, WriteResult>,
  ): Promise<WriteResult> {
    const { api, slices, nameOf, signal } = this.#options
    const settled = await settledWrite<EndpointSlice, WriteResult>({
      api,
      store: watchedStore(slices),
      namespace: target.namespace,
      name: nameOf(target.name),
      signal,
      known,
      decide: (slice) => decide(this.#facts(target, slice)),
    })
    if (settled.kind === 'refused') throw settled.error
    return settled.kind === 'stopped' ? settled.result : done
  }

  /** What a write is about to build on. */
  #facts(target: PublishTarget, slice: EndpointSlice | undefined): SliceFacts {
    const claim = this.#judge(target, slice)
    this.#held?.aimAt(target)
    if (claim.kind === 'taken') this.#obstacle = { ...claim, at: this.#options.monotonicNow() }
    return { claim, slice, target, heldEpoch: this.#held?.target.uid === target.uid ? this.#held.epoch : undefined }
  }
}

function recheckInMsOf(claim: ClaimJudgement): number | undefined {
  if (claim.kind === 'ours') return claim.edits?.forgottenInMs
  if (claim.kind === 'dead') return claim.edits?.mendInMs || undefined
  return 'deadInMs' in claim ? claim.deadInMs : undefined
}

const uncertain = (target: PublishTarget, epoch: number): ClaimJudgement => ({
  kind: 'uncertain',
  epoch,
  message: `The claim on InferenceService ${refKey(target)} was not renewed for ${uncertainAfterMs / 1000} s, so another agent may take it; it is renewed as soon as the cluster answers.`,
})

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

  /** Reads only the cache. */
  view(target: PublishTarget): SliceView {
    const { slices, nameOf } = this.#options
    const isThere = slices.cache.get(target.namespace, nameOf(target.name)) !== undefined
    const slice = isThere ? this.of(target) : this.#slices.get(refKey(target))
    return slice?.view(target) ?? { slice: undefined, claim: { kind: 'absent' }, recheckInMs: undefined }
  }

  /** Whether anything was written or judged of its slice. */
  isKnown(target: PublishTarget): boolean {
    return this.#slices.has(refKey(target))
  }

  /** What the claims are held for. */
  held(): PublishTarget[] {
    return [...this.#slices.values()].flatMap(({ heldFor }) => heldFor ?? [])
  }

  /** Milliseconds since the last renewal of each claim that is held. */
  heartbeatAgesMs(): number[] {
    return [...this.#slices.values()].flatMap(({ heartbeatAgeMs }) => heartbeatAgeMs ?? [])
  }

  /** Holds what an agent of this machine before this one claimed, where nothing has asked for it yet. */
  findOwn(): void {
    const { slices, node, nameOf } = this.#options
    for (const slice of [...slices.cache.values()]) {
      const target = targetOf(slice)
      if (!target || slice.metadata.name !== nameOf(target.name)) continue
      if (holderOf(slice.metadata.annotations[annotations.claim]) !== node) continue
      const found = this.of(target)
      if (!found.heldFor) found.judge(target)
    }
  }

  /** Drops the writes that wait for their turn. */
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
