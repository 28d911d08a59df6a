import { z } from 'zod'
import type { DoorState } from '../gateway/doors.ts'
import { isApiError } from '../kube/api-error.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import { parseService, resources } from '../kube/resources.ts'
import type { Logger } from '../observability/logger.ts'
import { refKey } from '../util/object-key.ts'
import type { PublishMode } from '../../contract/settings-table.ts'
import { type PublishTarget, serviceNameOf } from './objects.ts'
import { isRelayed } from './service.ts'

/** The way a service is published. `both`: the relay's objects exist, and pods still connect directly. */
export type Way = 'direct' | 'both' | 'relay'

export interface WayFacts {
  readonly mode: PublishMode
  /** What LLMKube's relay needs cannot be had for this service. */
  readonly isUnfit: boolean
  /** The cluster serves the CRDs of a LLMKube that has relays; undefined = not known yet. */
  readonly hasRelays: boolean | undefined
  /** The Service leads to a relay, of which a Pod is ready. */
  readonly isRelayReady: boolean
  /** What this machine has published of it. */
  readonly isHeldDirectly: boolean
  readonly isHeldForRelay: boolean
  readonly ingress: DoorState['kind']
}

/** Whether a service is published for LLMKube's relay, directly, or both, by what is seen now. */
export function wayToPublish(facts: WayFacts): Way {
  const { mode, isUnfit, hasRelays, isRelayReady, isHeldDirectly, isHeldForRelay, ingress } = facts
  if (mode === 'direct') return 'direct'
  if (mode === 'relay') {
    // What pods have is not taken away before the relay can be reached.
    if (isHeldDirectly && isUnfit) return 'direct'
    return isHeldDirectly && ingress !== 'open' ? 'both' : 'relay'
  }
  // A cluster that was not looked at yet has not lost its relays.
  if (isUnfit || !(hasRelays ?? isHeldForRelay)) return 'direct'
  return isRelayReady && ingress !== 'closed' ? 'relay' : 'both'
}

/** LLMKube may be updated or set back without anybody telling this machine. */
const usualLookEveryMs = 30_000
/** LLMKube's controller takes a service up within seconds, once its relay's image is there; its own agent speaks up after this time too. */
const adoptedWithinMs = 300_000

/** The part of an OpenAPI document that says which runtimes an InferenceService may name. */
const document = z.object({ components: z.object({ schemas: z.record(z.string(), z.unknown()) }) })
const withRuntimes = z.object({
  properties: z.object({
    spec: z.object({ properties: z.object({ runtime: z.object({ enum: z.array(z.string()) }) }) }),
  }),
})

/** The CRDs name this runtime since the version of LLMKube that has relays. */
const runtimeOfRelays = 'tensorfold'

interface RelayWatchOptions {
  readonly api: KubeApi
  readonly log: Logger
  readonly monotonicNow: () => number
  /** For tests. */
  readonly lookEveryMs?: number | undefined
  /** Services that a person wants pods to reach by a relay alone. */
  readonly relayed: () => readonly PublishTarget[]
  readonly generationOf: (target: PublishTarget) => number | undefined
  /** The cluster can have relays now, or can no longer. */
  readonly onSupport: () => void
  /** Called once for each generation of an InferenceService, with a sentence. */
  readonly onNotAdopted: (key: string, message: string) => void
}

/**
 * Looks from time to time, where no watch tells it, whether the cluster's LLMKube can have relays, by the CRDs that it serves, and for services
 * that no relay takes up, so that no pod reaches them. What cannot be read changes nothing.
 */
export class RelayWatch implements Disposable {
  readonly #options: RelayWatchOptions
  readonly #stopped = new AbortController()
  /** Undefined until the CRDs were read. */
  #isThere: boolean | undefined
  /** Another text once the CRDs are others. */
  #schema: string | undefined
  /** By key: since when it is published for a relay alone. */
  readonly #since = new Map<string, number>()
  readonly #told = new Map<string, string>()
  #timer: NodeJS.Timeout | undefined
  #isLooking = false

  constructor(options: RelayWatchOptions) {
    this.#options = options
  }

  /** The cluster serves the CRDs of a LLMKube that has relays; undefined = not known yet. */
  get isThere(): boolean | undefined {
    return this.#isThere
  }

  /** Looks now, and from time to time from now on. */
  look(): void {
    if (this.#stopped.signal.aborted || this.#isLooking) return
    clearTimeout(this.#timer)
    this.#isLooking = true
    void Promise.all([this.#readCrds(), this.#readServices()]).finally(() => {
      this.#isLooking = false
      this.#timer = setTimeout(() => this.look(), this.#options.lookEveryMs ?? usualLookEveryMs).unref()
    })
  }

  [Symbol.dispose](): void {
    this.#stopped.abort()
    clearTimeout(this.#timer)
  }

  async #readCrds(): Promise<void> {
    const { api, log, onSupport } = this.#options
    const { signal } = this.#stopped
    try {
      const schema = await api.schemaOf(resources.inferenceServices, signal)
      if (schema === undefined || schema === this.#schema) return
      const isThere = namesRuntime(await api.schemaAt(schema, signal))
      this.#schema = schema
      if (isThere === this.#isThere) return
      this.#isThere = isThere
      log.info(isThere ? 'CRDs of a LLMKube with relays' : 'CRDs of a LLMKube without relays', {
        server: api.context.server,
      })
      onSupport()
    } catch (error) {
      if (!isApiError(error) && !(error instanceof z.ZodError)) throw error
      if (!signal.aborted) log.debug('CRDs not read', { error })
    }
  }

  async #readServices(): Promise<void> {
    const { relayed, monotonicNow, log } = this.#options
    const targets = relayed()
    const keys = new Set(targets.map(refKey))
    for (const one of [this.#since, this.#told]) for (const key of one.keys()) if (!keys.has(key)) one.delete(key)
    for (const target of targets) {
      const key = refKey(target)
      const since = this.#since.get(key) ?? monotonicNow()
      this.#since.set(key, since)
      if (monotonicNow() - since < adoptedWithinMs) continue
      try {
        await this.#readService(key, target)
      } catch (error) {
        log.debug('adoption not checked', { key, error })
      }
    }
  }

  async #readService(key: string, target: PublishTarget): Promise<void> {
    const { generationOf, onNotAdopted } = this.#options
    const about = `${target.uid} ${generationOf(target) ?? 0}`
    if (this.#told.get(key) === about || (await this.#leadsToRelay(target)) || this.#stopped.signal.aborted) return
    this.#told.set(key, about)
    onNotAdopted(
      key,
      `LLMKube's controller routes Service ${serviceNameOf(target.name)} to no relay, so no pod reaches this model. Controllers older than 0.10 have no relays: set --publish auto or direct for them.`,
    )
  }

  /** The controller's Service may have no label by which it is watched. */
  async #leadsToRelay(target: PublishTarget): Promise<boolean> {
    const name = serviceNameOf(target.name)
    try {
      const raw = await this.#options.api.get(resources.services, target.namespace, name, this.#stopped.signal)
      return isRelayed(parseService(raw), target)
    } catch (error) {
      if (isApiError(error, 404)) return false
      throw error
    }
  }
}

function namesRuntime(found: unknown): boolean {
  const { schemas } = document.parse(found).components
  return Object.entries(schemas).some(
    ([name, schema]) =>
      name.endsWith('.InferenceService') &&
      withRuntimes.safeParse(schema).data?.properties.spec.properties.runtime.enum.includes(runtimeOfRelays) === true,
  )
}
