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
import { deleteWhere, type ObjectStore, settledWrite } from './writes.ts'

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
  /** As the server has answered it last, whosever it is. */
  #lease: Lease | undefined
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
    const { log } = this.#options
    const settled = await settledWrite<Lease, string>({
      ...this.#place,
      known: this.#lease && !this.#isOurs(this.#lease) ? 'unread' : this.#lease,
      decide: (found) => {
        if (!found) return { do: 'create', body: this.#body(annotations) }
        const obstacle = this.#obstacle(found)
        if (obstacle !== undefined) return { do: 'stop', result: obstacle }
        const metadata = { annotations: changedAnnotations(annotations, found.metadata.annotations) }
        if (this.#isOurs(found)) return { do: 'patch', object: found, body: { metadata, spec: this.#spec() } }
        log.warn('lease taken over', { ...this.ref, from: found.spec.holderIdentity ?? '' })
        this.#others.forget(found.metadata.uid)
        const leaseTransitions = (found.spec.leaseTransitions ?? 0) + 1
        return { do: 'patch', object: found, body: { metadata, spec: { ...this.#takenSpec(), leaseTransitions } } }
      },
    })
    if (settled.kind === 'refused') throw settled.error
    return settled.kind === 'stopped' ? settled.result : undefined
  }

  #isOurs({ spec }: Lease): boolean {
    return spec.holderIdentity === this.#options.node.id
  }

  /** One sentence why it may not be written. */
  #obstacle(found: Lease): string | undefined {
    const holder = found.spec.holderIdentity ?? ''
    if (found.metadata.labels[nodeLabel] === undefined) {
      return `${this.#untold} The Lease ${this.#shown} was not made by an agent: delete it.`
    }
    if (this.#isOurs(found) || holder === '' || this.#isStale(found)) return undefined
    return `${this.#untold} The Lease ${this.#shown} is held by another agent, ${holder}: give one of the two machines another name. This agent takes it over once the other has been silent for ${deadAfterMs / 1_000} s.`
  }

  /** Whether its time of renewal has not changed for too long on this machine's clock. What time it says does not matter. */
  #isStale({ metadata: { uid }, spec: { renewTime } }: Lease): boolean {
    this.#others.observe(uid, renewTime ?? '')
    return this.#others.silentMs(uid) >= deadAfterMs
  }

  #body(annotations: LeaseAnnotations): object {
    const { namespace, name } = this.ref
    const metadata = {
      ...{ name, namespace, labels: { [nodeLabel]: nodeNameOf(this.#options.node.displayName) } },
      annotations: Object.fromEntries(Object.entries(annotations).filter(([, value]) => value !== null)),
    }
    return { metadata, spec: this.#takenSpec() }
  }

  async #remove(): Promise<void> {
    await this.idle()
    try {
      if (this.#lease) await deleteWhere({ ...this.#place, known: this.#lease }, (found) => this.#isOurs(found))
    } catch (error) {
      this.#options.log.warn('lease not removed', { ...this.ref, error })
    }
  }

  get #place() {
    const store: ObjectStore<Lease> = {
      ...{ resource: resources.leases, parse: parseLease },
      learn: (_namespace, _name, lease) => (this.#lease = lease),
    }
    return { ...this.ref, api: this.#options.api, signal: this.#stopped.signal, store }
  }

  #spec() {
    return {
      holderIdentity: this.#options.node.id,
      leaseDurationSeconds: deadAfterMs / 1_000,
      renewTime: this.#now(),
    }
  }

  #takenSpec() {
    const spec = this.#spec()
    return { ...spec, acquireTime: spec.renewTime }
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
