import { join } from 'node:path'
import { z } from 'zod'
import { isApiError } from '../kube/api-error.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import { type InferenceService, parseEndpointSlice, resources } from '../kube/resources.ts'
import type { Logger } from '../observability/logger.ts'
import { StateFile } from '../state/state-file.ts'
import { refKey } from '../util/object-key.ts'
import type { PublishMode } from '../../contract/settings-table.ts'
import { labels, managedBy, type PublishTarget, serviceNameOf } from './objects.ts'

/** By which of the two a service is published. `both`: the relay's objects are there, and pods still come directly. */
export type Way = 'direct' | 'both' | 'relay'

/** How often it is asked whether the controller has taken up what was published for its relay … */
const usualLookEveryMs = 5_000
/** … and, where it has, whether it still does. */
const lookAgainMs = 60_000
/** A controller that writes for so long, and takes nothing up, knows no relay. */
const takesUpWithinMs = 60_000
/** The agent gives up on a relay whose Pod has not been ready for this long: its image, its token or a firewall keeps it from starting. */
const readyWithinMs = 300_000
/** A controller may be updated without anybody telling this machine. */
const tryAgainMs = 1_800_000
/** Watches that are cut all the time, and CRDs that say something else all the time, bring a new trial no more often. */
const triedEveryMs = 600_000
/** What was learnt of each cluster, by the address of its API server. */
const learntFile = z.object({
  schema: z.literal(1),
  clusters: z.record(z.string().max(2_048), z.enum(['relay', 'direct'])),
})
export type LearntFile = StateFile<z.infer<typeof learntFile>>

/** Throws StateFileError. */
export const openLearnt = (stateDir: string): Promise<LearntFile> =>
  StateFile.open({
    file: join(stateDir, 'relay.json'),
    schema: learntFile,
    initial: { schema: 1, clusters: {} },
    keeps: 'which clusters have a relay',
  })

/** What this machine has published of a service. */
export interface Shown {
  readonly isHeldDirectly: boolean
  readonly isHeldForRelay: boolean
}

export interface HeldService {
  readonly target: PublishTarget
  readonly shown: Shown
}

export interface RelayChoiceOptions {
  readonly api: KubeApi
  readonly mode: () => PublishMode
  /** Why LLMKube's relay cannot be used for the service, as a sentence. */
  readonly unfitForRelay: (target: PublishTarget) => string | undefined
  readonly learnt: LearntFile
  readonly service: (target: PublishTarget) => InferenceService | undefined
  readonly leadsToRelay: (target: PublishTarget) => Promise<boolean>
  /** Services of which this machine holds the claim, and what it has published of each. */
  readonly held: () => readonly HeldService[]
  readonly holdsAny: () => boolean
  readonly ingress: () => 'open' | 'closed' | 'unknown'
  /** This agent may not read the token of the namespace's relays, so that it lets none of them in. */
  readonly isTokenDenied: (namespace: string) => boolean
  readonly log: Logger
  readonly onChange: (key: string) => void
  readonly monotonicNow: () => number
  /** For tests: how often is looked. */
  readonly lookEveryMs?: number | undefined
}

/** Since when the controller could see it, by the monotonic clock and by the API server's. */
interface Seen {
  readonly at: number
  readonly atServer: number
}

/**
 * Whether a service is published for LLMKube's relay, directly, or both. One service shows whether the cluster's controller knows relays, which is
 * remembered; a controller that is updated or set back is noticed by what it does, or does not do, with the Service.
 */
