import type { KubeApi } from '../kube/kube-api.ts'
import type { EndpointSlice } from '../kube/resources.ts'
import type { Logger } from '../observability/logger.ts'
import { judgeClaim, type ClaimJudgement, type ForeignClaim, type Written } from './claim.ts'
import { HeartbeatTimer, type Beat } from './heartbeat-timer.ts'
import { HeartbeatWatch } from './heartbeat-watch.ts'
import {
  annotations,
  heartbeatPatch,
  keyOf,
  publishedOf,
  serviceNameOf,
  sliceBody,
  slicePatch,
  type Publication,
  type Published,
  type PublishTarget,
} from './objects.ts'
import { recheckMs, type Obstacle } from './service-writer.ts'
import { settledWrite, type WriteStep } from './settled-write.ts'
import { watchedStore, type WatchedKind } from './watched-kind.ts'
import { done, dropped, lost, type WriteResult } from './write-result.ts'

/** Without a renewal for this long another agent may take the claim within seconds (180 s): it is no longer relied on. */
export const uncertainAfterMs = 150_000
/** Whoever loses a slice by accident posts it again at once; others leave it that long. */
export const holderGraceMs = 10_000
/** Stamps and the `Date` header have whole seconds each. */
const stampErrorMs = 2_000

export interface SliceWriterOptions {
  readonly api: KubeApi
  readonly slices: WatchedKind<EndpointSlice>
  /** Our node id. */
  readonly node: string
  readonly log: Logger
  readonly signal: AbortSignal
  readonly monotonicNow: () => number
  readonly random: () => number
  readonly renewEveryMs: number | undefined
  /** What to write; without an epoch it carries no claim. */
  readonly publication: (
    target: PublishTarget,
    published: Published | undefined,
    epoch: number | undefined,
  ) => Publication
  /** Called within the same turn of the key. */
  readonly onRenewed: (target: PublishTarget, slice: EndpointSlice) => Promise<void>
  readonly onChange: (key: string) => void
}

/** What is remembered of one InferenceService's slice beyond the cache. */
export interface Entry {
  readonly key: string
  /** Writes of one key wait for each other. */
  lane: Promise<unknown>
  held: { readonly target: PublishTarget; readonly epoch: number; readonly timer: HeartbeatTimer } | undefined
  /** What our last writes may have left in the slice. */
  wrote: readonly Written[]
  renewedAt: number
  mustRead: boolean
  saidUncertain: boolean
  overwrites: { readonly count: number; readonly heartbeat: string }
  /** A living holder whose slice we have seen, and since when that is gone. */
  rival: { readonly uid: string; readonly holder: string; readonly goneAt: number | undefined } | undefined
  obstacle: Obstacle | undefined
  forgotten: boolean
}

/** A write that leaves the claim with us: `renew` touches nothing but the metadata. */
export type HoldStep =
  | { readonly do: 'create'; readonly epoch: number; readonly published: Published | undefined }
  | { readonly do: 'write'; readonly epoch: number; readonly published: Published | undefined }
  | { readonly do: 'renew'; readonly epoch: number }
  | { readonly do: 'stop'; readonly result: WriteResult }

/**
 * Judges and writes EndpointSlices, which are the claims, and renews those that are ours. Each method that writes must
 * run in its key's turn ({@link SliceWriter.inLane}), which hands out the entry it needs.
 */
export class SliceWriter {
  readonly #options: SliceWriterOptions
  readonly #now: () => number
  readonly #random: () => number
  readonly #signal: AbortSignal
  readonly #watch: HeartbeatWatch
  readonly #entries = new Map<string, Entry>()
  readonly #unsubscribe: () => void
  #generation = 0

