import { isDeepStrictEqual } from 'node:util'
import type { EndpointSlice } from '../kube/resources.ts'
import { messageOf } from '../util/message-of.ts'
import { refKey } from '../util/object-key.ts'
import { pause } from '../util/pause.ts'
import { within } from '../util/within.ts'
import { lostTo, type ClaimJudgement, isDeletable, isElsewhere, isHeld } from './claim.ts'
import { ClaimedSlice, type SliceWish } from './claimed-slice.ts'
import { OwnEndpoints } from './endpoints.ts'
import { HeartbeatWatch } from './heartbeat.ts'
import {
  annotations,
  heartbeatOf,
  holderOf,
  isOwnedBy,
  labels,
  ownerOf,
  type Publication,
  type Published,
  publishedOf,
  type PublishTarget,
  sliceControllers,
  sliceIsCurrent,
  targetOf,
} from './objects.ts'
import { publicationBy, type Publishing, publishingBy, type PublisherOptions } from './publishing.ts'
import { OwnService, type ServiceView } from './service.ts'
import { deleteWhere, done, type WriteResult } from './writes.ts'

/** At shutdown the servers wait for this. */
const shutdownLimitMs = 5_000
/** Between two tries of one write. */
const retryEveryMs = 500

/** A key that could not be written in time, and why. */
export interface Unfinished {
  readonly key: string
  readonly message: string
}

/** Writes all of them at once and retries failures until the deadline; returns what is still unwritten then. */
async function writeWithin(
  limitMs: number,
  targets: readonly PublishTarget[],
  write: (target: PublishTarget) => Promise<WriteResult>,
  signal: AbortSignal,
): Promise<readonly Unfinished[]> {
  const unfinished = new Map<string, string>()
  const limit = AbortSignal.any([signal, AbortSignal.timeout(limitMs)])
  const writes = targets.map(async (target) => {
    const key = refKey(target)
    unfinished.set(key, `The cluster did not answer within ${limitMs / 1000} s.`)
    while (!limit.aborted) {
      const message = await failureOf(write(target))
      if (message === undefined) unfinished.delete(key)
      else unfinished.set(key, message)
      if (message === undefined || !(await pause(retryEveryMs, limit))) return
    }
  })
  await within(limitMs, Promise.all(writes))
  return [...unfinished].map(([key, message]) => ({ key, message }))
}

/** Undefined = there is nothing left to be written. */
const failureOf = (write: Promise<WriteResult>): Promise<string | undefined> =>
  write.then((result) => (result.kind === 'done' || result.kind === 'lost' ? undefined : result.message), messageOf)

/** What the caches say; costs no request. */
export interface PublicationView {
  readonly claim: ClaimJudgement
  readonly service: ServiceView
  /** Whether the Service says what is wanted; true where there is none. */
  readonly serviceUpToDate: boolean
  /** The Service was made for this very object. */
  readonly serviceIsOwn: boolean
  /** Milliseconds until the Service may be written again, where others changed it. */
  readonly serviceMendInMs: number
  /** False while Endpoints, or details of a slice that is ours, tell something else than the slice's address. */
  readonly complete: boolean
  /** The address that the slice gives pods now, whichever client wrote it. */
  readonly published: Published | undefined
  /** There is something that `Publisher.unpublish` would delete. */
  readonly present: boolean
  /** Milliseconds until time alone may change this view. */
  readonly recheckInMs: number | undefined
}

/** The view before the first list (the claim is unknown), and where neither slice nor Service exists (it is absent). */
export const emptyView = (claim: { readonly kind: 'unknown' | 'absent' }): PublicationView => ({
  claim,
  service: { kind: 'absent' },
  serviceUpToDate: true,
  serviceIsOwn: false,
  serviceMendInMs: 0,
  complete: true,
  published: undefined,
  present: false,
  recheckInMs: undefined,
})

export function soonest(...times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}

