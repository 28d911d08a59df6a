import { sentence } from '../../contract/clean-text.ts'
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

/** LLMKube's own type, which agents write while memory is short. */
export const memoryPressureCondition = 'MemoryPressure'

/** LLMKube's own conditions are far shorter, and every watcher of the object receives the text. */
const maxMessageBytes = 1_024

export interface ConditionWanted {
  readonly type: typeof metalAgentCondition | typeof memoryPressureCondition
  readonly status: 'True' | 'False'
  readonly reason: string
  readonly message: string
}

/** All conditions of ours as they should be; undefined where the object already says so, and nothing else of ours. */
export function conditionsChange(
  service: InferenceService,
  wanted: readonly ConditionWanted[],
  now: Date,
): Required<Condition>[] | undefined {
  const changes = wanted.map((one) => conditionFor(service, one, now))
  const isToGo = (type: string) => isOurCondition(type) && !wanted.some((one) => one.type === type)
  const hasLeftovers = service.status.conditions.some(({ type }) => isToGo(type))
  if (!hasLeftovers && changes.every(({ isNew }) => !isNew)) return undefined
  return changes.map(({ condition }) => condition)
}

function conditionFor({ metadata, status }: InferenceService, given: ConditionWanted, now: Date) {
  const wanted = { ...given, message: sentence(given.message, maxMessageBytes) }
  const current = status.conditions.find(({ type }) => type === wanted.type)
  const observedGeneration = metadata.generation
  const isNew =
    current?.status !== wanted.status ||
    current.reason !== wanted.reason ||
    current.message !== wanted.message ||
    current.observedGeneration !== observedGeneration
  const sameStatus = current?.status === wanted.status ? current.lastTransitionTime : undefined
  const lastTransitionTime = sameStatus ?? `${now.toISOString().slice(0, 19)}Z`
  return { isNew, condition: { ...wanted, observedGeneration: observedGeneration, lastTransitionTime } }
}

const ourTypes: readonly string[] = [metalAgentCondition, memoryPressureCondition]

export const isOurCondition = (type: string): boolean => ourTypes.includes(type)

export const hasCondition = ({ status }: InferenceService): boolean =>
  status.conditions.some(({ type }) => type === metalAgentCondition)

/** Values of `schedulingStatus` that an agent writes, which LLMKube 0.10's controller keeps: stale once the service is ready, and no controller clears them. */
export const agentSchedulingStatuses = [
  'InsufficientMemory',
  'MemoryCheckFailed',
  'ExtraArgsRejected',
  'EndpointNameConflict',
  'ModelSourceNotAllowed',
  'ServiceNameTooLong',
  'ModelDigestMismatch',
] as const
export type AgentSchedulingStatus = (typeof agentSchedulingStatuses)[number]

export const hasStaleSchedulingStatus = (service: InferenceService): boolean =>
  agentSchedulingStatuses.some((status) => status === service.status.schedulingStatus)

/** Writes on `/status` of InferenceServices; each throws ApiError, and takes the answer into the cache. */
export class StatusWriter {
  readonly #api: KubeApi
  readonly #cache: ObjectCache<InferenceService>

  constructor(api: KubeApi, cache: ObjectCache<InferenceService>) {
    this.#api = api
    this.#cache = cache
  }

  /**
   * Applies all conditions of ours: a condition left out is removed. The resourceVersion guards against writing a predecessor's conditions
   * onto a re-created object. Returns the object after the write.
   */
  writeConditions(
    { metadata }: InferenceService,
    conditions: readonly Required<Condition>[],
  ): Promise<InferenceService> {
    return this.#apply(metadata, conditions)
  }

  /** We have nothing more to say about the object. */
  async removeConditions({ metadata }: InferenceService): Promise<void> {
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

  async writeSchedulingStatus(
    service: InferenceService,
    reason: AgentSchedulingStatus,
    message: string,
  ): Promise<void> {
    await this.#merge(service, {
      schedulingStatus: reason,
      schedulingMessage: sentence(message, maxMessageBytes),
    })
  }

  async clearSchedulingStatus(service: InferenceService): Promise<void> {
    await this.#merge(service, { schedulingStatus: null, schedulingMessage: null })
  }

  /** What we applied before and do not apply again is removed by the server. */
  async #apply(
    { namespace, name, resourceVersion }: ObjectMeta,
    conditions: readonly Required<Condition>[],
  ): Promise<InferenceService> {
    const body = { metadata: { name, namespace, resourceVersion }, status: { conditions } }
    const answer = await this.#api.apply(resources.inferenceServices, namespace, name, body, ofStatus)
    const service = parseInferenceService(answer)
    this.#cache.assume(service)
    return service
  }

  async #merge({ metadata }: InferenceService, status: object): Promise<void> {
    const { namespace, name, resourceVersion } = metadata
    const body = { metadata: { resourceVersion }, status }
    const answer = await this.#api.mergePatch(resources.inferenceServices, namespace, name, body, ofStatus)
    this.#cache.assume(parseInferenceService(answer))
  }
}

const ofStatus = { subresource: 'status' } as const
