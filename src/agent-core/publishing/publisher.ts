import { setTimeout as delay } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { KubeApi } from '../kube/kube-api.ts'
import type { EndpointSlice, Resource, Service } from '../kube/resources.ts'
import type { Logger } from '../observability/logger.ts'
import type { PublishedPorts } from '../servers/ports.ts'
import { messageOf } from '../util/message-of.ts'
import { keyOf, refKey } from '../util/object-key.ts'
import { within } from '../util/within.ts'
import { lostTo, type ClaimJudgement, isDeletable, isElsewhere, isHeld } from './claim.ts'
import { holderOf } from './objects.ts'
import { type ClaimedSlice, ClaimedSlices } from './claimed-slice.ts'
import { EndpointsWriter } from './endpoints.ts'
import { HeartbeatPulse } from './heartbeat.ts'
import {
  annotations,
  heartbeatAt,
  heartbeatOf,
  isOwnedBy,
  directNaming,
  labels,
  type Naming,
  ownerOf,
  type Publication,
  type Published,
  publishedOf,
  type PublishTarget,
  sliceControllers,
  sliceIsCurrent,
} from './objects.ts'
import { type ServiceView, ServiceWriter } from './service.ts'
import { deleteWhere, done, type Edits, type WatchedKind, type WriteResult } from './writes.ts'

interface PublicationsOptions {
  readonly api: KubeApi
  /** `id` is the random id of the state folder, `displayName` what people call this machine. */
  readonly node: { readonly id: string; readonly displayName: string }
  /** Empty = not stated. */
  readonly agentVersion: string
  /** Absent = direct. */
  readonly naming?: Naming
}

/** Everything that this machine says of a service, with the time that it is; without an epoch it carries no claim. */
type PublicationOf = (target: PublishTarget, published: Published | undefined, epoch?: number) => Publication

const publicationsOf =
  ({ api, node, agentVersion, naming = directNaming }: PublicationsOptions): PublicationOf =>
  (target, published, epoch) => {
    const heartbeat = heartbeatAt(api.serverNow())
    return {
      namespace: target.namespace,
      name: target.name,
      uid: target.uid,
      serviceName: naming.nameOf(target.name),
      servicePorts: naming.servicePortsOf(target.endpointPort),
      annotations: naming.annotations(target),
      published,
      heartbeat,
      agentVersion,
      releasedBy: node.id,
      claim: epoch === undefined ? undefined : { node: node.id, epoch, heartbeat, displayName: node.displayName },
    }
  }

/** Where pods are sent to the machine `node`, by these slices, seen from the service `key`. */
function publishedPorts(key: string, slices: Iterable<EndpointSlice>, node: string): PublishedPorts {
  const besides = new Set<number>()
  let own: number | undefined
  for (const slice of slices) {
    const { namespace, annotations: written, labels: named } = slice.metadata
    const published = publishedOf(slice)
    if (holderOf(written[annotations.claim]) !== node || published?.ready !== true) continue
    const isOwn = keyOf(namespace, named[labels.inferenceService] ?? ownerOf(slice)?.name ?? '') === key
    const port = published.enginePort ?? published.port
    if (isOwn) own = port
    else besides.add(port)
  }
  return { own, besides }
}

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

/** Resolves false if the signal cut the pause short. */
const pause = (ms: number, signal: AbortSignal): Promise<boolean> => delay(ms, true, { signal }).catch(() => false)

/** What the caches say; costs no request. */
export interface PublicationView {
  readonly claim: ClaimJudgement
  readonly service: ServiceView
  /** Whether the Service says what is wanted; true where there is none. */
  readonly serviceUpToDate: boolean
  /** The Service was made for this very object. */
  readonly serviceIsOwn: boolean
  /** Only while others change the Service again and again. */
  readonly serviceEdits: Edits | undefined
  /** False while Endpoints, or details of a slice that is ours, tell something else than the slice's address. */
  readonly complete: boolean
  /** The address that the slice gives pods now, whichever client wrote it. */
  readonly published: Published | undefined
  /** There is something that `Publisher.unpublish` would delete. */
  readonly present: boolean
  /** Milliseconds until time alone may change this view. */
  readonly recheckInMs: number | undefined
}

