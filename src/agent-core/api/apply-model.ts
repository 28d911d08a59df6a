import { clusterWords, done, type Outcome, refused, refusedWithYaml, type Rooms } from './command.ts'
import type { ClusterSession } from '../cluster/cluster-session.ts'
import { isApiError } from '../kube/api-error.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import {
  type InferenceService,
  type KubeObject,
  type Model,
  parseInferenceService,
  parseModel,
  resources,
} from '../kube/resources.ts'
import { selectionDigest } from '../models/selection.ts'
import { parseModelSource, shownSource } from '../models/source.ts'
import { serviceNameOf } from '../publishing/objects.ts'
import { refKey } from '../util/object-key.ts'
import type { Command, CommandResult } from '../../contract/commands.ts'
import {
  applicationYaml,
  createdBy,
  manifestsOf,
  type ModelApplication,
  sourceOfModel,
} from '../../contract/model-application.ts'

/** Makes both objects, or neither: a Model that was made for a service which the cluster refuses is deleted again. */
export async function applyModel(rooms: Rooms, command: Extract<Command, { name: 'applyModel' }>): Outcome {
  const application = { ...command.application, source: sourceOfModel(command.application.source) }
  const { session } = rooms.link
  const key = refKey(application)
  if (!session) return refused(`There is no cluster to add ${key} to: ${rooms.link.view().message}`)
  const obstacle = obstacleTo(application, rooms, session)
  if (obstacle !== undefined) return refused(obstacle)
  const result = await added(session.cluster.api, application)
  if (result.outcome === 'done')
    rooms.history.add({ kind: 'added', service: refOf(application), message: result.message })
  return result
}

const refOf = ({ namespace, name }: ModelApplication) => ({ namespace, name })

/** What can be known here without asking the cluster: one sentence. */
function obstacleTo(
  application: ModelApplication,
  { settings }: Rooms,
  { cluster }: ClusterSession,
): string | undefined {
  const { namespace, name, source } = application
  const parsed = parseModelSource(source)
  if (parsed.kind === 'unsupported') return parsed.message
  if (cluster.namespace !== undefined && cluster.namespace !== namespace) {
    return `This machine watches only the namespace ${cluster.namespace}, so it would not serve ${refKey(application)}: choose that namespace.`
  }
  const { inferenceServiceAllowlist: allowed } = settings.current
  if (allowed.length > 0 && !allowed.includes(name)) {
    return `This machine serves only ${allowed.join(', ')} (--inference-service-allowlist), so it would not serve ${name}: choose one of these names.`
  }
  const sharer = [...cluster.inferenceServices.values()].find(
    ({ metadata }) =>
      metadata.namespace === namespace &&
      metadata.name !== name &&
      serviceNameOf(metadata.name) === serviceNameOf(name),
  )
  return (
    sharer &&
    `${refKey(sharer.metadata)} already has the Service name ${serviceNameOf(name)}, which ${name} would need: choose another name.`
  )
}

async function added(api: KubeApi, application: ModelApplication): Promise<CommandResult> {
  const { namespace, name } = application
  const key = refKey(application)
  const { model, service } = manifestsOf(application)
  const refusal = (error: unknown, rest = 'Nothing was created.'): CommandResult => {
    if (!isApiError(error)) throw error
    return refusedWithYaml(`${clusterWords(`${key} was not added`, error)} ${rest}`, applicationYaml(application))
  }
  let made: Model | undefined
  try {
    const [present, serving] = await Promise.all([
      found(api.get(resources.models, namespace, name), parseModel),
      found(api.get(resources.inferenceServices, namespace, name), parseInferenceService),
    ])
    if (serving) return alreadyThere(application, serving, present)
    const conflict = present && conflictWith(application, present)
    if (conflict !== undefined) return refused(conflict)
    if (!present) made = parseModel(await api.create(resources.models, namespace, model))
  } catch (error) {
    return refusal(error, isApiError(error) && error.code === undefined ? unknown(key) : undefined)
  }
  try {
    await api.create(resources.inferenceServices, namespace, service)
  } catch (error) {
    return refusal(error, await undone(api, made, { key, error }))
  }
  const reused = made ? '' : ` It uses the existing Model ${name}.`
  return done(`${key} was added: this machine fetches ${shownSource(application.source)} and serves it.${reused}`)
}

