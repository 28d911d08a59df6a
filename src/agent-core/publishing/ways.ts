import { isApiError } from '../kube/api-error.ts'
import type { DoorState } from '../gateway/doors.ts'
import type { EndpointSlice, InferenceService } from '../kube/resources.ts'
import { keyOf, refKey } from '../util/object-key.ts'
import type { PublishMode } from '../../contract/settings-table.ts'
import { type ClaimJudgement, isDeletable, isElsewhere, isHeld } from './claim.ts'
import { HeartbeatPulse } from './heartbeat.ts'
import { labels, managedBy, type Published, type PublishTarget, relayNaming, serviceNameOf } from './objects.ts'
import { emptyView, type PublicationView, Publisher, soonest, type Unfinished } from './publisher.ts'
import type { PublisherOptions } from './publishing.ts'
import { RelayWatch, type Way, type WayFacts, wayToPublish } from './relay.ts'
import { isLedToRelay } from './service.ts'
import { done, type WriteResult } from './writes.ts'

/** Where LLMKube's relays reach this machine. It is opened for the first service that is told. */
export interface Ingress {
  readonly port: number
  /** The pin of its certificate; undefined while it has none. */
  readonly pin: string | undefined
  readonly state: DoorState
  /** This agent may not read the token of the namespace's relays, and lets none of them in. */
  isTokenDenied(namespace: string): boolean
  /** Undefined: relays do not reach the service. */
  set(key: string, how: 'beside' | 'alone' | undefined): void
  forget(key: string): void
}

export interface WaysOptions extends Omit<PublisherOptions, 'naming' | 'pulse'> {
  readonly mode: () => PublishMode
  readonly ingress: Ingress
  readonly inferenceService: (target: PublishTarget) => InferenceService | undefined
  /** A service that is published for relays alone is led to none by the controller, as the sentence says. */
  readonly onNotAdopted: (key: string, message: string) => void
  /** For tests. */
  readonly lookEveryMs?: number
}

/** What the relay needs could not be written: it is tried again after this time, and nothing else waits for it. */
const besideAgainMs = 30_000

/** What comes by a relay that the controller removes is answered for so long: its Pod leaves the Service first, and ends what it has begun. */
const relayLeavesMs = 15_000

/**
 * Publishes services directly, for LLMKube's relay, or both ways, as {@link wayToPublish} says, and removes what another way has left. Seen from
 * a service there is one claim: it is elsewhere while a living agent holds either slice. Its methods throw ApiError as those of Publisher.
 */
export class WaysToPublish implements AsyncDisposable {
  readonly pulse: HeartbeatPulse
  readonly #options: WaysOptions
  readonly #direct: Publisher
  readonly #relay: Publisher
  readonly #relays: RelayWatch
  readonly #now: () => number
  /** When what goes beside a direct publication, or has to be given up, is tried again. */
  readonly #besideAt = new Map<string, number>()
  readonly #ways = new Map<string, Way>()
  /** The names of the relay's slices with a ready Pod, by namespace and Service. */
  readonly #relaySlices = new Map<string, Set<string>>()
  readonly #unsubscribe: () => void
  /** When what was published for a relay goes that is in use no longer, in monotonic milliseconds; until then it tells no pin. */
  readonly #leavesAt = new Map<string, number>()

