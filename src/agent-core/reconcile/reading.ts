import type { Cluster } from '../kube/cluster.ts'
import type { CacheChange } from '../kube/object-cache.ts'
import type { InferenceService, InferenceServiceSpec, Model, ModelSpec, ObjectMeta } from '../kube/resources.ts'
import { collidesWith, labels, type PublishTarget, serviceNameOf } from '../publishing/objects.ts'
import { annotationKeys, type Desired, type DesiredInputs, desiredOf } from './desired.ts'
import type { Draft } from './draft.ts'
import { digestWith } from './model-request.ts'
import type { ServerRuntime } from '../servers/probe.ts'
import { keyOf } from '../util/object-key.ts'

/** InferenceServices by the Service name that they would have, so that a look at one costs no look through all of them. */
export class ServiceNames {
  readonly #byName = new Map<string, Map<string, ObjectMeta>>()

  /** To be called at every change of the cache. */
  follow({ key, before, after }: Pick<CacheChange<InferenceService>, 'key' | 'before' | 'after'>): void {
    const metadata = after?.metadata ?? before?.metadata
    if (!metadata) return
    const name = nameOf(metadata)
    const sharers = this.#byName.get(name) ?? new Map<string, ObjectMeta>()
    if (after) sharers.set(key, after.metadata)
    else sharers.delete(key)
    if (sharers.size > 0) this.#byName.set(name, sharers)
    else this.#byName.delete(name)
  }

  /** Those of the same Service name, itself included. */
  sharing(metadata: Pick<ObjectMeta, 'namespace' | 'name'>): Iterable<ObjectMeta> {
    return this.#byName.get(nameOf(metadata))?.values() ?? []
  }
}

const nameOf = ({ namespace, name }: Pick<ObjectMeta, 'namespace' | 'name'>): string =>
  keyOf(namespace, serviceNameOf(name))

/** The model and spec to be served. */
export interface DesiredServer {
  readonly service: InferenceService
  readonly spec: InferenceServiceSpec
  readonly model: ModelSpec
  readonly modelStatus: Model['status']
  readonly draft?: Draft | undefined
  readonly runtime: ServerRuntime
  readonly digest: string
}

/** Since when the desired state is as it is. */
export interface Durations {
  /** The digest last asked for. */
  readonly digest: { readonly value: string; readonly since: number } | undefined
  /** Its Model is not there, or not asked for. */
  readonly modelMissingSince: number | undefined
}

export const noDurations: Durations = { digest: undefined, modelMissingSince: undefined }

/** What the cluster says of one service, read once for each step of a pass: every decision of that step is about the same objects. */
export interface Reading {
  readonly now: number
  readonly service: InferenceService | undefined
  readonly model: Model | undefined
  readonly desired: Desired
  /** Only where `desired` is to serve. */
  readonly desiredServer: DesiredServer | undefined
  readonly target: PublishTarget
  /** The Secret with the API key that clients must send; undefined if the service asks for none. */
  readonly apiKeySecret: string | undefined
  readonly durations: Durations
}

type Caches = Pick<Cluster, 'synced' | 'inferenceServices' | 'models' | 'services' | 'slices'>

/** `lastSeen`: what a deleted object left behind is removed under its uid. */
interface ReadingInputs extends Pick<DesiredInputs, 'key' | 'allowlist' | 'hold' | 'chooseRuntime' | 'lastSeen'> {
  readonly now: number
  readonly namespace: string
  readonly name: string
  readonly cluster: Caches
  readonly names: Pick<ServiceNames, 'sharing'>
  readonly fetched: FetchedContent | undefined
  /** Digest of the server that runs, or ran last. */
  readonly servedDigest: string | undefined
  readonly before: Durations
}

/** The known facts about a model's content. */
export interface FetchedContent {
  /** See `contentKey`. */
  readonly source: string
  /** Absent while it is not here. */
  readonly revision: string | undefined
  /** It came while the server ran. */
  readonly isNewer: boolean
  readonly notice: string | undefined
}

/** Edits of one person or tool that come within this of each other cost one restart; a load costs minutes. */
const settleMs = 500

/** Where a Model and its service are applied together, the service must not be reported as lacking its Model. */
const modelGraceMs = 2_000

