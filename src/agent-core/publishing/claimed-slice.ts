import type { KubeApi } from '../kube/kube-api.ts'
import type { EndpointSlice } from '../kube/resources.ts'
import type { Logger } from '../observability/logger.ts'
import { refKey, splitKey } from '../util/object-key.ts'
import {
  type ClaimJudgement,
  type ForeignClaim,
  holderOf,
  isDeletable,
  isHeld,
  judgeClaim,
  type LastWritten,
} from './claim.ts'
import { type Beat, type HeartbeatPulse, HeartbeatTimer, HeartbeatWatch } from './heartbeat.ts'
import {
  annotations,
  heartbeatOf,
  heartbeatPatch,
  type Publication,
  type Published,
  publishedOf,
  type PublishTarget,
  serviceNameOf,
  sliceBody,
  sliceIsCurrent,
  slicePatch,
  sliceTells,
  targetOf,
  type Told,
  toldBy,
  toldIn,
  withdrawPatch,
} from './objects.ts'
import { type Obstacle, recheckMs } from './service.ts'
import {
  done,
  ForeignEdits,
  isAnswered,
  lostTo,
  settledWrite,
  Turns,
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
  readonly onLost: () => void
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
    const { key, log, renew, isDoubtful, onLost, onChange } = this.#options
    const wasUncertain = this.#saidUncertain
    try {
      const result = await renew()
      if (result === undefined) return 'ended'
      if (result.kind === 'dropped') return 'failed'
      if (result.kind !== 'done') {
        log.warn('claim lost', { key, reason: result.message })
        onLost()
        onChange(key)
        return 'ended'
      }
      if (wasUncertain) onChange(key)
      return 'renewed'
    } catch (error) {
      if (this.#isOver) return 'ended'
      // The outage itself is told once for the whole cluster; a claim in danger is told again, and a refusal once.
      const isNews = isDoubtful() || (!this.#saidRefused && isAnswered(error, 400, 403, 422))
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

interface HoldingOptions extends Omit<HeldClaimOptions, 'renew' | 'isDoubtful' | 'onLost'> {
  readonly signal: AbortSignal
  /** As {@link HeldClaimOptions.renew}, of this claim. */
  readonly renew: (held: HeldClaim) => Promise<WriteResult | undefined>
}

/** Which claim on one slice is ours at present, if any, and whether that is sure. */
class Holding {
  readonly #options: HoldingOptions
  #claim: HeldClaim | undefined
  /** Events may have been missed since our last write. */
  #hadGap = false
  #isOver = false

  constructor(options: HoldingOptions) {
    this.#options = options
  }

  get claim(): HeldClaim | undefined {
    return this.#claim
  }

  /** What the cache says must be confirmed before it is acted on. */
  get isDoubtful(): boolean {
    return this.#hadGap || this.#claim?.isOverdue === true
  }

  is(held: HeldClaim): boolean {
    return this.#claim === held
  }

  /** A write of ours, or the cache, has just shown that it is ours. False where nothing is to be held any more. */
  hold(target: PublishTarget, epoch: number): boolean {
    if (this.#isOver || this.#options.signal.aborted) return false
    const held = this.#claim?.target.uid === target.uid ? this.#claim : this.#newClaim(target, epoch)
    if (held !== this.#claim) this.letGo()
    this.#claim = held
    held.renewed(target, epoch)
    this.#hadGap = false
    return true
  }

  letGo(): void {
    this.#claim?.[Symbol.dispose]()
    this.#claim = undefined
  }

  watchGap(): void {
    this.#hadGap = true
    this.#claim?.renewSoon()
  }

  /** Nothing is held from now on. */
  end(): void {
    this.#isOver = true
    this.letGo()
  }

  #newClaim(target: PublishTarget, epoch: number): HeldClaim {
    const held: HeldClaim = new HeldClaim(target, epoch, {
      ...this.#options,
      renew: () => this.#options.renew(held),
      isDoubtful: () => this.isDoubtful,
      onLost: () => {
        if (this.is(held)) this.letGo()
      },
    })
    return held
  }
}

/** An agent that lost a slice by accident posts it again at once; other agents wait for this long. */
const holderGraceMs = 10_000

/** What was judged: `isAs` says whether the slice tells this, and all that goes with it. */
interface JudgedSlice {
  readonly slice: EndpointSlice
  readonly silentMs: number
  readonly isAs: (told: Told) => boolean
}

/** Judges the slice of one InferenceService by its earlier versions and by our own writes. */
export class ClaimMemory {
  readonly #self: string
  readonly #now: () => number
  readonly #edits: ForeignEdits<Told>
  /** Whether the slice that no agent holds is ready. */
  readonly #unheld: ForeignEdits<boolean>
  #last: LastWritten | undefined
  #overwrites = { count: 0, heartbeat: '' }
  /** A living holder whose slice we have seen, and since when that is gone. */
  #rival: { readonly uid: string; readonly holder: string; readonly goneAt: number | undefined } | undefined

  /** Of the slice of that namespace and name; `self` is our node id, `fieldManager` the name our writes have in the cluster. */
  constructor(options: {
    readonly namespace: string
    readonly name: string
    readonly self: string
    readonly fieldManager: string
    readonly monotonicNow: () => number
  }) {
    this.#self = options.self
    this.#now = options.monotonicNow
    this.#edits = new ForeignEdits({ ...options, kind: 'EndpointSlice' })
    this.#unheld = new ForeignEdits({ ...options, kind: 'EndpointSlice' })
  }

  judge({ slice, silentMs, isAs }: JudgedSlice, target: PublishTarget): ClaimJudgement {
    const heartbeat = heartbeatOf(slice)
    const overwrites = this.#overwrites.count + (this.#overwrites.heartbeat === heartbeat ? 0 : 1)
    const claim = judgeClaim(slice, { self: this.#self, target, last: this.#last, silentMs, overwrites })
    if (claim.kind === 'overwritten') this.#overwrites = { count: overwrites, heartbeat }
    this.#rival = claim.kind === 'foreign' ? { uid: target.uid, holder: claim.holder, goneAt: undefined } : undefined
    if (isLost(claim)) this.#last = undefined
    if (claim.kind !== 'ours' && claim.kind !== 'dead') return claim
    const edits =
      claim.kind === 'ours' ? this.#edits.look(slice, isAs) : this.#unheld.look(slice, (ready) => ready === claim.ready)
    return edits ? { ...claim, edits } : claim
  }

  /** A slice that vanished under its living holder is the holder's to post again; others wait a moment. */
  judgeAbsence(target: PublishTarget): { readonly kind: 'absent' } | ForeignClaim {
    const rival = this.#rival
    if (rival?.uid !== target.uid) return { kind: 'absent' }
    const goneAt = rival.goneAt ?? this.#now()
    this.#rival = { ...rival, goneAt }
    const silentMs = this.#now() - goneAt
    if (silentMs >= holderGraceMs) return { kind: 'absent' }
    const message = `The EndpointSlice of InferenceService ${refKey(target)} is gone; ${rival.holder}, which held it, has the first try for ${holderGraceMs / 1000} s.`
    return { kind: 'foreign', holder: rival.holder, silentMs, deadInMs: holderGraceMs - silentMs, message }
  }

  /** To be called before the request, whose answer may get lost. */
  writing(told: Told): void {
    this.#edits.writing(told)
  }

  /** This and nothing else is what our writes have left. */
  wrote(told: Told, last: LastWritten): void {
    this.#edits.wrote(told)
    this.#last = last
  }

  /** The slice of a dead holder, or of none, is no longer ready. */
  withdrewUnheld(): void {
    this.#unheld.wrote(false)
  }

  /** Only the heartbeat was written: the rest of the slice is still `found`, as it was before. */
  renewed(found: Told, last: LastWritten): void {
    this.#edits.found(found)
    this.#last = last
  }

  forgetWrites(): void {
    this.#edits.forgetWrites()
    this.#last = undefined
  }
}

/** Another agent has it or may take it: an earlier write of ours is no proof that it is ours. */
const isLost = ({ kind }: ClaimJudgement): boolean =>
  kind === 'foreign' || kind === 'unclaimed' || kind === 'overwritten' || kind === 'dead' || kind === 'released'

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
  /** Of the claim that we hold for this InferenceService, whether or not its slice is there. */
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

/** Takes what its dead holder has. */
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

/** Not ready any more. */
function withdrawStep({ claim, slice, target }: SliceFacts): HoldStep {
  if (!slice) return { do: 'stop', result: done }
  if (!isHeld(claim)) return { do: 'stop', result: lostTo(claim, target) }
  const shown = publishedOf(slice)
  if (shown?.ready !== true) return { do: 'stop', result: done }
  return { do: 'write', epoch: claim.epoch, published: { ...shown, ready: false } }
}

const keepStep = (claim: ClaimJudgement, target: PublishTarget): HoldStep =>
  isHeld(claim) ? { do: 'renew', epoch: claim.epoch } : { do: 'stop', result: lostTo(claim, target) }

interface SliceClaimOptions extends Omit<HoldingOptions, 'key' | 'renew'> {
  readonly api: Pick<KubeApi, 'fieldManager'>
  readonly slices: WatchedKind<EndpointSlice>
  /** Our node id. */
  readonly node: string
  /** What to write; without an epoch it carries no claim. */
  readonly publication: (
    target: PublishTarget,
    published: Published | undefined,
    epoch: number | undefined,
  ) => Publication
}

interface SliceClaimHooks {
  /** Takes notice of a slice and says for how long its holder has been silent. */
  readonly silentMs: (slice: EndpointSlice) => number
  /** In its turn, for whom it is held by then: undefined = it is not held any more. */
  readonly renew: (heldFor: () => PublishTarget | undefined) => Promise<WriteResult | undefined>
}

/** What the cache says of one slice. */
interface SliceView {
  readonly slice: EndpointSlice | undefined
  readonly claim: ClaimJudgement
  /** Milliseconds until time alone may change this view. */
  readonly recheckInMs: number | undefined
}

/** Whose the EndpointSlice of one InferenceService is: by what the cache says of it and by what we wrote; held while it is ours. */
class SliceClaim {
  readonly #options: SliceClaimOptions
  readonly #silentMs: SliceClaimHooks['silentMs']
  readonly #memory: ClaimMemory
  readonly #holding: Holding
  #obstacle: Obstacle | undefined

  constructor(key: string, options: SliceClaimOptions, { silentMs, renew }: SliceClaimHooks) {
    this.#options = options
    this.#silentMs = silentMs
    this.#holding = new Holding({
      ...options,
      key,
      renew: (held) => renew(() => (this.#holding.is(held) ? held.target : undefined)),
    })
    const { node: self, api, monotonicNow } = options
    const { namespace, name } = splitKey(key)
    const place = { namespace, name: serviceNameOf(name) }
    this.#memory = new ClaimMemory({ ...place, self, fieldManager: api.fieldManager, monotonicNow })
  }

  /** Whom we hold the claim for, as it was wanted last. */
  get heldFor(): PublishTarget | undefined {
    return this.#holding.claim?.target
  }

  /** Since its last renewal; undefined: the claim is not ours. */
  get heartbeatAgeMs(): number | undefined {
    return this.#holding.claim?.ageMs
  }

  /** What the cache says must be confirmed before it is acted on. */
  get isDoubtful(): boolean {
    return this.#holding.isDoubtful
  }

  cached({ namespace, name }: PublishTarget): EndpointSlice | undefined {
    return this.#options.slices.cache.get(namespace, serviceNameOf(name))
  }

  /** From the cache alone. */
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

  /** As {@link judge}, of what a write is about to build on. */
  facts(target: PublishTarget, slice: EndpointSlice | undefined): SliceFacts {
    const claim = this.#judge(target, slice)
    const held = this.#holding.claim
    held?.aimAt(target)
    if (claim.kind === 'taken') this.#obstacle = { ...claim, at: this.#options.monotonicNow() }
    return { claim, slice, target, heldEpoch: held?.target.uid === target.uid ? held.epoch : undefined }
  }

  /** To be called before the request, whose answer may get lost. */
  writing(told: Told): void {
    this.#memory.writing(told)
  }

  /** A write that makes or keeps it ours; `renewed` = only the heartbeat of it, and `told` is what the slice said before. */
  wrote(
    what: 'told' | 'renewed',
    target: PublishTarget,
    told: Told,
    claim: { epoch: number; heartbeat: string },
  ): void {
    const last = { uid: this.cached(target)?.metadata.uid ?? '', ...claim }
    if (what === 'renewed') this.#memory.renewed(told, last)
    else this.#memory.wrote(told, last)
    this.#hold(target, claim.epoch)
  }

  /** The slice of a dead holder, or of none, is no longer ready. */
  withdrewUnheld(): void {
    this.#memory.withdrewUnheld()
  }

  /** Released or deleted by us. */
  end(): void {
    this.#holding.letGo()
    this.#memory.forgetWrites()
  }

  letGo(): void {
    this.#holding.letGo()
  }

  /** Nothing is held from now on, whatever a write that is under way brings. */
  forget(): void {
    this.#holding.end()
  }

  /** Events may have been missed: the slice is read again before it is relied on. */
  watchGap(): void {
    this.#holding.watchGap()
  }

  #judge(target: PublishTarget, slice: EndpointSlice | undefined): ClaimJudgement {
    if (!slice) return this.#memory.judgeAbsence(target)
    const isAs = (told: Told): boolean =>
      sliceTells(slice, this.#options.publication(target, undefined, undefined), told)
    const claim = this.#memory.judge({ slice, silentMs: this.#silentMs(slice), isAs }, target)
    if (claim.kind === 'ours') {
      if (!this.#holding.claim) this.#adopt(target, claim.epoch, slice)
      return this.#holding.claim?.isOverdue ? uncertain(target, claim.epoch) : claim
    }
    if (claim.kind !== 'previous') this.#holding.letGo()
    return claim
  }

  /** After a restart, or when the answer to our own write was lost. */
  #adopt(target: PublishTarget, epoch: number, slice: EndpointSlice): void {
    this.#memory.wrote(toldIn(slice), { uid: slice.metadata.uid, epoch, heartbeat: heartbeatOf(slice) })
    this.#hold(target, epoch)
    this.#holding.claim?.renewSoon()
  }

  #hold(target: PublishTarget, epoch: number): void {
    if (this.#holding.hold(target, epoch)) this.#obstacle = undefined
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

interface ClaimedSliceOptions extends SliceClaimOptions {
  readonly api: KubeApi
  /** Called within the same turn. */
  readonly onRenewed: (target: PublishTarget, slice: EndpointSlice) => Promise<void>
}

/** How a write ended, and whether it was to say something else than before. */
interface SliceChange {
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
