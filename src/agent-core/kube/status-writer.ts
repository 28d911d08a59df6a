import type { KubeApi } from './kube-api.ts'
import type { ObjectCache } from './object-cache.ts'
import {
  parseInferenceService,
  resources,
  type Condition,
  type InferenceService,
  type ObjectMeta,
} from './resources.ts'

/** The condition type that only Metalbar writes; LLMKube's controller never touches types it does not know. */
export const metalAgentCondition = 'MetalAgent'

export interface ConditionWanted {
  readonly status: 'True' | 'False'
  readonly reason: string
  readonly message: string
}

/** The condition to write, or undefined where the object already says it. */
export function conditionChange(
  service: InferenceService,
  wanted: ConditionWanted,
  now: Date,
): Required<Condition> | undefined {
  const current = service.status.conditions.find(({ type }) => type === metalAgentCondition)
  const observedGeneration = service.metadata.generation
  if (
    current?.status === wanted.status &&
    current.reason === wanted.reason &&
    current.message === wanted.message &&
    current.observedGeneration === observedGeneration
  ) {
    return undefined
  }
  const sameStatus = current?.status === wanted.status ? current.lastTransitionTime : undefined
  return {
    type: metalAgentCondition,
    ...wanted,
    observedGeneration,
    lastTransitionTime: sameStatus ?? `${now.toISOString().slice(0, 19)}Z`,
  }
}

export const hasCondition = ({ status }: InferenceService): boolean =>
  status.conditions.some(({ type }) => type === metalAgentCondition)

/** Values of `schedulingStatus` that an agent wrote: stale once the service is ready, and no controller clears them. */
const agentSchedulingStatuses: readonly string[] = ['InsufficientMemory', 'MemoryCheckFailed']

export const hasStaleSchedulingStatus = (service: InferenceService): boolean =>
  agentSchedulingStatuses.includes(service.status.schedulingStatus)

/** Writes on `/status` of InferenceServices; each throws ApiError, and takes the answer into the cache. */
export class StatusWriter {
  readonly #api: KubeApi
  readonly #cache: ObjectCache<InferenceService>

  constructor(api: KubeApi, cache: ObjectCache<InferenceService>) {
    this.#api = api
    this.#cache = cache
  }

  /** The resourceVersion guards against writing a predecessor's condition onto a re-created object. */
  async writeCondition({ metadata }: InferenceService, condition: Required<Condition>): Promise<void> {
    await this.#apply(metadata, [condition])
  }

  /** We have nothing more to say about the object. */
  async removeCondition({ metadata }: InferenceService): Promise<void> {
    await this.#apply(metadata, [])
  }

  /** What the server holds now, instead of what the watch has brought so far. */
  async refresh({ metadata: { namespace, name } }: InferenceService): Promise<InferenceService> {
    const service = parseInferenceService(await this.#api.get(resources.inferenceServices, namespace, name))
    this.#cache.assume(service)
    return service
  }

  /** What the controller would have written by now if there were one. */
  async writeStopped(service: InferenceService, phase: 'Stopped' | 'Suspended'): Promise<void> {
    await this.#merge(service, { phase, readyReplicas: 0, desiredReplicas: 0 })
  }

  async clearSchedulingStatus(service: InferenceService): Promise<void> {
    await this.#merge(service, { schedulingStatus: null, schedulingMessage: null })
  }

  /** What we applied before and do not apply again is removed by the server. */
  async #apply(
    { namespace, name, resourceVersion }: ObjectMeta,
    conditions: readonly Required<Condition>[],
  ): Promise<void> {
    const answer = await this.#api.applyStatus(resources.inferenceServices, namespace, name, {
      metadata: { name, namespace, resourceVersion },
      status: { conditions },
    })
    this.#cache.assume(parseInferenceService(answer))
  }

  async #merge({ metadata }: InferenceService, status: object): Promise<void> {
    const { namespace, name, resourceVersion } = metadata
    const answer = await this.#api.mergePatchStatus(resources.inferenceServices, namespace, name, {
      metadata: { resourceVersion },
      status,
    })
    this.#cache.assume(parseInferenceService(answer))
  }
}
