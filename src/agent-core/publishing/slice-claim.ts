import { refKey, splitKey } from '../util/object-key.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import type { EndpointSlice } from '../kube/resources.ts'
import { ClaimMemory } from './claim-memory.ts'
import type { ClaimJudgement } from './claim.ts'
import { uncertainAfterMs } from './held-claim.ts'
import type { SliceFacts } from './hold-step.ts'
import { Holding, type HoldingOptions } from './holding.ts'
import { serviceNameOf, type Publication, type Published, type PublishTarget } from './objects.ts'
import { recheckMs, type Obstacle } from './service-writer.ts'
import { heartbeatOf, sliceTells, toldIn, type Told } from './slice-object.ts'
import type { WatchedKind } from './watched-kind.ts'
import type { WriteResult } from './write-result.ts'

export interface SliceClaimOptions extends Omit<HoldingOptions, 'key' | 'renew'> {
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
export interface SliceView {
  readonly slice: EndpointSlice | undefined
  readonly claim: ClaimJudgement
  /** Milliseconds until time alone may change this view. */
  readonly recheckInMs: number | undefined
}

/** Whose the EndpointSlice of one InferenceService is: by what the cache says of it and by what we wrote; held while it is ours. */
export class SliceClaim {
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