export class RelayChoice implements Disposable {
  readonly #options: RelayChoiceOptions
  readonly #stopped = new AbortController()
  /** Services that the relay answers. */
  readonly #relayed = new Set<string>()
  /** Services whose relay was taken away, or has not answered for long. */
  readonly #failing = new Set<string>()
  /** Since when the relay of a service has not been ready. */
  readonly #silentSince = new Map<string, number>()
  /** Services that the controller has not taken up yet. */
  readonly #waiting = new Map<string, Seen>()
  /** Since when a service has been published both ways. */
  readonly #bothSince = new Map<string, number>()
  /** When a service was left to come directly for the next while, because its relay did not get ready. */
  readonly #givenUp = new Map<string, number>()
  #known: 'relay' | 'direct' | undefined
  #decidedAt: number
  /** The key of the service by which it is found out whether relays are known. */
  #tried: string | undefined
  #lookedAgainAt = -Infinity
  #lookedAtSchemaAt = -Infinity
  /** An update of LLMKube brings other CRDs; undefined until they were looked at. */
  #schema: string | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(options: RelayChoiceOptions) {
    this.#options = options
    this.#known = options.learnt.value.clusters[options.api.context.server]
    this.#decidedAt = options.monotonicNow()
  }

  of(target: PublishTarget, { isHeldDirectly, isHeldForRelay }: Shown): Way {
    const { mode, unfitForRelay, ingress } = this.#options
    const isUnfit = unfitForRelay(target) !== undefined
    if (mode() === 'direct') return 'direct'
    // What pods have is not taken away before the relay can be reached.
    if (mode() === 'relay' && isHeldDirectly && isUnfit) return 'direct'
    if (mode() === 'relay') return isHeldDirectly && ingress() !== 'open' ? 'both' : 'relay'
    const key = refKey(target)
    if (isUnfit || this.#known === 'direct' || this.#isGivenUp(key)) return 'direct'
    const isAlone = isHeldForRelay && !isHeldDirectly
    if (this.#known === 'relay') {
      const isRelayed = this.#relayed.has(key) || (isAlone && !this.#failing.has(key))
      return isRelayed && ingress() !== 'closed' ? 'relay' : 'both'
    }
    return this.#tried === key || isAlone ? 'both' : 'direct'
  }

  /** Pods are meant to come by a relay: a person says so, or the cluster has shown that it has one. */
  get isWanted(): boolean {
    const mode = this.#options.mode()
    return mode === 'relay' || (mode === 'auto' && this.#known === 'relay')
  }

  /** A Service that leads to a relay is led back to this machine. */
  takesBack(target: PublishTarget): boolean {
    return this.#options.mode() === 'direct' || this.#known === 'direct' || this.#isGivenUp(refKey(target))
  }

  /** The service is published directly: the first one shows what the controller makes of an ingress. */
  published(target: PublishTarget): void {
    if (this.#options.mode() !== 'auto') return
    if (this.#known === undefined && this.#tried === undefined) this.#try(target)
    this.watch()
  }

  /** To be called while something is published. */
  watch(): void {
    if (this.#options.mode() === 'auto') this.#timer ??= this.#later()
  }

  /** After a sleep or a gap in the watches the controller may be another one. `atOnce`: a person changed the setting. */
  tryAgain({ atOnce = false } = {}): void {
    if (this.#known === 'direct' && (atOnce || this.#isTrialDue())) this.#decidedAt = -Infinity
    if (atOnce) for (const times of [this.#givenUp, this.#bothSince]) times.clear()
    this.watch()
  }

  forget(key: string): void {
    this.#relayed.delete(key)
    this.#failing.delete(key)
    this.#silentSince.delete(key)
    this.#waiting.delete(key)
    this.#bothSince.delete(key)
    this.#givenUp.delete(key)
    if (this.#tried === key) this.#tried = undefined
  }

  [Symbol.dispose](): void {
    this.#stopped.abort()
    clearTimeout(this.#timer)
  }

  #try(target: PublishTarget): void {
    const { unfitForRelay, onChange, log } = this.#options
    if (unfitForRelay(target) !== undefined) return
    this.#tried = refKey(target)
    this.#bothSince.set(this.#tried, this.#options.monotonicNow())
    log.info('looking for a relay', {
      key: this.#tried,
      text: 'meanwhile the ingress is published beside the address of this machine',
    })
    onChange(this.#tried)
  }

  #later(): NodeJS.Timeout {
    return setTimeout(() => {
      this.#timer = undefined
      void this.#look().then(() => {
        if (!this.#stopped.signal.aborted && this.#options.holdsAny()) this.watch()
      })
    }, this.#options.lookEveryMs ?? usualLookEveryMs).unref()
  }

  /** Never rejects: what cannot be read now is read at the next look. */
  async #look(): Promise<void> {
    const { held, log, mode, monotonicNow } = this.#options
    if (mode() !== 'auto') return
    try {
      if (this.#known === 'direct' && monotonicNow() - this.#decidedAt >= tryAgainMs) this.#known = undefined
      if (this.#known === undefined) await this.#lookAtTrial(held())
      if (this.#known === 'relay') await this.#lookAtAll(held())
      if (this.#known === 'direct') await this.#lookAtSchema()
    } catch (error) {
      if (!this.#stopped.signal.aborted) log.debug('relay not checked', { error })
    }
  }

  #isGivenUp(key: string): boolean {
    const at = this.#givenUp.get(key)
    return at !== undefined && this.#options.monotonicNow() - at < tryAgainMs
  }

  #isTrialDue(): boolean {
    return this.#options.monotonicNow() - this.#decidedAt >= triedEveryMs
  }

  /** The service has been published both ways for longer than the agent waits for its relay. */
  #isLate(key: string): boolean {
    const now = this.#options.monotonicNow()
    const since = this.#bothSince.get(key) ?? now
    this.#bothSince.set(key, since)
    return now - since >= readyWithinMs
  }

  async #lookAtTrial(held: readonly HeldService[]): Promise<void> {
    const { unfitForRelay, isTokenDenied } = this.#options
    const tried = held.find(({ target }) => refKey(target) === this.#tried)
    if (tried) {
      const { target, shown } = tried
      const isTakenUp = await this.#isTakenUp(tried, held)
      if (isTakenUp && (await this.#isRelayReady(target))) return this.#decide('relay')
      // A controller that is away decides nothing.
      const isInVain = this.#isLate(refKey(target)) && (isTakenUp || !shown.isHeldForRelay)
      if (this.#known === undefined && (isInVain || isTokenDenied(target.namespace))) await this.#decide('direct')
      return
    }
    this.#tried = undefined
    const next = held.find(({ target, shown }) => shown.isHeldDirectly && unfitForRelay(target) === undefined)
    if (next) this.#try(next.target)
  }

  async #lookAtSchema(): Promise<void> {
    const { api, monotonicNow } = this.#options
    if (monotonicNow() - this.#lookedAtSchemaAt < lookAgainMs) return
    this.#lookedAtSchemaAt = monotonicNow()
    const schema = await api.schemaOf(resources.inferenceServices, this.#stopped.signal)
    const isOther = this.#schema !== undefined && schema !== this.#schema
    if (isOther && !this.#isTrialDue()) return
    if (isOther) this.#known = undefined
    this.#schema = schema
  }

  async #lookAtAll(held: readonly HeldService[]): Promise<void> {
    const { monotonicNow } = this.#options
    const isDue = monotonicNow() - this.#lookedAgainAt >= lookAgainMs
    if (isDue) this.#lookedAgainAt = monotonicNow()
    for (const one of held) {
      const way = this.of(one.target, one.shown)
      try {
        if (way === 'both') await this.#lookAtSwitch(one, held)
        else if (way === 'relay' && isDue) await this.#lookAgain(one.target)
      } catch (error) {
        // The others are looked at all the same.
        if (!isApiError(error)) throw error
        this.#options.log.debug('relay not checked', { key: refKey(one.target), error })
      }
      if (this.#known !== 'relay') return
    }
  }

  /** Pods come by the relay once the Service leads to it and one of its Pods is ready: its readiness asks the ingress. */
  async #lookAtSwitch(one: HeldService, all: readonly HeldService[]): Promise<void> {
    const key = refKey(one.target)
    const isReady = (await this.#isTakenUp(one, all)) && (await this.#isRelayReady(one.target))
    if (this.#known !== 'relay') return
    if (isReady) {
      this.#failing.delete(key)
      this.#silentSince.delete(key)
      this.#relayed.add(key)
    } else if (this.#isLate(key)) {
      // As long as LLMKube leads its Service to a relay that is not ready, the service is not ready in the cluster.
      this.#givenUp.set(key, this.#options.monotonicNow())
      this.#options.log.info('no relay got ready', { key, triedAgainInMs: tryAgainMs })
    } else return
    this.#bothSince.delete(key)
    this.#options.onChange(key)
  }

  /**
   * A controller that writes, and for a minute takes up nothing that is new to it, knows no relay, or none any longer. While the relay of another
   * service answers, it may be this one alone that it cannot take up: for its Secret, a quota, or another program's Service.
   */
  async #isTakenUp({ target, shown }: HeldService, all: readonly HeldService[]): Promise<boolean> {
    const { leadsToRelay, monotonicNow, api } = this.#options
    const key = refKey(target)
    if (!shown.isHeldForRelay) return false
    if (await leadsToRelay(target)) {
      this.#waiting.delete(key)
      return true
    }
    const seen = this.#waiting.get(key) ?? { at: monotonicNow(), atServer: api.serverNow() }
    this.#waiting.set(key, seen)
    const isLate = monotonicNow() - seen.at >= takesUpWithinMs && this.#hasWritten(target, seen.atServer)
    const isAnotherRelayed = all.some((one) => this.of(one.target, one.shown) === 'relay')
    if (isLate && !isAnotherRelayed) await this.#decide('direct')
    return false
  }

  /** Whether somebody else has written the status of the InferenceService since. */
  #hasWritten(target: PublishTarget, since: number): boolean {
    const { api, service } = this.#options
    const fields = service(target)?.metadata.managedFields ?? []
    return fields.some(
      ({ manager, subresource, time }) =>
        subresource === 'status' && manager !== api.fieldManager && Date.parse(time ?? '') >= since,
    )
  }

  async #decide(known: 'relay' | 'direct'): Promise<void> {
    const { api, learnt, log, held, monotonicNow, onChange } = this.#options
    this.#known = known
    this.#decidedAt = monotonicNow()
    this.#tried = undefined
    const learntOfEach = [
      this.#relayed,
      this.#failing,
      this.#silentSince,
      this.#waiting,
      this.#bothSince,
      this.#givenUp,
    ]
    for (const one of learntOfEach) one.clear()
    log.info(known === 'relay' ? 'a relay is known' : 'no relay is known', { server: api.context.server })
    for (const { target } of held()) onChange(refKey(target))
    await learnt.update((before) => ({ ...before, clusters: { ...before.clusters, [api.context.server]: known } }))
  }

  /** Where the Service leads to no relay any longer, or to one that does not answer for a minute, pods come directly beside it. */
  async #lookAgain(target: PublishTarget): Promise<void> {
    const { leadsToRelay, onChange, monotonicNow } = this.#options
    const key = refKey(target)
    const leads = await leadsToRelay(target)
    if (leads && (await this.#isRelayReady(target))) {
      this.#silentSince.delete(key)
      return
    }
    const since = this.#silentSince.get(key) ?? monotonicNow()
    this.#silentSince.set(key, since)
    if (leads && monotonicNow() - since < takesUpWithinMs) return
    this.#relayed.delete(key)
    this.#failing.add(key)
    onChange(key)
  }

  async #isRelayReady({ namespace, name }: PublishTarget): Promise<boolean> {
    const { api } = this.#options
    const labelSelector = `${labels.serviceName}=${serviceNameOf(name)},${labels.managedBy}!=${managedBy}`
    for await (const { items } of api.pages(
      resources.endpointSlices,
      { namespace, labelSelector },
      this.#stopped.signal,
    )) {
      const slices = items.map((item) => parseEndpointSlice(item))
      if (slices.some(({ endpoints }) => endpoints.some(({ conditions }) => conditions?.ready === true))) return true
    }
    return false
  }
}
