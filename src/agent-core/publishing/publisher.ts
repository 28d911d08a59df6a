import { setTimeout as delay } from 'node:timers/promises'
import { holderOf } from './claim-text.ts'
import { messageOf } from '../support/message-of.ts'
import { keyOf, refKey } from '../support/object-key.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import type { EndpointSlice, Resource, Service } from '../kube/resources.ts'
import type { Logger } from '../observability/logger.ts'
import { within } from '../support/within.ts'
import { isDeletable, isHeld, type ClaimJudgement } from './claim.ts'
import type { Edits } from './foreign-edits.ts'
import type { ClaimedSlice } from './claimed-slice.ts'
import { ClaimedSlices } from './claimed-slices.ts'
import { HeartbeatPulse, renewEveryMs } from './heartbeat-pulse.ts'
import { EndpointsWriter } from './endpoints-writer.ts'
import {
  annotations,
  heartbeatAt,
  isOwnedBy,
  labels,
  ownerOf,
  publishedOf,
  serviceNameOf,
  servicePortsOf,
  sliceIsCurrent,
  type Publication,
  type Published,
  type PublishTarget,
} from './objects.ts'
import { ServiceWriter, type ServiceView } from './service-writer.ts'
import { isAnswered } from './settled-write.ts'
import type { WatchedKind } from './watched-kind.ts'
import { done, lostTo, type WriteResult } from './write-result.ts'

export type { WriteResult }

/** At shutdown the servers wait for this. */
const shutdownLimitMs = 5_000
/** What the cluster did not take is tried again this often until then. */
const retryAtEndMs = 500
/** So often Endpoints that say ready are tried to be written before the claim is given up without it. */
const lastEndpointsTries = 3

export interface PublisherOptions {
  readonly api: KubeApi
  readonly services: WatchedKind<Service>
  readonly slices: WatchedKind<EndpointSlice>
  /** core/v1 Endpoints, for readers that know no slices; undefined = they are not written. */
  readonly endpoints: Resource | undefined
  /** Where they are looked for; absent = in all namespaces. */
  readonly namespace?: string | undefined
  /** `id` is the random id of the state folder, `displayName` what people call this machine. */
  readonly node: { readonly id: string; readonly displayName: string }
  /** Empty = not stated. */
  readonly agentVersion: string
  readonly log: Logger
  /** Something changed that no watch tells: a claim was lost, or could not be renewed. Key = namespace/name. */
  readonly onChange: (key: string) => void
  /** Milliseconds; must not jump with the wall clock. */
  readonly monotonicNow?: () => number
  readonly random?: () => number
  /** Between two renewals of a claim. */
  readonly renewEveryMs?: number
}

/** What the caches say; costs no request. */
export interface PublicationView {
  readonly claim: ClaimJudgement
  readonly service: ServiceView
  /** True also where there is no Service of ours to be out of date. */
  readonly serviceUpToDate: boolean
  /** Only while others change the Service again and again. */
  readonly serviceEdits: Edits | undefined
  /** False while Endpoints, or details of a slice that is ours, tell something else than the slice's address. */
  readonly complete: boolean
  /** The address that the slice gives pods now, whichever client wrote it. */
  readonly published: Published | undefined
  /** There is something that {@link Publisher.unpublish} would delete. */
  readonly present: boolean
  /** Milliseconds until time alone may change this view. */
  readonly recheckInMs: number | undefined
}

/** A key that could not be written in time, and why. */
export interface Unfinished {
  readonly key: string
  readonly message: string
}

/**
 * Says in the cluster what this machine serves, and nothing that is not so. The EndpointSlice is the claim: only its
 * holder writes, every write names the version it was based on, and a claim that is not renewed goes to others.
 * Its methods throw ApiError where the cluster does not answer or does not permit.
 */
export class Publisher {
  readonly #options: PublisherOptions
  readonly #slices: ClaimedSlices
  readonly #service: ServiceWriter
  readonly #endpoints: EndpointsWriter
  readonly #stopped = new AbortController()
  /** How often in a row the Endpoints of a claim that is given up could not be written. */
  readonly #lastEndpointsFailures = new Map<string, number>()
  #endpointsTimer: NodeJS.Timeout | undefined
  /** Each renewal of a claim asks for its Endpoints, as they may not be listed. */
  #asksForEach = false