const unknown = (key: string): string => `It is not known whether anything was created: look for a Model ${key}.`

/** Deletes what was created before the failure; answers what remains, as a sentence. */
async function undone(
  api: KubeApi,
  made: Model | undefined,
  { key, error }: { readonly key: string; readonly error: unknown },
): Promise<string> {
  // It may have been made all the same, and then needs its Model.
  if (isApiError(error) && error.code === undefined) {
    return `It is not known whether the InferenceService ${key} was created; ${made ? 'its Model was.' : 'its Model existed before.'}`
  }
  if (!made) return 'Nothing was created; the Model existed before.'
  const { namespace, name, uid } = made.metadata
  try {
    await api.delete(resources.models, namespace, name, { uid })
    return 'The Model that was created for it was deleted again, so nothing is left behind.'
  } catch (failure) {
    if (isApiError(failure, 404)) return 'Nothing is left.'
    if (!isApiError(failure)) throw failure
    return `${clusterWords(`The Model ${key} was created for it and was not deleted again`, failure)} Delete it yourself.`
  }
}

/** Undefined where there is none. Throws ApiError. */
async function found<T extends KubeObject>(
  answer: Promise<unknown>,
  parse: (raw: unknown) => T,
): Promise<T | undefined> {
  try {
    return parse(await answer)
  } catch (error) {
    if (isApiError(error, 404)) return undefined
    throw error
  }
}

/** A client that lost our answer asks again, perhaps as a new request. */
function alreadyThere(
  application: ModelApplication,
  { metadata, spec }: InferenceService,
  model: Model | undefined,
): CommandResult {
  const key = refKey(application)
  if (metadata.deletionTimestamp !== undefined) {
    return refused(`The InferenceService ${key} is being deleted: try again when it is gone.`)
  }
  const { modelRef, contextSize, parallelSlots, cacheTypeK, cacheTypeV } = spec.value
  const isAsAsked =
    metadata.labels[createdBy.label] === createdBy.value &&
    model !== undefined &&
    conflictWith(application, model) === undefined &&
    modelRef === application.name &&
    contextSize === application.contextSize &&
    parallelSlots === application.parallelSlots &&
    cacheTypeK === application.cacheType &&
    cacheTypeV === application.cacheType
  return isAsAsked
    ? done(`${key} exists already, exactly as asked for.`)
    : refused(`There is an InferenceService ${key} already: choose another name, or change that one.`)
}

/** Why the Model that is there cannot be used; undefined where it can. */
function conflictWith(application: ModelApplication, { metadata, spec }: Model): string | undefined {
  const key = refKey(metadata)
  if (metadata.deletionTimestamp !== undefined) return `The Model ${key} is being deleted: try again when it is gone.`
  if (!spec.ok) return `There is already a Model ${key}, but it cannot be used. ${spec.message}`
  const { source, hardware, sourceSecretRef } = spec.value
  if (selectionDigest(spec.value) !== selectionDigest(application)) {
    return `There is already a Model ${key} with another source (${shownSource(source) || 'none'}): choose another name.`
  }
  if ((sourceSecretRef?.name ?? '') !== (application.sourceSecret ?? '')) {
    return `There is already a Model ${key} with another Secret for its source (${sourceSecretRef?.name || 'none'}): choose another name.`
  }
  const accelerator = hardware?.accelerator ?? 'cpu'
  return accelerator === 'metal'
    ? undefined
    : `The Model ${key} exists already, but for the accelerator ${accelerator} instead of metal: choose another name.`
}
