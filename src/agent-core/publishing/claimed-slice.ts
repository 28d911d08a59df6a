import { refKey, splitKey } from '../support/object-key.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import type { EndpointSlice } from '../kube/resources.ts'
import type { Logger } from '../observability/logger.ts'
import { ClaimMemory } from './claim-memory.ts'
import { isDeletable, isHeld, type ClaimJudgement } from './claim.ts'
import type { HeartbeatPulse } from './heartbeat-pulse.ts'
import { uncertainAfterMs } from './held-claim.ts'
import {
  claimStep,
  publishStep,
  renewStep,
  takeOverStep,
  withdrawStep,
  type HoldStep,
  type SliceFacts,
} from './hold-step.ts'
import { Holding } from './holding.ts'
import { serviceNameOf, type Publication, type Published, type PublishTarget } from './objects.ts'
import {
  heartbeatOf,
  heartbeatPatch,
  publishedOf,
  sliceBody,
  sliceIsCurrent,
  slicePatch,
  sliceTells,
  toldBy,
  toldIn,
  withdrawPatch,
  type Told,
} from './slice-object.ts'
import { recheckMs, type Obstacle } from './service-writer.ts'
import { settledWrite, type WriteStep } from './settled-write.ts'
import { Turns } from './turns.ts'
import { watchedStore, type WatchedKind } from './watched-kind.ts'
import { done, lostTo, type WriteResult } from './write-result.ts'

export interface ClaimedSliceOptions {
  readonly api: KubeApi
  readonly slices: WatchedKind<EndpointSlice>
  /** Our node id. */
  readonly node: string
  readonly log: Logger
  readonly signal: AbortSignal
  readonly monotonicNow: () => number
  readonly random: () => number
  readonly pulse: HeartbeatPulse
  /** What to write; without an epoch it carries no claim. */
  readonly publication: (
    target: PublishTarget,
    published: Published | undefined,
    epoch: number | undefined,
  ) => Publication
  /** Called within the same turn. */
  readonly onRenewed: (target: PublishTarget, slice: EndpointSlice) => Promise<void>
  readonly onChange: (key: string) => void
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
 * The EndpointSlice of one InferenceService, which is its claim: judged, written, and renewed while it is ours.
 * Everything that writes must run in its turn ({@link ClaimedSlice.inTurn}).
 */
export class ClaimedSlice {
  readonly #options: ClaimedSliceOptions
  readonly #silentMs: (slice: EndpointSlice) => number
  readonly #turns: Turns
  readonly #memory: ClaimMemory
  readonly #holding: Holding
  #obstacle: Obstacle | undefined

  /** `silentMs` takes notice of a slice and says for how long its holder has been silent. */
  constructor(key: string, options: ClaimedSliceOptions, silentMs: (slice: EndpointSlice) => number) {
    this.#options = options
    this.#silentMs = silentMs
    this.#turns = new Turns(options.signal)
    this.#holding = new Holding({
      ...options,
      key,
      renew: (held) => this.#turns.take(async () => (this.#holding.is(held) ? this.#renew(held.target) : undefined)),
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
    if (isWritten && result.kind === 'done') this.#memory.withdrewUnheld()
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
    this.#turns.dropWaiting()
  }

  /** Events may have been missed: our slices are read again before they are relied on. */
  watchGap(): void {
    this.#turns.dropWaiting()
    this.#holding.watchGap()
  }

  /** Nothing is renewed from now on, whatever a write that is under way brings. */
  forget(): void {
    this.#holding.end()
  }

  /** The signal must have been aborted before. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#holding.letGo()
    await this.#turns.settled()
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
      if (step.do !== 'renew') this.#memory.writing(told)
      written = () => {
        const last = { uid: this.cached(target)?.metadata.uid ?? '', epoch, heartbeat: publication.heartbeat }
        if (step.do === 'renew') this.#memory.renewed(slice ? toldIn(slice) : told, last)
        else this.#memory.wrote(told, last)
        this.#hold(target, epoch)
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
    const { api, slices, signal, monotonicNow } = this.#options
    const settled = await settledWrite<EndpointSlice, WriteResult>({
      api,
      store: watchedStore(slices),
      namespace: target.namespace,
      name: serviceNameOf(target.name),
      signal,
      known,
      decide: (slice) => {
        const claim = this.#judge(target, slice)
        const held = this.#holding.claim
        held?.aimAt(target)
        if (claim.kind === 'taken') this.#obstacle = { ...claim, at: monotonicNow() }
        const heldEpoch = held?.target.uid === target.uid ? held.epoch : undefined
        return decide({ claim, slice, target, heldEpoch })
      },
    })
    if (settled.kind === 'refused') throw settled.error
    return settled.kind === 'stopped' ? settled.result : done
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

  #end(): void {
    this.#holding.letGo()
    this.#memory.forgetWrites()
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