/** The claim was renewed and nothing else happened: no reason to look at the service again. */
export function isOnlyHeartbeat(before: EndpointSlice | undefined, after: EndpointSlice | undefined): boolean {
  return before !== undefined && after !== undefined && isDeepStrictEqual(essence(before), essence(after))
}

function essence(slice: EndpointSlice): object {
  const heartbeat = heartbeatOf(slice)
  const claim = slice.metadata.annotations[annotations.claim]?.replace(heartbeat, '')
  const copied = { ...slice.metadata.annotations, [annotations.heartbeat]: '', [annotations.claim]: claim }
  return { ...slice, metadata: { ...slice.metadata, annotations: copied, resourceVersion: '', managedFields: [] } }
}

/** What is published of one service. */
class PublishedService {
  readonly slice: ClaimedSlice
  readonly service: OwnService
  readonly endpoints: OwnEndpoints
  readonly #publishing: Publishing

  constructor(
    target: Pick<PublishTarget, 'namespace' | 'name'>,
    publishing: Publishing,
    silentMs: (slice: EndpointSlice) => number,
  ) {
    this.#publishing = publishing
    this.service = new OwnService(target, publishing)
    this.endpoints = new OwnEndpoints(target, publishing)
    this.slice = new ClaimedSlice(target, publishing, {
      silentMs,
      onRenewed: (renewed, published) => this.#keepEndpoints(renewed, published),
    })
  }