  constructor(options: PublisherOptions) {
    const { api, services, slices, endpoints: resource, log, node } = options
    const { monotonicNow = () => performance.now(), random = Math.random } = options
    const { signal } = this.#stopped
    this.#options = options
    this.#service = new ServiceWriter({ api, services, monotonicNow, signal })
    this.#endpoints = new EndpointsWriter({ api, resource, log, signal, monotonicNow, random })
    this.#slices = new ClaimedSlices({
      api,
      slices,
      node: node.id,
      log,
      signal,
      monotonicNow,
      random,
      pulse: new HeartbeatPulse({ random, everyMs: options.renewEveryMs }),
      publication: (target, published, epoch) => this.#publication(target, published, epoch),
      onRenewed: (target, slice) => this.#keepEndpoints(target, publishedOf(slice), { reread: this.#asksForEach }),
      onChange: options.onChange,
    })
    if (resource) this.#lookAgain()
  }

  /** From the caches alone. A claim found to be ours, as after a restart, is renewed from now on. */
  observe(target: PublishTarget): PublicationView {
    const { services, slices } = this.#options
    if (!slices.cache.synced || !services.cache.synced) return unknownView
    const { slice, claim, recheckInMs } = this.#slices.view(target)
    const published = slice && publishedOf(slice)
    const publication = this.#publication(target, published)
    const { service, recheckInMs: serviceRecheckInMs } = this.#service.view(target)
    const serviceEdits = this.#service.edits(target, publication)
    return {
      claim,
      service,
      serviceUpToDate: this.#service.isCurrent(target, publication),
      serviceEdits,
      complete:
        !isHeld(claim) ||
        (this.#endpoints.isCurrent(publication) && slice !== undefined && sliceIsCurrent(slice, publication)),
      published,
      present: isDeletable(claim) || this.#endpoints.has(refKey(target)),
      recheckInMs: serviceRecheckInMs ?? soonest(recheckInMs, isHeld(claim) ? serviceEdits?.forgottenInMs : undefined),
    }
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
    return this.#inTurn(target, async (slice) => {
      const obstacle = await this.#findObstacle(target)
      if (obstacle) return obstacle
      const result = await slice.takeOver(target)
      if (result.kind === 'done') await this.#writeEndpoints(target, undefined, { reread: true })
      return result
    })
  }

  /** For an agent that sees a dead claim and cannot serve: no traffic may go to the dead address. */
  withdrawDead(target: PublishTarget): Promise<WriteResult> {
    return this.#inTurn(target, (slice) => slice.withdrawDead(target))
  }

  /** Creates or adopts the Service; only the holder of the claim does. */
  ensureService(target: PublishTarget): Promise<WriteResult> {
    return this.#inTurn(target, async (slice) => {
      const confirmed = await slice.confirm(target)
      if (confirmed.kind !== 'done') return confirmed
      const cached = slice.cached(target)
      return this.#writeService(target, cached && publishedOf(cached))
    })
  }

  /** Says where the server listens, and whether it answers. */
  publish(target: PublishTarget, published: Published): Promise<WriteResult> {
    return this.#inTurn(target, async (slice) => {
      const { result, changed } = await slice.publish(target, published)
      if (result.kind !== 'done') return result
      await this.#writeEndpoints(target, published)
      if (changed) {
        const { address: hostIP, port, ready } = published
        this.#options.log.info('registered endpoint', { ...nameOf(target), hostIP, port, ready })
      }
      return result
    })
  }

  /** No new traffic; claim, slice and Service stay. */
  withdraw(target: PublishTarget): Promise<WriteResult> {
    return this.#inTurn(target, async (slice) => {
      const { result, changed } = await slice.withdraw(target)
      const cached = slice.cached(target)
      if (result.kind !== 'done' || !cached) return result
      if (changed) this.#options.log.info('withdrew endpoint', nameOf(target))
      await this.#writeEndpoints(target, publishedOf(cached))
      return result
    })
  }

  /** The InferenceService is stopped: slice and Endpoints go, the Service keeps its ClusterIP. */
  unpublish(target: PublishTarget): Promise<WriteResult> {
    return this.#inTurn(target, (slice) => this.#deleteSliceAndEndpoints(slice, target))
  }

  /** The InferenceService is gone: all three go, unless they are another's by now. */
  remove(target: PublishTarget): Promise<WriteResult> {
    return this.#inTurn(target, async (slice) => {
      const cached = slice.cached(target)
      const isAnothers = cached && ownerOf(cached) !== undefined && !isOwnedBy(cached, target)
      const removed = isAnothers ? done : await this.#deleteSliceAndEndpoints(slice, target)
      return removed.kind === 'done' ? this.#service.remove(target) : removed
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
      if (shown) await this.#writeLastEndpoints(target, publishedOf(shown))
      const released = await slice.release(target)
      this.#endpoints.forget(refKey(target))
      return released
    })
  }

  /** All that is held, at once and within `limitMs`; the answer names what could not be written. */
  withdrawAll(limitMs = shutdownLimitMs): Promise<readonly Unfinished[]> {
    return this.#forAllHeld(limitMs, (target) => this.withdraw(target))
  }

  /** As {@link withdrawAll}. */
  releaseAll(limitMs = shutdownLimitMs): Promise<readonly Unfinished[]> {
    return this.#forAllHeld(limitMs, (target) => this.release(target))
  }

  /** Where pods are sent to this machine for other services than `key`, whether or not a server is there. */
  portsBesides(key: string): ReadonlySet<number> {
    const { slices, node } = this.#options
    const ports = new Set<number>()
    for (const slice of slices.cache.values()) {
      const { namespace, annotations: told, labels: named } = slice.metadata
      const published = publishedOf(slice)
      if (holderOf(told[annotations.claim]) !== node.id || published?.ready !== true) continue
      if (keyOf(namespace, named[labels.inferenceService] ?? ownerOf(slice)?.name ?? '') !== key)
        ports.add(published.port)
    }
    return ports
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

  /**
   * Whether the watch on EndpointSlices is live. While it is not, no holder's silence counts; our own claims are treated as after a gap,
   * and other holders' silence from before it goes on counting afterwards.
   */
  setWatchLive(live: boolean): void {
    this.#slices.setWatchLive(live)
  }

  /** Ends renewals and requests at once; the claims stay as they are. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped.abort()
    clearTimeout(this.#endpointsTimer)
    await this.#slices[Symbol.asyncDispose]()
  }

  /** Slice, Service and Endpoints of one InferenceService are written in one turn. */
  #inTurn(target: PublishTarget, write: (slice: ClaimedSlice) => Promise<WriteResult>): Promise<WriteResult> {
    const slice = this.#slices.of(target)
    return slice.inTurn(() => write(slice))
  }

  #findObstacle(target: PublishTarget): Promise<WriteResult | undefined> {
    return this.#service.findObstacle(target, this.#publication(target, undefined))
  }

  #writeService(target: PublishTarget, published: Published | undefined): Promise<WriteResult> {
    const publication = this.#publication(target, published)
    return this.#service.write(target, publication, () => this.#endpoints.forget(refKey(target)))
  }

  #writeEndpoints(
    target: PublishTarget,
    published: Published | undefined,
    options?: { readonly reread?: boolean; readonly despiteOthers?: boolean },
  ): Promise<void> {
    return this.#endpoints.write(this.#publication(target, published), options)
  }

  /** Endpoints that the cluster refuses again and again do not keep other agents from the claim. */
  async #writeLastEndpoints(target: PublishTarget, published: Published | undefined): Promise<void> {
    const key = refKey(target)
    try {
      await this.#writeEndpoints(target, published, { reread: !this.#endpoints.has(key), despiteOthers: true })
    } catch (error) {
      if (!isAnswered(error)) throw error
      const failures = (this.#lastEndpointsFailures.get(key) ?? 0) + 1
      this.#lastEndpointsFailures.set(key, failures)
      if (failures < lastEndpointsTries) throw error
      this.#options.log.warn('Endpoints left as they are', { key, error })
    }
    this.#lastEndpointsFailures.delete(key)
  }

  /** Beside other work, which goes on whatever becomes of this: the next look tries again. */
  async #keepEndpoints(
    target: PublishTarget,
    published: Published | undefined,
    options?: { readonly reread: boolean },
  ): Promise<void> {
    try {
      await this.#writeEndpoints(target, published, options)
    } catch (error) {
      this.#options.log.debug('Endpoints not kept', { key: refKey(target), error })
    }
  }

  #lookAgain(): void {
    this.#endpointsTimer = setTimeout(() => {
      void this.#lookAtEndpoints().finally(() => {
        if (!this.#stopped.signal.aborted) this.#lookAgain()
      })
    }, this.#options.renewEveryMs ?? renewEveryMs).unref()
  }

  /** Lists the Endpoints once, to find and correct foreign changes; without the list it corrects those known to differ. */
  async #lookAtEndpoints(): Promise<void> {
    try {
      this.#asksForEach = !(await this.#endpoints.lookAtAll(this.#options.namespace))
    } catch (error) {
      if (this.#stopped.signal.aborted) return
      this.#options.log.debug('Endpoints not looked at', { error })
    }
    await Promise.all(this.#slices.held().map((target) => this.#mendEndpoints(target)))
  }

  async #mendEndpoints(target: PublishTarget): Promise<void> {
    await this.#inTurn(target, async (slice) => {
      // What is wanted may have changed while this waited for its turn.
      const wanted = slice.heldFor
      const cached = wanted && slice.cached(wanted)
      if (cached && isHeld(slice.judge(wanted))) await this.#keepEndpoints(wanted, publishedOf(cached))
      return done
    })
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
    if (cached || this.#endpoints.has(key)) await this.#endpoints.remove(this.#publication(target, undefined))
    return slice.delete(target)
  }

  /** Without an epoch it carries no claim. */
  #publication(target: PublishTarget, published: Published | undefined, epoch?: number): Publication {
    const { node, agentVersion, api } = this.#options
    const heartbeat = heartbeatAt(api.serverNow())
    return {
      namespace: target.namespace,
      name: target.name,
      uid: target.uid,
      serviceName: serviceNameOf(target.name),
      servicePorts: servicePortsOf(target.endpointPort),
      published,
      heartbeat,
      agentVersion,
      claim: epoch === undefined ? undefined : { node: node.id, epoch, heartbeat, displayName: node.displayName },
    }
  }

  async #forAllHeld(
    limitMs: number,
    write: (target: PublishTarget) => Promise<WriteResult>,
  ): Promise<readonly Unfinished[]> {
    this.#slices.dropWaiting()
    this.#slices.findOwn()
    const unfinished = new Map<string, string>()
    const limit = AbortSignal.any([this.#stopped.signal, AbortSignal.timeout(limitMs)])
    const writes = this.#slices.held().map(async (target) => {
      const key = refKey(target)
      unfinished.set(key, `The cluster did not answer within ${limitMs / 1000} s.`)
      while (!limit.aborted) {
        const message = await failureOf(write(target))
        if (message === undefined) unfinished.delete(key)
        else unfinished.set(key, message)
        if (message === undefined || !(await pause(retryAtEndMs, limit))) return
      }
    })
    await within(limitMs, Promise.all(writes))
    return [...unfinished].map(([key, message]) => ({ key, message }))
  }
}

function soonest(...times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}

/** Undefined = there is nothing left to be written. */
const failureOf = (write: Promise<WriteResult>): Promise<string | undefined> =>
  write.then((result) => (result.kind === 'done' || result.kind === 'lost' ? undefined : result.message), messageOf)

/** False where it was cut short. */
const pause = (ms: number, signal: AbortSignal): Promise<boolean> => delay(ms, true, { signal }).catch(() => false)

const unknownView: PublicationView = {
  claim: { kind: 'unknown' },
  service: { kind: 'absent' },
  serviceUpToDate: true,
  serviceEdits: undefined,
  complete: true,
  published: undefined,
  present: false,
  recheckInMs: undefined,
}

const isElsewhere = ({ kind }: ClaimJudgement): boolean =>
  kind === 'foreign' || kind === 'unclaimed' || kind === 'overwritten' || kind === 'dead'

const nameOf = ({ namespace, name }: PublishTarget) => ({ namespace, name })