  constructor(options: SliceWriterOptions) {
    this.#options = options
    this.#now = options.monotonicNow
    this.#random = options.random
    this.#signal = options.signal
    this.#watch = new HeartbeatWatch({ monotonicNow: this.#now })
    this.#unsubscribe = options.slices.cache.onChange(({ before, after }) => {
      if (after) this.#hear(after)
      else if (before) this.#watch.forget(before.metadata.uid)
    })
  }

  /** From the cache alone. */
  view(target: PublishTarget): { readonly claim: ClaimJudgement; readonly recheckInMs: number | undefined } {
    const slice = this.cached(target)
    const entry = slice ? this.#entry(target) : this.#entries.get(keyOf(target))
    const hidden = slice ? undefined : this.#freshObstacle(entry)
    if (hidden) return hidden
    const claim: ClaimJudgement = entry ? this.judge(entry, target, slice) : { kind: 'absent' }
    return { claim, recheckInMs: 'deadInMs' in claim ? claim.deadInMs : undefined }
  }

  cached(target: PublishTarget): EndpointSlice | undefined {
    return this.#options.slices.cache.get(target.namespace, serviceNameOf(target.name))
  }

  /** After all earlier writes of this key; not at all where a gap in the watch has made it obsolete. */
  inLane(target: PublishTarget, write: (entry: Entry) => Promise<WriteResult>): Promise<WriteResult> {
    const entry = this.#entry(target)
    const generation = this.#generation
    const result = entry.lane.then(() =>
      generation === this.#generation && !this.#signal.aborted ? write(entry) : dropped,
    )
    const settled = (): undefined => undefined
    entry.lane = result.then(settled, settled)
    return result
  }

  /** Whose it is, as far as `slice` is the current one; adopts what is ours and lets go of what is not. */
  judge(entry: Entry, target: PublishTarget, slice: EndpointSlice | undefined): ClaimJudgement {
    if (!slice) return this.#holdersTry(entry, target) ?? { kind: 'absent' }
    this.#hear(slice)
    const heartbeat = heartbeatOf(slice)
    const overwrites = entry.overwrites.count + (entry.overwrites.heartbeat === heartbeat ? 0 : 1)
    const claim = judgeClaim(slice, {
      self: this.#options.node,
      target,
      wrote: entry.wrote,
      silentMs: this.#watch.silentMs(slice.metadata.uid),
      overwrites,
    })
    if (claim.kind === 'overwritten') entry.overwrites = { count: overwrites, heartbeat }
    entry.rival = claim.kind === 'foreign' ? { uid: target.uid, holder: claim.holder, goneAt: undefined } : undefined
    if (claim.kind !== 'ours') {
      if (claim.kind !== 'previous') this.letGo(entry)
      return claim
    }
    if (!entry.held) this.#adopt(entry, target, slice, claim.epoch)
    return this.#now() - entry.renewedAt < uncertainAfterMs ? claim : uncertain(target, claim.epoch)
  }

  /** A write that makes or keeps the claim ours. */
  async write(
    entry: Entry,
    target: PublishTarget,
    known: EndpointSlice | undefined | 'unread',
    decide: (claim: ClaimJudgement, slice: EndpointSlice | undefined) => HoldStep,
  ): Promise<WriteResult> {
    let written: { readonly epoch: number; readonly address: Written } | undefined
    const read = known !== undefined && this.mustRead(entry) ? 'unread' : known
    const result = await this.settle(entry, target, read, (claim, slice) => {
      written = undefined
      const step = decide(claim, slice)
      if (step.do === 'stop') return step
      const address = step.do === 'renew' ? slice && publishedOf(slice) : step.published
      const publication = this.#options.publication(target, address, step.epoch)
      // Remembered before the answer, which may get lost.
      entry.wrote = withWritten(entry.wrote, address)
      written = { epoch: step.epoch, address }
      if (step.do === 'create' || !slice) return { do: 'create', body: sliceBody(publication) }
      const body = step.do === 'renew' ? heartbeatPatch(publication, slice) : slicePatch(publication, slice)
      return { do: 'patch', object: slice, body }
    })
    if (result.kind === 'done' && written) this.#hold(entry, target, written.epoch, written.address)
    return result
  }

  /** Says that we live; posts the slice again where it is gone. */
  async renew(entry: Entry, target: PublishTarget): Promise<WriteResult> {
    const result = await this.write(entry, target, this.cached(target), (claim, slice) => {
      // Posted again without an address: whether the server answers is for others to say.
      if (!slice) return { do: 'create', epoch: heldEpoch(entry, target) ?? firstEpoch, published: undefined }
      return isHeld(claim) ? { do: 'renew', epoch: claim.epoch } : { do: 'stop', result: lostTo(claim, target) }
    })
    const slice = this.cached(target)
    if (result.kind === 'done' && slice) await this.#options.onRenewed(target, slice)
    return result
  }

  /** Any write of the slice, with the preconditions that make it safe. */
  async settle(
    entry: Entry,
    target: PublishTarget,
    known: EndpointSlice | undefined | 'unread',
    decide: (claim: ClaimJudgement, slice: EndpointSlice | undefined) => WriteStep<EndpointSlice, WriteResult>,
  ): Promise<WriteResult> {
    const { api, slices } = this.#options
    const settled = await settledWrite<EndpointSlice, WriteResult>({
      api,
      store: watchedStore(slices),
      namespace: target.namespace,
      name: serviceNameOf(target.name),
      signal: this.#signal,
      known,
      decide: (slice) => {
        const claim = this.judge(entry, target, slice)
        if (claim.kind === 'taken') entry.obstacle = { ...claim, at: this.#now() }
        return decide(claim, slice)
      },
    })
    return settled.kind === 'stopped' ? settled.result : settled.kind === 'refused' ? settled : done
  }

  /** What the cache says must be confirmed before it is acted on. */
  mustRead(entry: Entry): boolean {
    return entry.mustRead || (entry.held !== undefined && this.#now() - entry.renewedAt >= uncertainAfterMs)
  }

  /** No further renewals. */
  letGo(entry: Entry): void {
    entry.held?.timer[Symbol.dispose]()
    entry.held = undefined
  }

  held(): PublishTarget[] {
    return [...this.#entries.values()].flatMap(({ held }) => (held ? [held.target] : []))
  }

  /** What waits for its turn is not written any more. */
  dropWaiting(): void {
    this.#generation += 1
  }

  watchGap(): void {
    this.dropWaiting()
    this.#watch.watchGap()
    for (const entry of this.#entries.values()) {
      entry.mustRead = true
      entry.held?.timer.soon()
    }
  }

  setWatchLive(live: boolean): void {
    this.#watch.setLive(live)
  }

  forget(key: string): void {
    const entry = this.#entries.get(key)
    if (!entry) return
    entry.forgotten = true
    this.letGo(entry)
    this.#entries.delete(key)
  }

  /** The signal must have been aborted before. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#unsubscribe()
    for (const entry of this.#entries.values()) this.letGo(entry)
    await Promise.all([...this.#entries.values()].map(({ lane }) => lane))
  }

  /** A slice that vanished under its living holder is the holder's to post again; others wait a moment. */
  #holdersTry(entry: Entry, { uid, ...target }: PublishTarget): ForeignClaim | undefined {
    const { rival } = entry
    if (rival?.uid !== uid) return undefined
    const goneAt = rival.goneAt ?? this.#now()
    entry.rival = { ...rival, goneAt }
    const silentMs = this.#now() - goneAt
    if (silentMs >= holderGraceMs) return undefined
    const message = `The EndpointSlice of InferenceService ${keyOf(target)} is gone; ${rival.holder}, which held it, has the first try for ${holderGraceMs / 1000} s.`
    return { kind: 'foreign', holder: rival.holder, silentMs, deadInMs: holderGraceMs - silentMs, message }
  }

  /** After a restart, or when the answer to our own write was lost. */
  #adopt(entry: Entry, target: PublishTarget, slice: EndpointSlice, epoch: number): void {
    this.#hold(entry, target, epoch, publishedOf(slice))
    entry.held?.timer.soon()
  }

  #hold(entry: Entry, target: PublishTarget, epoch: number, written: Written): void {
    if (entry.forgotten || this.#signal.aborted) return
    const timer = entry.held?.target.uid === target.uid ? entry.held.timer : this.#newTimer(entry, target)
    if (timer !== entry.held?.timer) this.letGo(entry)
    entry.held = { target, epoch, timer }
    entry.wrote = [written]
    entry.renewedAt = this.#now()
    entry.mustRead = false
    entry.saidUncertain = false
    entry.obstacle = undefined
    timer.renewed()
  }

  #newTimer(entry: Entry, target: PublishTarget): HeartbeatTimer {
    const { renewEveryMs: everyMs } = this.#options
    return new HeartbeatTimer({ beat: () => this.#beat(entry, target), random: this.#random, everyMs })
  }

  async #beat(entry: Entry, target: PublishTarget): Promise<Beat> {
    const { log, onChange } = this.#options
    const isCurrent = (): boolean => entry.held?.target.uid === target.uid
    const wasUncertain = entry.saidUncertain
    const turn = { wanted: true }
    try {
      const result = await this.inLane(target, () => {
        turn.wanted = isCurrent()
        return turn.wanted ? this.renew(entry, target) : Promise.resolve(done)
      })
      if (!turn.wanted) return 'ended'
      if (result.kind === 'dropped') return 'failed'
      if (result.kind !== 'done') {
        log.warn('claim lost', { key: entry.key, reason: result.message })
        if (isCurrent()) this.letGo(entry)
        onChange(entry.key)
        return 'ended'
      }
      if (wasUncertain) onChange(entry.key)
      return 'renewed'
    } catch (error) {
      if (this.#signal.aborted || !isCurrent()) return 'ended'
      // The outage itself is told once for the whole cluster; a claim in danger is told again.
      const level = this.mustRead(entry) ? 'warn' : 'debug'
      log[level]('heartbeat failed', { key: entry.key, error })
      if (this.mustRead(entry) && !entry.saidUncertain) {
        entry.saidUncertain = true
        onChange(entry.key)
      }
      return 'failed'
    }
  }

  /** Where a slice is new to us, the server's own stamps tell how long its holder has been silent already. */
  #hear(slice: EndpointSlice): void {
    const stamps = slice.metadata.managedFields
      .map(({ time }) => Date.parse(time ?? ''))
      .filter((stamp) => !Number.isNaN(stamp))
    const silentMs = stamps.length === 0 ? 0 : this.#options.api.serverNow() - Math.max(...stamps) - stampErrorMs
    // A new holder is a sign of life, even within the second of the old one's last heartbeat.
    const sign = `${heartbeatOf(slice)} ${slice.metadata.annotations[annotations.claim] ?? ''}`
    this.#watch.observe(slice.metadata.uid, sign, silentMs)
  }

  #freshObstacle(entry: Entry | undefined) {
    const obstacle = entry?.obstacle
    const recheckInMs = obstacle ? recheckMs - (this.#now() - obstacle.at) : 0
    return obstacle && recheckInMs > 0
      ? { claim: { kind: 'taken' as const, message: obstacle.message }, recheckInMs }
      : undefined
  }

  #entry(target: PublishTarget): Entry {
    const key = keyOf(target)
    const entry: Entry = this.#entries.get(key) ?? {
      key,
      lane: Promise.resolve(),
      held: undefined,
      wrote: [],
      renewedAt: this.#now(),
      mustRead: false,
      saidUncertain: false,
      overwrites: { count: 0, heartbeat: '' },
      rival: undefined,
      obstacle: undefined,
      forgotten: false,
    }
    this.#entries.set(key, entry)
    return entry
  }
}