  constructor(options: WaysOptions) {
    const { api, slices, mode, ingress, log, onChange, monotonicNow = () => performance.now() } = options
    const { random = Math.random, renewEveryMs: everyMs } = options
    this.#options = options
    this.#now = monotonicNow
    this.pulse = new HeartbeatPulse({ random, everyMs })
    const shared = { ...options, pulse: this.pulse }
    this.#direct = new Publisher(shared)
    const pinFor = (target: PublishTarget) => (this.#leavesAt.has(refKey(target)) ? undefined : ingress.pin)
    this.#relay = new Publisher({ ...shared, endpoints: undefined, naming: relayNaming(() => ingress.port, pinFor) })
    this.#unsubscribe = slices.cache.onChange(({ before, after }) => this.#followRelay(before, after))
    this.#relays = new RelayWatch({
      ...{ api, log, monotonicNow, lookEveryMs: options.lookEveryMs, onNotAdopted: options.onNotAdopted },
      relayed: () => (mode() === 'relay' ? this.#relay.held() : []),
      generationOf: (target) => options.inferenceService(target)?.metadata.generation,
      onSupport: () => {
        for (const target of [...this.#direct.held(), ...this.#relay.held()]) onChange(refKey(target))
      },
    })
  }

  /** The way the service is published; undefined while this machine does not hold its claim. */
  wayFor(key: string): Way | undefined {
    return this.#ways.get(key)
  }

  /** Pods are meant to come by a relay: a person says so, or the cluster can have one. */
  get isRelayWanted(): boolean {
    const mode = this.#options.mode()
    return mode === 'relay' || (mode === 'auto' && this.#relays.isThere === true)
  }

  observe(target: PublishTarget): PublicationView {
    const direct = this.#direct.observe(target)
    const isThere = this.#relay.isThere(target)
    if (!isThere && this.#options.mode() === 'direct' && direct.service.kind !== 'relayed') {
      this.#tell(target, isHeld(direct.claim) ? 'direct' : undefined, false)
      return direct
    }
    const relay = isThere
      ? this.#relay.observe(target)
      : emptyView({ kind: direct.claim.kind === 'unknown' ? 'unknown' : 'absent' })
    if (isHeld(relay.claim) && isLiving(direct.claim)) {
      this.#yield(this.#relay, target)
      return { ...direct, recheckInMs: soonest(direct.recheckInMs, besideAgainMs) }
    }
    if (isHeld(direct.claim) && isLiving(relay.claim) && relay.claim.kind !== 'foreign') {
      this.#yield(this.#direct, target)
      return { ...relay, recheckInMs: soonest(relay.recheckInMs, besideAgainMs) }
    }
    const shown = shownBy(direct, relay)
    const way = this.#wayWith(target, shown)
    this.#tell(target, shown.isHeldDirectly || shown.isHeldForRelay ? way : undefined, shown.isHeldForRelay)
    switch (way) {
      case 'direct':
        return this.#directly(target, direct, relay)
      case 'both':
        return this.#bothWays(target, direct, relay)
      case 'relay':
        return this.#byRelay(target, direct, relay)
    }
  }

  async claim(target: PublishTarget): Promise<WriteResult> {
    return this.#primary(target).claim(target)
  }

  /** Whatever a dead agent holds of it, under either name. */
  async takeOver(target: PublishTarget): Promise<WriteResult> {
    const primary = this.#primary(target)
    for (const one of [this.#direct, this.#relay]) {
      if (one.observe(target).claim.kind !== 'dead') continue
      const taken = await one.takeOver(target)
      if (taken.kind !== 'done') return taken
    }
    return isHeld(primary.observe(target).claim) ? done : primary.claim(target)
  }

  withdrawDead(target: PublishTarget): Promise<WriteResult> {
    return this.#each((one) => one.withdrawDead(target))
  }

  ensureService(target: PublishTarget): Promise<WriteResult> {
    if (this.#wayOf(target) === 'relay') return this.#relay.ensureService(target, { takesBack: true })
    return this.#direct.ensureService(target, { takesBack: this.#takesBack(target) })
  }

  /** `published`: where the server answers, whichever way pods come. */
  async publish(target: PublishTarget, published: Published): Promise<WriteResult> {
    const way = this.#wayOf(target)
    const primary = way === 'relay' ? this.#relay : this.#direct
    if (!isHeld(primary.observe(target).claim)) {
      const claimed = await primary.claim(target)
      if (claimed.kind !== 'done') return claimed
    }
    if (way === 'relay') {
      this.#leavesAt.delete(refKey(target))
      const result = await this.#relay.publish(target, this.#behindIngress(published))
      return result.kind === 'done' ? this.#leave(this.#direct, target) : result
    }
    const result = await this.#direct.publish(target, published)
    if (result.kind !== 'done') return result
    if (way === 'direct') return this.#leave(this.#relay, target)
    await this.#publishBeside(target, published)
    return result
  }

  /** No new traffic by any way; claims, slices and Services stay. */
  withdraw(target: PublishTarget): Promise<WriteResult> {
    return this.#each((one) => (isHeld(one.observe(target).claim) ? one.withdraw(target) : Promise.resolve(done)))
  }

  /** The InferenceService is stopped: its own Service keeps its ClusterIP, all else goes. */
  async unpublish(target: PublishTarget): Promise<WriteResult> {
    const left = isLeft(this.#relay.observe(target)) ? await this.#removeRelays(target) : done
    return left.kind === 'done' ? this.#direct.unpublish(target) : left
  }

  /** The InferenceService is gone: all goes, unless it is another's by now. */
  remove(target: PublishTarget): Promise<WriteResult> {
    return this.#each((one) => one.remove(target))
  }

  /** Ready no more, and free for any other agent at once. */
  release(target: PublishTarget): Promise<WriteResult> {
    return this.#each((one) => (isHeld(one.observe(target).claim) ? one.release(target) : Promise.resolve(done)))
  }

  withdrawAll(limitMs?: number): Promise<readonly Unfinished[]> {
    return this.#all((one) => one.withdrawAll(limitMs))
  }

  releaseAll(options?: { isMeant?: (key: string) => boolean }): Promise<readonly Unfinished[]> {
    return this.#all((one) => one.releaseAll(options))
  }

  forget(key: string): void {
    this.#direct.forget(key)
    this.#relay.forget(key)
    this.#options.ingress.forget(key)
    this.#ways.delete(key)
    this.#besideAt.delete(key)
    this.#leavesAt.delete(key)
  }

  watchGap(): void {
    this.#direct.watchGap()
    this.#relay.watchGap()
  }

  heartbeatAgesMs(): number[] {
    return [...this.#direct.heartbeatAgesMs(), ...this.#relay.heartbeatAgesMs()]
  }

  setWatchLive(live: boolean): void {
    this.#direct.setWatchLive(live)
    this.#relay.setWatchLive(live)
    if (live) this.#relays.look()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#unsubscribe()
    this.#relays[Symbol.dispose]()
    await Promise.all([this.#direct[Symbol.asyncDispose](), this.#relay[Symbol.asyncDispose]()])
  }

  #directly(target: PublishTarget, direct: PublicationView, relay: PublicationView): PublicationView {
    const leavesInMs = this.#leavesInMs(target)
    const both = together(direct, relay)
    const isTakenBack = direct.service.kind === 'relayed' && this.#takesBack(target)
    return {
      ...direct,
      ...(direct.service.kind === 'relayed' && {
        service: { kind: 'ours' },
        serviceIsOwn: !isTakenBack,
        serviceUpToDate: !isTakenBack,
        serviceMendInMs: 0,
      }),
      ...both,
      complete: (isHeld(direct.claim) || !isHeld(relay.claim)) && direct.complete && (!isLeft(relay) || leavesInMs > 0),
      recheckInMs: soonest(both.recheckInMs, leavesInMs || undefined),
      present: direct.present || isLeft(relay),
    }
  }

  #bothWays(target: PublishTarget, direct: PublicationView, relay: PublicationView): PublicationView {
    const { port, state } = this.#options.ingress
    const [here, there] = [direct.published, relay.published]
    const isSame = here?.ready === there?.ready && here?.address === there?.address && here?.port === there?.enginePort
    const isOpen = state.kind === 'open'
    const isThere = isHeld(relay.claim) && isSame && there?.port === port
    const isRight = isOpen && isThere && isServiceRight(relay) && relay.complete
    const waitsMs = Math.max(
      (this.#besideAt.get(refKey(target)) ?? -Infinity) - this.#now(),
      relay.serviceMendInMs,
      'mendInMs' in relay.claim ? (relay.claim.mendInMs ?? 0) : 0,
    )
    const isBlocked = isElsewhere(relay.claim) || relay.claim.kind === 'taken' || !isOpen
    const shown = this.#directly(target, direct, relay)
    return {
      ...shown,
      complete:
        isHeld(direct.claim) &&
        direct.complete &&
        (isRight || state.kind === 'unknown' || waitsMs > 0 || (isBlocked && there?.ready !== true)),
      recheckInMs: soonest(shown.recheckInMs, !isRight && waitsMs > 0 ? waitsMs : undefined),
    }
  }

  #byRelay(target: PublishTarget, direct: PublicationView, relay: PublicationView): PublicationView {
    const tooLong = unfitForRelay(target)
    if (tooLong !== undefined) {
      return {
        ...relay,
        claim: {
          kind: 'taken',
          message: `${tooLong} Give it a shorter name, or set --publish direct.`,
          isNameTooLong: true,
        },
      }
    }
    const { published } = relay
    const isAtIngress = published?.port === this.#options.ingress.port
    return {
      ...relay,
      ...together(relay, direct),
      complete: isHeld(relay.claim) && relay.complete && isAtIngress && !direct.present,
      present: relay.present || direct.present,
    }
  }

  /** What fails here is tried again later: pods come directly meanwhile. */
  async #publishBeside(target: PublishTarget, published: Published): Promise<void> {
    const { ingress, log } = this.#options
    const key = refKey(target)
    this.#besideAt.delete(key)
    this.#leavesAt.delete(key)
    // What was published before this agent started stays until it is known.
    if (ingress.state.kind === 'unknown') return
    try {
      const result = await (ingress.state.kind === 'open'
        ? this.#publishAtIngress(target, published)
        : this.#relay.withdraw(target))
      if (result.kind === 'done') return
      log.info('not published for a relay', { key, reason: result.message })
    } catch (error) {
      if (!isApiError(error)) throw error
      log.warn('not published for a relay', { key, error })
    }
    this.#besideAt.set(key, this.#now() + besideAgainMs)
  }

  async #publishAtIngress(target: PublishTarget, published: Published): Promise<WriteResult> {
    // One that the controller had to make has no label by which it is watched: nothing would tell that it leads to a relay.
    const own = await this.#direct.ensureService(target)
    if (own.kind !== 'done') return own
    const claimed = await this.#relay.claim(target)
    if (claimed.kind !== 'done') return claimed
    const named = await this.#relay.ensureService(target, { takesBack: true })
    return named.kind === 'done' ? this.#relay.publish(target, this.#behindIngress(published)) : named
  }

  #behindIngress({ port: enginePort, ...published }: Published): Published {
    return { ...published, port: this.#options.ingress.port, enginePort }
  }

  /**
   * Two machines have claimed the two names at the same moment: the one with the Service's own name keeps it. Of LLMKube's agents, which know no
   * claims, also one that publishes for a relay does, since the controller prefers that.
   */
  #yield(lost: Publisher, target: PublishTarget): void {
    const { log, onChange } = this.#options
    const key = refKey(target)
    if (this.#now() < (this.#besideAt.get(key) ?? -Infinity)) return
    this.#besideAt.set(key, this.#now() + besideAgainMs)
    log.info('another machine publishes the service', { key })
    const release = async (): Promise<void> => {
      const released = await lost.release(target)
      if (released.kind === 'done' || released.kind === 'lost') this.#besideAt.delete(key)
    }
    void release().then(
      () => onChange(key),
      (error: unknown) => log.warn('not given up', { key, error }),
    )
  }

  /** What this machine has published by a way that is not in use. */
  async #leave(other: Publisher, target: PublishTarget): Promise<WriteResult> {
    const view = other.observe(target)
    if (!isLeft(view)) return done
    // The Service of the InferenceService itself keeps its ClusterIP, or is its relay's.
    if (other === this.#direct) return other.unpublish(target)
    const isAsked = view.published?.ready === true && isHeld(view.claim)
    return isAsked ? this.#leaveRelay(target) : this.#removeRelays(target)
  }

  /** Also what was published for an InferenceService of this name that is gone. */
  async #removeRelays(target: PublishTarget): Promise<WriteResult> {
    const left = await this.#relay.unpublish(target)
    if (left.kind !== 'done') return left
    this.#leavesAt.delete(refKey(target))
    return this.#relay.remove(target)
  }

  /** The controller removes its relay where it finds no pin, and what comes by it is answered meanwhile. */
  async #leaveRelay(target: PublishTarget): Promise<WriteResult> {
    const key = refKey(target)
    if (!this.#leavesAt.has(key)) {
      this.#leavesAt.set(key, this.#now() + relayLeavesMs)
      return this.#relay.withoutPin(target)
    }
    if (this.#leavesInMs(target) > 0) return done
    return this.#removeRelays(target)
  }

  #leavesInMs(target: PublishTarget): number {
    return Math.max(0, (this.#leavesAt.get(refKey(target)) ?? -Infinity) - this.#now())
  }

  #primary(target: PublishTarget): Publisher {
    return this.#wayOf(target) === 'relay' ? this.#relay : this.#direct
  }

  #wayOf(target: PublishTarget): Way {
    return this.#wayWith(target, shownBy(this.#direct.observe(target), this.#relay.observe(target)))
  }

  #wayWith(target: PublishTarget, shown: Shown): Way {
    const { mode, ingress } = this.#options
    return wayToPublish({
      ...shown,
      mode: mode(),
      isUnfit: unfitForRelay(target) !== undefined || this.#isDenied(target),
      hasRelays: this.#relays.isThere,
      isRelayReady: this.#isRelayReady(target),
      ingress: ingress.state.kind,
    })
  }

  /** This agent may not read what the relays of the namespace show, so that it lets none of them in. */
  #isDenied({ namespace }: PublishTarget): boolean {
    return this.#options.mode() === 'auto' && this.#options.ingress.isTokenDenied(namespace)
  }

  /** A Service that leads to a relay is led back to this machine. */
  #takesBack(target: PublishTarget): boolean {
    const isKnown = this.#options.mode() !== 'auto' || this.#relays.isThere !== undefined
    return isKnown && this.#wayOf(target) === 'direct'
  }

  #isRelayReady({ namespace, name }: PublishTarget): boolean {
    const serviceName = serviceNameOf(name)
    const service = this.#options.services.cache.get(namespace, serviceName)
    return service !== undefined && isLedToRelay(service, name) && this.#relaySlices.has(keyOf(namespace, serviceName))
  }