/** Has no effect: the same inputs are the same reading. */
export function read(inputs: ReadingInputs): Reading {
  const { cluster, namespace, name, now, before } = inputs
  const service = cluster.inferenceServices.get(namespace, name)
  const model = service && modelOf(cluster, service)
  const { synced } = cluster
  const nameTakenBy = service && collidesWith(service.metadata, inputs.names.sharing(service.metadata))
  const desired = withContent(desiredOf({ ...inputs, synced, service, model, nameTakenBy }), inputs)
  const durations = durationsOf(before, desired, now)
  const target = targetOf(inputs, service)
  return {
    now,
    service,
    model,
    desired: withPatience(desired, durations),
    desiredServer: desiredServerOf(desired, service, model),
    target,
    apiKeySecret: service?.metadata.annotations[annotationKeys.apiKeySecret],
    durations,
  }
}

export const modelOf = ({ models }: Pick<Cluster, 'models'>, { metadata, spec }: InferenceService): Model | undefined =>
  models.get(metadata.namespace, spec.value.modelRef)

/** The content of the model belongs to what is served, as far as it is known. */
function withContent(desired: Desired, { fetched, servedDigest: server }: ReadingInputs): Desired {
  if (desired.kind !== 'serve') return desired
  const revision = fetched?.source === desired.source ? fetched.revision : undefined
  const notice = [desired.notice, fetched?.notice].filter((sentence) => sentence !== undefined).join(' ')
  return {
    ...desired,
    digest: digestWith(desired.digest, { server, revision, isNewer: fetched?.isNewer }),
    ...(notice !== '' && { notice }),
  }
}

function durationsOf(before: Durations, desired: Desired, now: number): Durations {
  const asksForNoModel = desired.kind === 'modelMissing' || desired.kind === 'stopped' || desired.kind === 'held'
  const isNewDigest = desired.kind === 'serve' && before.digest?.value !== desired.digest
  return {
    digest: isNewDigest ? { value: desired.digest, since: now } : before.digest,
    modelMissingSince: asksForNoModel ? (before.modelMissingSince ?? now) : undefined,
  }
}

/** A spec that has only just changed may be half of a person's edit. */
function withPatience(desired: Desired, { digest, modelMissingSince }: Durations): Desired {
  if (desired.kind === 'modelMissing') return { ...desired, graceEndsAt: (modelMissingSince ?? 0) + modelGraceMs }
  return desired.kind === 'serve' ? { ...desired, settlesAt: (digest?.since ?? 0) + settleMs } : desired
}

function desiredServerOf(
  desired: Desired,
  service: InferenceService | undefined,
  model: Model | undefined,
): DesiredServer | undefined {
  if (desired.kind !== 'serve' || service?.spec.ok !== true || model?.spec.ok !== true) return undefined
  const { digest, runtime, draft } = desired
  return {
    service,
    spec: service.spec.value,
    model: model.spec.value,
    modelStatus: model.status,
    draft,
    runtime,
    digest,
  }
}

function targetOf({ cluster, namespace, name, lastSeen }: ReadingInputs, service: InferenceService | undefined) {
  const uid = service?.metadata.uid ?? lastSeen?.uid ?? uidOfLeftovers(cluster, namespace, name)
  const endpointPort = service?.spec.value.endpoint?.port
  return { namespace, name, uid, endpointPort }
}

/** What an earlier life of this agent published for an object that is gone still names that object's uid. */
function uidOfLeftovers({ slices, services }: Caches, namespace: string, name: string): string {
  for (const { metadata } of [...slices.values(), ...services.values()]) {
    if (metadata.namespace !== namespace || metadata.labels[labels.inferenceService] !== name) continue
    const owner = metadata.ownerReferences.find(({ kind }) => kind === 'InferenceService')
    if (owner) return owner.uid
  }
  return ''
}

/** Text of everything that a person can change and that decides whether a server may start. */
export function desiredKey({ digest, model, spec }: DesiredServer): string {
  const { memoryBudget, memoryFraction } = model.hardware ?? {}
  return JSON.stringify([digest, memoryBudget, memoryFraction, spec.priority, spec.contextSize])
}