/** As it is seen before the first list (the claim is unknown), and where there is neither slice nor Service (it is absent). */
export const emptyView = (claim: { readonly kind: 'unknown' | 'absent' }): PublicationView => ({
  claim,
  service: { kind: 'absent' },
  serviceUpToDate: true,
  serviceIsOwn: false,
  serviceEdits: undefined,
  complete: true,
  published: undefined,
  present: false,
  recheckInMs: undefined,
})

interface Parts {
  readonly slices: Pick<ClaimedSlices, 'view'>
  readonly service: Pick<ServiceWriter, 'view' | 'edits' | 'isCurrent'>
  readonly endpoints: Pick<EndpointsWriter, 'isCurrent' | 'has'>
}

/** `publicationOf`: what would be written for an address. */
function publicationView(
  target: PublishTarget,
  { slices, service: services, endpoints }: Parts,
  publicationOf: (published: Published | undefined) => Publication,
): PublicationView {
  const { slice, claim, recheckInMs } = slices.view(target)
  const published = slice && publishedOf(slice)
  const publication = publicationOf(published)
  const { service, isOwn: serviceIsOwn, recheckInMs: serviceRecheckInMs } = services.view(target)
  const serviceEdits = services.edits(target, publication)
  return {
    claim,
    service,
    serviceUpToDate: services.isCurrent(target, publication),
    serviceIsOwn,
    serviceEdits,
    complete:
      !isHeld(claim) || (endpoints.isCurrent(publication) && slice !== undefined && sliceIsCurrent(slice, publication)),
    published,
    present: isDeletable(claim) || endpoints.has(refKey(target)),
    recheckInMs: serviceRecheckInMs ?? soonest(recheckInMs, isHeld(claim) ? serviceEdits?.forgottenInMs : undefined),
  }
}

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

export interface PublisherOptions extends PublicationsOptions {
  readonly api: KubeApi
  readonly services: WatchedKind<Service>
  readonly slices: WatchedKind<EndpointSlice>
  /** core/v1 Endpoints, for readers that know no slices; undefined = they are not written. */
  readonly endpoints: Resource | undefined
  readonly log: Logger
  /** Something changed that no watch tells: a claim was lost, or could not be renewed. Key = namespace/name. */
  readonly onChange: (key: string) => void
  /** Milliseconds; must not jump with the wall clock. */
  readonly monotonicNow?: () => number
  readonly random?: () => number
  /** Between two renewals of a claim. */
  readonly renewEveryMs?: number
  /** Shared with other publishers; absent = its own. */
  readonly pulse?: HeartbeatPulse
}

/**
 * Says in the cluster what this machine serves, and nothing that is not so. The EndpointSlice is the claim: only its
 * holder writes, every write names the version it was based on, and a claim that is not renewed goes to others.
 * Its methods throw ApiError where the cluster does not answer or does not permit.
 */
export class Publisher {
  /** The beat on which the claims are renewed. */
  readonly pulse: HeartbeatPulse
  readonly #options: PublisherOptions
  readonly #publication: PublicationOf
  readonly #slices: ClaimedSlices
  readonly #service: ServiceWriter
  readonly #endpoints: EndpointsWriter
  readonly #stopped = new AbortController()

