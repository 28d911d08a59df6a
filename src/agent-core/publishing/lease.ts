import { isApiError } from '../kube/api-error.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import { type Lease, parseLease, resources } from '../kube/resources.ts'
import type { Logger } from '../observability/logger.ts'
import { within } from '../util/within.ts'
import { deadAfterMs } from './claim.ts'
import { type HeartbeatPulse, HeartbeatWatch } from './heartbeat.ts'
import {
  changedAnnotations,
  leaseAnnotations,
  type LeaseAnnotations,
  leaseNameOf,
  microTime,
  type NodeFacts,
  nodeLabel,
  nodeNameOf,
} from './lease-content.ts'

interface NodeLeaseOptions {
  readonly api: KubeApi
  readonly namespace: string
  readonly node: { readonly id: string; readonly displayName: string }
  /** The beat on which claims are renewed. */
  readonly pulse: HeartbeatPulse
  readonly facts: () => Promise<NodeFacts>
  readonly log: Logger
  /** {@link NodeLease.notice} is another. */
  readonly onChange: () => void
  readonly monotonicNow?: (() => number) | undefined
}

/** What our last answered write left. */
interface Held {
  readonly uid: string
  readonly resourceVersion: string
  readonly annotations: LeaseAnnotations
}

/** An agent that ends waits no longer for its Lease to go. */
const removalLimitMs = 2_000

/**
 * Tells the cluster, in a Lease of this machine's name, what it can run. Nothing depends on it: it is written beside everything else, with
 * one request for each heartbeat, and where it cannot be written a notice says so.
 */
export class NodeLease {
  readonly ref: { readonly namespace: string; readonly name: string }
  readonly #options: NodeLeaseOptions
  readonly #stopped = new AbortController()
  /** How long the holder of a Lease that is not ours has been silent. */
  readonly #others: HeartbeatWatch
  /** Undefined while it is not known to be ours. */
  #held: Held | undefined
  /** There is one that may be another's: it is read before anything is written. */
  #isThere = false
  #renewing: Promise<void> | undefined
  #isLeaving = false
  #notice: string | undefined

  constructor(options: NodeLeaseOptions) {
    const { namespace, node, monotonicNow = () => performance.now() } = options
    this.#options = options
    this.ref = { namespace, name: leaseNameOf(node.displayName) }
    this.#others = new HeartbeatWatch({ monotonicNow })
  }

  /** One sentence why the cluster does not know what this machine can run. */
  get notice(): string | undefined {
    return this.#notice
  }

  /** Writes it now, and from then on with each heartbeat. Does not wait, so that no claim waits for it. */
  readonly renew = (): Promise<void> => {
    if (!this.#isLeaving)
      this.#renewing ??= this.#renew().finally(() => {
        this.#renewing = undefined
        if (!this.#isLeaving) this.#options.pulse.join(this.renew)
      })
    return Promise.resolve()
  }

  /** Resolves when the heartbeat that is under way is over. */
  async idle(): Promise<void> {
    await this.#renewing
  }

  /** For an unknown time nothing was heard of others. */
  watchGap(): void {
    this.#others.watchGap()
  }

  /** The machine no longer serves this cluster: deletes the Lease where it is ours. Never rejects. */
  async remove(): Promise<void> {
    this.#leave()
    await within(removalLimitMs, this.#remove())
    this.#stopped.abort()
  }

  /** Ends renewals at once, and leaves the Lease to the next agent. */
  [Symbol.dispose](): void {
    this.#leave()
    this.#stopped.abort()
  }

  #leave(): void {
    this.#isLeaving = true
    this.#options.pulse.leave(this.renew)
  }

  async #renew(): Promise<void> {
    const { facts, log } = this.#options
    try {
      const annotations = leaseAnnotations(await facts())
      if (this.#isLeaving) return
      this.#say(await this.#write(annotations))
    } catch (error) {
      if (this.#stopped.signal.aborted) return
      this.#others.watchGap()
      const notice = this.#noticeOf(error)
      if (notice !== undefined) this.#say(notice)
      else if (isApiError(error)) log.debug('lease not renewed', { ...this.ref, error })
      else log.error('lease not renewed', { ...this.ref, error })
    }
  }

  /** A sentence where it is another's. Throws ApiError. */
  async #write(annotations: LeaseAnnotations): Promise<string | undefined> {
    if (this.#held) {
      const { uid, resourceVersion, annotations: written } = this.#held
      try {
        await this.#patch({ uid, resourceVersion }, annotations, changedAnnotations(annotations, written), {})
        return undefined
      } catch (error) {
        if (!isApiError(error, 404, 409)) throw error
        this.#held = undefined
        this.#isThere = isApiError(error, 409)
      }
    }
    if (!this.#isThere && (await this.#create(annotations))) return undefined
    this.#isThere = true
    const found = await this.#get()
    if (found) return this.#take(found, annotations)
    this.#isThere = false
    return undefined
  }

  async #take(found: Lease, annotations: LeaseAnnotations): Promise<string | undefined> {
    const { uid, resourceVersion, labels } = found.metadata
    const holder = found.spec.holderIdentity ?? ''
    if (labels[nodeLabel] === undefined) {
      return `${this.#untold} The Lease ${this.#shown} was not made by an agent: delete it.`
    }
    const isOurs = holder === this.#options.node.id
    if (!isOurs && holder !== '' && !this.#isStale(found)) {
      return `${this.#untold} The Lease ${this.#shown} is held by another agent, ${holder}: give one of the two machines another name. This agent takes it over once the other has been silent for ${deadAfterMs / 1_000} s.`
    }
    if (!isOurs) this.#options.log.warn('lease taken over', { ...this.ref, from: holder })
    const leaseTransitions = (found.spec.leaseTransitions ?? 0) + (isOurs ? 0 : 1)
    await this.#patch({ uid, resourceVersion }, annotations, annotations, { ...this.#spec(), leaseTransitions })
    this.#others.forget(uid)
    return undefined
  }