  #followRelay(before: EndpointSlice | undefined, after: EndpointSlice | undefined): void {
    const one = after ?? before
    if (!one || one.metadata.labels[labels.managedBy] === managedBy) return
    const { namespace, name } = one.metadata
    const key = keyOf(namespace, one.metadata.labels[labels.serviceName] ?? '')
    const ready = this.#relaySlices.get(key) ?? new Set<string>()
    const isReady = after?.endpoints.some(({ conditions }) => conditions?.ready === true) === true
    if (isReady) this.#relaySlices.set(key, ready.add(name))
    else if (ready.delete(name) && ready.size === 0) this.#relaySlices.delete(key)
  }

  /** The ingress, which is open where something needs it. `way` is undefined where this machine does not publish the service. */
  #tell(target: PublishTarget, way: Way | undefined, isRelayed: boolean): void {
    const key = refKey(target)
    if (way === undefined) {
      if (this.#ways.delete(key)) this.#options.ingress.set(key, undefined)
      return
    }
    this.#ways.set(key, way)
    // Where it is denied, it is asked for again, so that relays are let in once it may be read.
    const isNeeded = way === 'both' || (way === 'direct' && (isRelayed || this.#isDenied(target)))
    this.#options.ingress.set(key, way === 'relay' ? 'alone' : isNeeded ? 'beside' : undefined)
  }

  /** Both at once; the direct one's answer comes first where both are not done. */
  async #each(write: (one: Publisher) => Promise<WriteResult>): Promise<WriteResult> {
    const [direct, relay] = await Promise.all([write(this.#direct), write(this.#relay)])
    return direct.kind === 'done' ? relay : direct
  }

  async #all(write: (one: Publisher) => Promise<readonly Unfinished[]>): Promise<readonly Unfinished[]> {
    return (await Promise.all([write(this.#direct), write(this.#relay)])).flat()
  }
}

/** Why LLMKube's relay cannot be used for the service, as a sentence. */
const unfitForRelay = ({ name }: PublishTarget): string | undefined =>
  name.length > longestName
    ? `Its name has ${name.length} characters, and the Service for LLMKube's relay, NAME-agent, takes ${longestName}.`
    : undefined

const longestName = 57

/** Another agent publishes it, as far as is known. */
const isLiving = (claim: ClaimJudgement): boolean => isElsewhere(claim) && claim.kind !== 'dead'

type Shown = Pick<WayFacts, 'isHeldDirectly' | 'isHeldForRelay'>

const shownBy = (direct: PublicationView, relay: PublicationView): Shown => ({
  isHeldDirectly: isHeld(direct.claim),
  isHeldForRelay: isHeld(relay.claim),
})

/** What both say of one service: a claim is this machine's where either is, and pods come where either sends them. */
function together(
  own: PublicationView,
  other: PublicationView,
): Pick<PublicationView, 'claim' | 'published' | 'recheckInMs'> {
  const isOthers =
    own.claim.kind !== 'taken' &&
    !isHeld(own.claim) &&
    (isHeld(other.claim) || (!isElsewhere(own.claim) && isElsewhere(other.claim)))
  const [here, there] = [own.published, other.published].map(
    (published) => published && { ...published, port: published.enginePort ?? published.port },
  )
  const shown = here ?? (isHeld(other.claim) ? there : undefined)
  const isReady = shown?.ready === true || (isHeld(other.claim) && there?.ready === true)
  return {
    claim: isOthers ? other.claim : own.claim,
    published: shown && { ...shown, ready: isReady },
    recheckInMs: isOthers ? soonest(own.recheckInMs, other.recheckInMs) : own.recheckInMs,
  }
}

/** Something of this machine's, or what an agent gave up. */
const isLeft = ({ present, claim, service, serviceIsOwn }: PublicationView): boolean =>
  present || isDeletable(claim) || (claim.kind === 'absent' && service.kind === 'ours' && serviceIsOwn)

const isServiceRight = ({ service, serviceIsOwn, serviceUpToDate }: PublicationView): boolean =>
  service.kind === 'ours' && serviceIsOwn && serviceUpToDate