  constructor(options: PublisherOptions) {
    const { api, services, slices, endpoints: resource, log, node } = options
    const { monotonicNow = () => performance.now(), random = Math.random } = options
    const { naming = directNaming } = options
    const { nameOf } = naming
    const { signal } = this.#stopped
    this.#options = options
    this.#publication = publicationsOf(options)
    this.pulse = options.pulse ?? new HeartbeatPulse({ random, everyMs: options.renewEveryMs })
    this.#service = new ServiceWriter({ api, services, nameOf, monotonicNow, signal })
    this.#endpoints = new EndpointsWriter({ api, resource, log, signal, monotonicNow })
    this.#slices = new ClaimedSlices({
      api,
      slices,
      nameOf,
      node: node.id,
      log,
      signal,
      monotonicNow,
      random,
      pulse: this.pulse,
      publication: this.#publication,
      onRenewed: (target, slice) => this.#keepEndpoints(target, publishedOf(slice)),
      onChange: options.onChange,
    })
  }

  /** From the caches alone. A claim found to be ours, as after a restart, is renewed from now on. */
  observe(target: PublishTarget): PublicationView {
    const { services, slices } = this.#options
    if (!slices.cache.synced || !services.cache.synced) return emptyView({ kind: 'unknown' })
    const parts = { slices: this.#slices, service: this.#service, endpoints: this.#endpoints }
    return publicationView(target, parts, (published) => this.#publication(target, published))
  }

  /** Takes a slice that is free or was released, where the Service's name is free and valid. */
  claim(target: PublishTarget): Promise<WriteResult> {
    return this.#inTurn(target, async (slice) => {
      const judged = slice.judge(target)
      if (judged.kind === 'ours' && !slice.isDoubtful) return done
      if (isElsewhere(judged)) return lostTo(judged, target)
      const obstacle = isHeld(judged) ? undefined : await this.#findObstacle(target)
      if (obstacle) return obstacle
      if (judged.kind === 'previous') {
        const removed = await this.#deleteSliceAndEndpoints(slice, target)
        if (removed.kind !== 'done') return removed
      }
      return slice.claim(target)
    })
  }

  /** Takes a slice whose holder is dead; `lost` where it lives after all or another was quicker. */
  takeOver(target: PublishTarget): Promise<WriteResult> {
    const takenOver = this.#inTurn(target, async (slice) => {
      const obstacle = await this.#findObstacle(target)
      return obstacle ?? slice.takeOver(target)
    })
    return this.#thenBeside(target, takenOver, () => this.#writeEndpoints(target, undefined, { afterOthers: true }))
  }

  /** For an agent that sees a dead claim and cannot serve: no traffic may go to the dead address. */
  withdrawDead(target: PublishTarget): Promise<WriteResult> {
    return this.#inTurn(target, (slice) => slice.withdrawDead(target))
  }

  /** Creates or adopts the Service; only the holder of the claim does. `takesBack`: also from LLMKube's relay. */
  ensureService(target: PublishTarget, { takesBack = false } = {}): Promise<WriteResult> {
    const confirmed = this.#inTurn(target, (slice) => slice.confirm(target))
    return this.#thenBeside(target, confirmed, async (slice) => {
      const cached = slice.cached(target)
      const publication = this.#publication(target, cached && publishedOf(cached))
      const relay = { isLeft: false }
      const result = await this.#service.write(target, publication, {
        onCreate: () => this.#endpoints.forget(refKey(target)),
        ...(takesBack && { onTakenBack: () => (relay.isLeft = true) }),
      })
      if (relay.isLeft) await this.#removeSelected(publication)
      return result
    })
  }

  /** Says where the server listens, and whether it answers. */
  publish(target: PublishTarget, published: Published): Promise<WriteResult> {
    const written = this.#inTurn(target, async (slice) => {
      const { result, changed } = await slice.publish(target, published)
      if (changed && result.kind === 'done') {
        const { address: hostIP, port, ready } = published
        this.#options.log.info('registered endpoint', { ...nameOf(target), hostIP, port, ready })
      }
      return result
    })
    return this.#thenBeside(target, written, () => this.#writeEndpoints(target, published))
  }

  /** No new traffic; claim, slice and Service stay. */
  withdraw(target: PublishTarget): Promise<WriteResult> {
    const withdrawn = this.#inTurn(target, async (slice) => {
      const { result, changed } = await slice.withdraw(target)
      if (changed && result.kind === 'done') this.#options.log.info('withdrew endpoint', nameOf(target))
      return result
    })
    return this.#thenBeside(target, withdrawn, async (slice) => {
      const cached = slice.cached(target)
      return cached ? this.#writeEndpoints(target, publishedOf(cached)) : done
    })
  }

  /** The InferenceService is stopped: slice and Endpoints go, the Service keeps its ClusterIP. */
  unpublish(target: PublishTarget): Promise<WriteResult> {
    return this.#inTurn(target, (slice) => this.#deleteSliceAndEndpoints(slice, target))
  }

  /** LLMKube's controller takes it for no ingress from now on; whoever comes by it still does. */
  withoutPin(target: PublishTarget): Promise<WriteResult> {
    return this.#inTurn(target, (slice) => slice.strip(target, [annotations.ingressPin]))
  }

  /** The InferenceService is gone: all three go, unless they are another's by now. */
  remove(target: PublishTarget): Promise<WriteResult> {
    return this.#inTurn(target, async (slice) => {
      const cached = slice.cached(target)
      const isAnothers = cached && ownerOf(cached) !== undefined && !isOwnedBy(cached, target)
      // The Endpoints went with the slice: they are of the same Service.
      if (isAnothers) this.#endpoints.forget(refKey(target))
      const removed = isAnothers ? done : await this.#deleteSliceAndEndpoints(slice, target)
      return removed.kind === 'done' ? slice.beside(() => this.#service.remove(target)) : removed
    })
  }

  /** Ready no more, and free for any other agent at once. */
  release(target: PublishTarget): Promise<WriteResult> {
    return this.#inTurn(target, async (slice) => {
      const { result } = await slice.withdraw(target)
      if (result.kind !== 'done') {
        this.#endpoints.forget(refKey(target))
        return result
      }
      const shown = slice.cached(target)
      // The claim goes last: as long as it is held, something is left to do.
      if (shown) await slice.beside(() => this.#writeEndpoints(target, publishedOf(shown)))
      const released = await slice.release(target)
      this.#endpoints.forget(refKey(target))
      return released
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
    const { slices, services, naming = directNaming } = this.#options
    const place = [target.namespace, naming.nameOf(target.name)] as const
    const isCached = slices.cache.get(...place) !== undefined || services.cache.get(...place) !== undefined
    return isCached || this.#slices.isKnown(target) || this.#service.isKnown(target)
  }

  /**
   * Removes what Kubernetes made for a Service that selected Pods: it leaves their addresses there for ever once the Service selects nothing,
   * and requests would go to Pods that are gone.
   */
  async #removeSelected({ namespace, name, serviceName }: Publication): Promise<void> {
    const { api, slices, endpoints } = this.#options
    const { signal } = this.#stopped
    const labelSelector = `${labels.serviceName}=${serviceName},${labels.sliceController} in (${sliceControllers.join(',')})`
    for await (const { items } of api.pages(slices.resource, { namespace, labelSelector }, signal)) {
      for (const known of items.map((item) => slices.parse(item))) {
        // None of them is watched.
        const store = { resource: slices.resource, parse: slices.parse, learn: () => undefined }
        const at = { api, store, namespace, name: known.metadata.name, known, signal }
        await deleteWhere(at, (now) => isOfKubernetes(now))
      }
    }
    if (endpoints) await this.#endpoints.removeOthers({ namespace, name, serviceName })
  }

  /** The services whose claims are held. */
  held(): PublishTarget[] {
    return this.#slices.held()
  }

  /** Where pods are sent to this machine, seen from the service `key`. */
  ports(key: string): PublishedPorts {
    return publishedPorts(key, this.#options.slices.cache.values(), this.#options.node.id)
  }

  /** Ends all interest in a key, without any request. */
  forget(key: string): void {
    this.#service.forget(key)
    this.#endpoints.forget(key)
    this.#slices.forget(key)
  }

  /**
   * The host may have slept, and events may have been missed: others' silence counts from now, writes that wait are dropped, and our
   * own claims are read again before they are relied on.
   */
  watchGap(): void {
    this.#slices.watchGap()
  }

  /** Milliseconds since the last renewal of each claim that is held. */
  heartbeatAgesMs(): number[] {
    return this.#slices.heartbeatAgesMs()
  }

  /**
   * Whether the watch on EndpointSlices is live. While it is not, no holder's silence counts; our own claims are treated as after a gap,
   * and the silence of other holders from before it still counts afterwards.
   */
  setWatchLive(live: boolean): void {
    this.#slices.setWatchLive(live)
  }

  /** Ends renewals and requests at once; the claims stay as they are. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped.abort()
    await this.#slices[Symbol.asyncDispose]()
  }

  #inTurn(target: PublishTarget, write: (slice: ClaimedSlice) => Promise<WriteResult>): Promise<WriteResult> {
    const slice = this.#slices.of(target)
    return slice.inTurn(() => write(slice))
  }

  /** Service or Endpoints after the slice: in the order of the slices' turns, and in no turn of a slice. */
  async #thenBeside(
    target: PublishTarget,
    written: Promise<WriteResult>,
    write: (slice: ClaimedSlice) => Promise<WriteResult>,
  ): Promise<WriteResult> {
    const result = await written
    const slice = this.#slices.of(target)
    return result.kind === 'done' ? slice.beside(() => write(slice)) : result
  }

  #findObstacle(target: PublishTarget): Promise<WriteResult | undefined> {
    return this.#service.findObstacle(target, this.#publication(target, undefined))
  }

  async #writeEndpoints(
    target: PublishTarget,
    published: Published | undefined,
    options?: { readonly afterOthers: boolean },
  ): Promise<WriteResult> {
    await this.#endpoints.apply(this.#publication(target, published), options)
    return done
  }

  /** With a renewal of the claim: a failure stops nothing, and the next renewal tries again. */
  #keepEndpoints(target: PublishTarget, published: Published | undefined): void {
    const kept = this.#slices.of(target).beside(() => this.#writeEndpoints(target, published))
    kept.catch((error: unknown) => this.#options.log.debug('Endpoints not kept', { key: refKey(target), error }))
  }

  /** The slice goes last: as long as it is there, something is left to do. */
  async #deleteSliceAndEndpoints(slice: ClaimedSlice, target: PublishTarget): Promise<WriteResult> {
    const key = refKey(target)
    const claim = slice.judge(target)
    const cached = slice.cached(target)
    if (cached && !isDeletable(claim)) {
      this.#endpoints.forget(key)
      return lostTo(claim, target)
    }
    if (cached || this.#endpoints.has(key)) {
      await slice.beside(() => this.#endpoints.remove(this.#publication(target, undefined)))
    }
    return slice.delete(target)
  }

  #forAllHeld(
    limitMs: number,
    write: (target: PublishTarget) => Promise<WriteResult>,
    isMeant: (key: string) => boolean = () => true,
  ): Promise<readonly Unfinished[]> {
    this.#slices.dropWaiting()
    this.#slices.findOwn()
    const held = this.#slices.held().filter((target) => isMeant(refKey(target)))
    return writeWithin(limitMs, held, write, this.#stopped.signal)
  }
}

/** Kubernetes made it, for a Service that selected Pods, or of Endpoints. */
const isOfKubernetes = ({ metadata }: EndpointSlice): boolean =>
  sliceControllers.some((name) => metadata.labels[labels.sliceController] === name)

const nameOf = ({ namespace, name }: PublishTarget) => ({ namespace, name })