export const firstEpoch = 1

export const isHeld = (claim: ClaimJudgement): claim is Extract<ClaimJudgement, { kind: 'ours' | 'uncertain' }> =>
  claim.kind === 'ours' || claim.kind === 'uncertain'

export const heldEpoch = ({ held }: Entry, { uid }: PublishTarget): number | undefined =>
  held?.target.uid === uid ? held.epoch : undefined

/** Why a write was not ours to make. */
export function lostTo(claim: ClaimJudgement, target: PublishTarget): WriteResult {
  if (claim.kind === 'taken') return claim
  if ('message' in claim) return lost(claim.message)
  return lost(
    `InferenceService ${keyOf(target)} is not claimed by this machine any more; it is looked at again at once.`,
  )
}

const heartbeatOf = ({ metadata }: EndpointSlice): string => metadata.annotations[annotations.heartbeat] ?? ''

const withWritten = (list: readonly Written[], written: Written): readonly Written[] =>
  list.some((one) => one?.address === written?.address && one?.port === written?.port) ? list : [...list, written]

const uncertain = (target: PublishTarget, epoch: number): ClaimJudgement => ({
  kind: 'uncertain',
  epoch,
  message: `The claim on InferenceService ${keyOf(target)} was not renewed for ${uncertainAfterMs / 1000} s, so another agent may take it; it is renewed as soon as the cluster answers.`,
})