  view(target: PublishTarget): PublicationView {
    const { slice, claim, recheckInMs } = this.slice.view(target)
    const published = slice && publishedOf(slice)
    const publication = publicationBy(this.#publishing, target, published)
    const { service, recheckInMs: serviceRecheckInMs } = this.service.view(target)
    const isSliceRight = slice !== undefined && sliceIsCurrent(slice, publication)
    return {
      ...{ claim, service, published },
      serviceMendInMs: this.service.mendInMs(publication),
      serviceUpToDate: this.service.isCurrent(publication),
      serviceIsOwn: this.service.cached !== undefined && isOwnedBy(this.service.cached, target),
      complete: !isHeld(claim) || (this.endpoints.isCurrent(publication) && isSliceRight),
      present: isDeletable(claim) || this.endpoints.isThere,
      recheckInMs: serviceRecheckInMs ?? recheckInMs,
    }
  }

  /** Service or Endpoints after the slice: in the order of the slices' turns, and in no turn of a slice. */
  async thenBeside(written: Promise<WriteResult>, write: () => Promise<WriteResult>): Promise<WriteResult> {
    const result = await written
    return result.kind === 'done' ? this.slice.beside(write) : result
  }

  async applyEndpoints(
    target: PublishTarget,
    published: Published | undefined,
    options?: { readonly afterOthers: boolean },
  ): Promise<WriteResult> {
    await this.endpoints.apply(publicationBy(this.#publishing, target, published), options)
    return done
  }

  /** The slice goes last: as long as it is there, something is left to do. */
  async deleteSliceAndEndpoints(target: PublishTarget): Promise<WriteResult> {
    const claim = this.slice.judge(target)
    const { cached } = this.slice
    if (cached && !isDeletable(claim)) {
      this.endpoints.forget()
      return lostTo(claim, target)
    }
    if (cached || this.endpoints.isThere) await this.slice.beside(() => this.endpoints.remove())
    return (await this.slice.write(target, { to: 'delete' })).result
  }

  /** Runs with each renewal of the claim: a failure stops nothing, and the next renewal tries again. */
  #keepEndpoints(target: PublishTarget, published: Published | undefined): void {
    const kept = this.slice.beside(() => this.applyEndpoints(target, published))
    kept.catch((error: unknown) => this.#publishing.log.debug('Endpoints not kept', { key: refKey(target), error }))
  }
}

/** Stamps and the `Date` header have whole seconds each. */
const stampErrorMs = 2_000

/**
 * Says in the cluster what this machine serves, and nothing that is not so. The EndpointSlice is the claim: only its
 * holder writes, every write names the version it was based on, and a claim that is not renewed goes to others.
 * Its methods throw ApiError where the cluster does not answer or does not permit.
 */
export class Publisher {
  readonly #publishing: Publishing
  /** By namespace/name. */
  readonly #known = new Map<string, PublishedService>()
  /** For how long each holder has been silent. */
  readonly #watch: HeartbeatWatch
  readonly #stopped = new AbortController()
  readonly #unsubscribe: () => void

  constructor(options: PublisherOptions) {
    this.#publishing = publishingBy(options, this.#stopped.signal)
    this.#watch = new HeartbeatWatch(this.#publishing)
    this.#unsubscribe = options.slices.cache.onChange(({ before, after }) => {
      if (after) this.#hear(after)
      else if (before) this.#watch.forget(before.metadata.uid)
    })
  }

  /** From the caches alone. A claim found to be ours, as after a restart, is renewed from now on. */
  observe(target: PublishTarget): PublicationView {
    const { services, slices } = this.#publishing
    if (!slices.cache.synced || !services.cache.synced) return emptyView({ kind: 'unknown' })
    return this.#of(target).view(target)
  }

  /** Takes a slice that is free or was released, where the Service's name is free and valid. */
  claim(target: PublishTarget): Promise<WriteResult> {
    const one = this.#of(target)
    return one.slice.inTurn(async () => {
      const judged = one.slice.judge(target)
      if (judged.kind === 'ours' && !one.slice.isDoubtful) return done
      if (isElsewhere(judged)) return lostTo(judged, target)
      const obstacle = isHeld(judged) ? undefined : await one.service.findObstacle(target)
      if (obstacle) return obstacle
      if (judged.kind === 'previous') {
        const removed = await one.deleteSliceAndEndpoints(target)
        if (removed.kind !== 'done') return removed
      }
      return (await one.slice.write(target, { to: 'claim' })).result
    })
  }

  /** Takes a slice whose holder is dead; `lost` where it lives after all or another was quicker. */
  takeOver(target: PublishTarget): Promise<WriteResult> {
    const one = this.#of(target)
    const takenOver = one.slice.inTurn(async () => {
      const obstacle = await one.service.findObstacle(target)
      return obstacle ?? (await one.slice.write(target, { to: 'takeOver' })).result
    })
    return one.thenBeside(takenOver, () => one.applyEndpoints(target, undefined, { afterOthers: true }))
  }

  /** For an agent that sees a dead claim and cannot serve: no traffic may go to the dead address. */
  withdrawDead(target: PublishTarget): Promise<WriteResult> {
    return this.#write(target, { to: 'withdrawDead' })
  }

  /** Creates or adopts the Service; only the holder of the claim does. `takesBack`: also from LLMKube's relay. */
  ensureService(target: PublishTarget, { takesBack = false } = {}): Promise<WriteResult> {
    const one = this.#of(target)
    const confirmed = one.slice.inTurn(() => one.slice.confirm(target))
    return one.thenBeside(confirmed, async () => {
      const { cached } = one.slice
      const publication = publicationBy(this.#publishing, target, cached && publishedOf(cached))
      const { result, before } = await one.service.write(target, publication, { takesBack })
      // With a Service Kubernetes deletes its Endpoints too.
      if (before === 'absent') one.endpoints.forget()
      if (before === 'relayed') await this.#removeSelected(one, publication)
      return result
    })
  }

  /** Says where the server listens, and whether it answers. */
  publish(target: PublishTarget, published: Published): Promise<WriteResult> {
    const one = this.#of(target)
    const written = one.slice.inTurn(async () => {
      const { result, changed } = await one.slice.write(target, { to: 'publish', published })
      if (changed && result.kind === 'done') {
        const { address: hostIP, port, ready } = published
        this.#publishing.log.info('registered endpoint', { ...nameOf(target), hostIP, port, ready })
      }
      return result
    })
    return one.thenBeside(written, () => one.applyEndpoints(target, published))
  }

  /** No new traffic; claim, slice and Service stay. */
  withdraw(target: PublishTarget): Promise<WriteResult> {
    const one = this.#of(target)
    const withdrawn = one.slice.inTurn(async () => {
      const { result, changed } = await one.slice.write(target, { to: 'withdraw' })
      if (changed && result.kind === 'done') this.#publishing.log.info('withdrew endpoint', nameOf(target))
      return result
    })
    return one.thenBeside(withdrawn, async () => {
      const { cached } = one.slice
      return cached ? one.applyEndpoints(target, publishedOf(cached)) : done
    })
  }

  /** The InferenceService is stopped: slice and Endpoints go, the Service keeps its ClusterIP. */
  unpublish(target: PublishTarget): Promise<WriteResult> {
    const one = this.#of(target)
    return one.slice.inTurn(() => one.deleteSliceAndEndpoints(target))
  }

  /** LLMKube's controller takes it for no ingress from now on; whoever comes by it still does. */
  withoutPin(target: PublishTarget): Promise<WriteResult> {
    return this.#write(target, { to: 'withoutPin' })
  }

  /** The InferenceService is gone: all three go, unless they are another's by now. */
  remove(target: PublishTarget): Promise<WriteResult> {
    const one = this.#of(target)
    return one.slice.inTurn(async () => {
      const { cached } = one.slice
      const isAnothers = cached && ownerOf(cached) !== undefined && !isOwnedBy(cached, target)
      // The Endpoints went with the slice: they are of the same Service.
      if (isAnothers) one.endpoints.forget()
      const removed = isAnothers ? done : await one.deleteSliceAndEndpoints(target)
      return removed.kind === 'done' ? one.slice.beside(() => one.service.remove(target)) : removed
    })
  }

  /** Ready no more, and free for any other agent at once. */
  release(target: PublishTarget): Promise<WriteResult> {
    const one = this.#of(target)
    return one.slice.inTurn(async () => {
      const { result } = await one.slice.write(target, { to: 'withdraw' })
      const shown = one.slice.cached
      // The claim goes last: as long as it is held, something is left to do.
      if (result.kind === 'done' && shown) {
        await one.slice.beside(() => one.applyEndpoints(target, publishedOf(shown)))
      }
      one.endpoints.forget()
      return result.kind === 'done' ? (await one.slice.write(target, { to: 'release' })).result : result
    })
  }

  /** All that is held, at once and within `limitMs`; the answer names what could not be written. */
  withdrawAll(limitMs = shutdownLimitMs): Promise<readonly Unfinished[]> {
    return this.#forAllHeld(limitMs, (target) => this.withdraw(target))
  }

  /** As {@link withdrawAll}, of the keys that are meant. */
  releaseAll({ isMeant = () => true }: { isMeant?: (key: string) => boolean } = {}): Promise<readonly Unfinished[]> {
    return this.#forAllHeld(shutdownLimitMs, (target) => this.release(target), isMeant)
  }

  /** Whether there is a slice or a Service of its name in the caches, or anything is remembered of one. */
  isThere(target: PublishTarget): boolean {
    const { slices, services, naming } = this.#publishing
    const place = [target.namespace, naming.nameOf(target.name)] as const
    const isCached = slices.cache.get(...place) !== undefined || services.cache.get(...place) !== undefined
    return isCached || this.#known.has(refKey(target))
  }

  /** The services whose claims are held. */
  held(): PublishTarget[] {
    return [...this.#known.values()].flatMap(({ slice }) => slice.heldFor ?? [])
  }

  /** Ends all interest in a key, without any request. */
  forget(key: string): void {
    this.#known.get(key)?.slice.forget()
    this.#known.delete(key)
  }

  /**
   * The host may have slept, and events may have been missed: others' silence counts from now, writes that wait are dropped, and our
   * own claims are read again before they are relied on.
   */
  watchGap(): void {
    this.#watch.watchGap()
    this.#readAgain()
  }

  /** Milliseconds since the last renewal of each claim that is held. */
  heartbeatAgesMs(): number[] {
    return [...this.#known.values()].flatMap(({ slice }) => slice.heartbeatAgeMs ?? [])
  }

  /**
   * Whether the watch on EndpointSlices is live. While it is not, no holder's silence counts; our own claims are treated as after a gap,
   * and the silence of other holders from before it still counts afterwards.
   */
  setWatchLive(live: boolean): void {
    if (live === this.#watch.isLive) return
    this.#watch.setLive(live)
    if (!live) this.#readAgain()
  }

  /** Ends renewals and requests at once; the claims stay as they are. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped.abort()
    this.#unsubscribe()
    await Promise.all([...this.#known.values()].map(({ slice }) => slice[Symbol.asyncDispose]()))
  }

  #of(target: Pick<PublishTarget, 'namespace' | 'name'>): PublishedService {
    const key = refKey(target)
    const known = this.#known.get(key)
    if (known) return known
    const one = new PublishedService(target, this.#publishing, (slice) => this.#silentMs(slice))
    this.#known.set(key, one)
    return one
  }

  #write(target: PublishTarget, wish: SliceWish): Promise<WriteResult> {
    const one = this.#of(target)
    return one.slice.inTurn(async () => (await one.slice.write(target, wish)).result)
  }

  #readAgain(): void {
    for (const { slice } of this.#known.values()) slice.watchGap()
  }

  /**
   * Removes what Kubernetes made for a Service that selected Pods: it leaves their addresses there for ever once the Service selects nothing,
   * and requests would go to Pods that are gone.
   */
  async #removeSelected({ endpoints }: PublishedService, { namespace, serviceName }: Publication): Promise<void> {
    const { api, slices, signal } = this.#publishing
    const labelSelector = `${labels.serviceName}=${serviceName},${labels.sliceController} in (${sliceControllers.join(',')})`
    for await (const { items } of api.pages(slices.resource, { namespace, labelSelector }, signal)) {
      for (const known of items.map((item) => slices.parse(item))) {
        // None of them is watched.
        const store = { resource: slices.resource, parse: slices.parse, learn: () => undefined }
        const at = { api, store, namespace, name: known.metadata.name, known, signal }
        await deleteWhere(at, (now) => isOfKubernetes(now))
      }
    }
    await endpoints.removeOthers()
  }

  #forAllHeld(
    limitMs: number,
    write: (target: PublishTarget) => Promise<WriteResult>,
    isMeant: (key: string) => boolean = () => true,
  ): Promise<readonly Unfinished[]> {
    for (const { slice } of this.#known.values()) slice.dropWaiting()
    this.#findOwn()
    const held = this.held().filter((target) => isMeant(refKey(target)))
    return writeWithin(limitMs, held, write, this.#stopped.signal)
  }

  /** Holds what an agent of this machine before this one claimed, where nothing has asked for it yet. */
  #findOwn(): void {
    const { slices, node, naming } = this.#publishing
    for (const slice of [...slices.cache.values()]) {
      const target = targetOf(slice)
      if (!target || slice.metadata.name !== naming.nameOf(target.name)) continue
      if (holderOf(slice.metadata.annotations[annotations.claim]) !== node.id) continue
      const found = this.#of(target).slice
      if (!found.heldFor) found.judge(target)
    }
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
    return stamps.length === 0 ? 0 : this.#publishing.api.serverNow() - Math.max(...stamps) - stampErrorMs
  }
}

/** Kubernetes made it, for a Service that selected Pods, or of Endpoints. */
const isOfKubernetes = ({ metadata }: EndpointSlice): boolean =>
  sliceControllers.some((name) => metadata.labels[labels.sliceController] === name)

const nameOf = ({ namespace, name }: PublishTarget) => ({ namespace, name })