  /** By how long its time of renewal has stood still on this machine's clock, whatever time it is. */
  #isStale({ metadata: { uid }, spec: { renewTime } }: Lease): boolean {
    this.#others.observe(uid, renewTime ?? '')
    return this.#others.silentMs(uid) >= deadAfterMs
  }

  /** False where there is one. */
  async #create(annotations: LeaseAnnotations): Promise<boolean> {
    const { api, node } = this.#options
    const { namespace, name } = this.ref
    const metadata = {
      ...{ name, namespace, labels: { [nodeLabel]: nodeNameOf(node.displayName) } },
      annotations: Object.fromEntries(Object.entries(annotations).filter(([, value]) => value !== null)),
    }
    try {
      const { signal } = this.#stopped
      this.#keep(
        await api.create(resources.leases, namespace, { metadata, spec: this.#spec() }, { signal }),
        annotations,
      )
      return true
    } catch (error) {
      if (isApiError(error, 409)) return false
      throw error
    }
  }

  async #get(): Promise<Lease | undefined> {
    const { namespace, name } = this.ref
    try {
      return parseLease(await this.#options.api.get(resources.leases, namespace, name, this.#stopped.signal))
    } catch (error) {
      if (isApiError(error, 404)) return undefined
      throw error
    }
  }

  /** Refused by the API server where anybody has written it since. */
  async #patch(
    based: { readonly uid: string; readonly resourceVersion: string },
    annotations: LeaseAnnotations,
    changed: LeaseAnnotations,
    spec: object,
  ): Promise<void> {
    const { api } = this.#options
    const { namespace, name } = this.ref
    const body = { metadata: { ...based, annotations: changed }, spec: { renewTime: this.#now(), ...spec } }
    this.#keep(await api.mergePatch(resources.leases, namespace, name, body, this.#stopped.signal), annotations)
  }

  #keep(answer: unknown, annotations: LeaseAnnotations): void {
    const { uid, resourceVersion } = parseLease(answer).metadata
    this.#held = { uid, resourceVersion, annotations }
  }

  async #remove(): Promise<void> {
    const { node, log } = this.#options
    await this.idle()
    try {
      if (!this.#held || (await this.#delete(this.#held))) return
      const found = await this.#get()
      if (found?.spec.holderIdentity === node.id) await this.#delete(found.metadata)
    } catch (error) {
      log.warn('lease not removed', { ...this.ref, error })
    }
  }

  /** False where it was written since. */
  async #delete({ uid, resourceVersion }: Pick<Held, 'uid' | 'resourceVersion'>): Promise<boolean> {
    const { namespace, name } = this.ref
    try {
      await this.#options.api.delete(resources.leases, namespace, name, { uid, resourceVersion }, this.#stopped.signal)
      return true
    } catch (error) {
      if (isApiError(error, 409)) return false
      if (isApiError(error, 404)) return true
      throw error
    }
  }

  #spec() {
    const now = this.#now()
    return {
      holderIdentity: this.#options.node.id,
      leaseDurationSeconds: deadAfterMs / 1_000,
      ...{ acquireTime: now, renewTime: now },
    }
  }

  #now(): string {
    return microTime(this.#options.api.serverNow())
  }

  get #shown(): string {
    return `${this.ref.namespace}/${this.ref.name}`
  }

  get #untold(): string {
    return 'The cluster does not know what this machine can run; models are served as usual.'
  }

  /** Undefined where the cluster's own state says what is wrong, and the next heartbeat may succeed. */
  #noticeOf(error: unknown): string | undefined {
    if (isApiError(error, 403)) {
      return `${this.#untold} These credentials may not write the Lease ${this.#shown} (${error.detail}): "metal-agent rights" prints the commands that allow it.`
    }
    if (isApiError(error, 404)) {
      return `${this.#untold} The Lease ${this.#shown} cannot be made (${error.detail}): create that namespace.`
    }
    return undefined
  }

  #say(notice: string | undefined): void {
    const { log, onChange } = this.#options
    if (notice === this.#notice) return
    if (notice === undefined) log.info('lease written', this.ref)
    else log.warn('lease not written', { reason: notice })
    this.#notice = notice
    onChange()
  }
}
