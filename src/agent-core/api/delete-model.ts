import { clusterWords, done, type Known, type Outcome, refused, refusedByCluster, type Rooms } from './command.ts'
import { isApiError, rootMessage } from '../kube/api-error.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import {
  type InferenceService,
  type KubeObject,
  type Model,
  type ObjectMeta,
  parseInferenceService,
  parseModel,
  readable,
  resources,
} from '../kube/resources.ts'
import { refKey } from '../util/object-key.ts'
import { sentence } from '../../contract/clean-text.ts'
import { LinkError } from '../../contract/client.ts'
import type { Command, ServiceRef } from '../../contract/commands.ts'
import { createdBy, type DeletionView } from '../../contract/model-application.ts'

/** Others write the same objects all the time, so each attempt reads them again. */
const maxAttempts = 10

type DeleteModel = Extract<Command, { name: 'deleteModel' }>

/** The InferenceService first, so that what it runs on is not taken from it; then its Model, where that is ours to delete. */
export async function deleteModel(rooms: Rooms, known: Known, command: DeleteModel): Outcome {
  const { service: ref, uid } = command
  const { key } = known.report
  const { api } = known.session.cluster
  const asked = uid ?? known.uid
  let isSent = false
  try {
    const deleted = await whileItChanges(async () => {
      const plan = await planDeletion(api, ref)
      if (plan.service.metadata.uid !== asked) return undefined
      isSent = true
      await deleteService(api, plan.service)
      return plan.service
    })
    if (!deleted) {
      return refused(`${key} is now another InferenceService of the same name: check it again before you delete it.`)
    }
    const sentences = [`${key} was deleted.`, ...keptSentence(deleted), await deleteItsModel(api, deleted)]
    const message = sentences.join(' ').trim()
    rooms.history.add({ kind: 'deleted', service: ref, message })
    return done(message)
  } catch (error) {
    if (!isApiError(error)) throw error
    // oxlint-disable-next-line typescript/no-unnecessary-condition -- set by what threw
    if (isSent && error.code === undefined) {
      return refusedByCluster(`It is not known whether ${key} was deleted; try again`, error)
    }
    if (!isApiError(error, 404)) return refusedByCluster(`${key} was not deleted`, error)
    const last = known.report.service
    const model = last?.metadata.uid === asked ? await deleteItsModel(api, last) : ''
    return done(`${key} is no longer in the cluster. ${model}`.trim())
  }
}

/** Asked once more where the answer is lost: the second answer tells what became of the first request. Throws ApiError. */
async function deleteService(api: KubeApi, service: InferenceService): Promise<void> {
  const { namespace, name } = service.metadata
  const ask = () => api.delete(resources.inferenceServices, namespace, name, preconditions(service))
  const asked = ask().catch((error: unknown) => {
    if (isApiError(error) && error.code === undefined) return ask()
    throw error
  })
  await asked.catch((error: unknown) => {
    if (!isApiError(error, 404)) throw error
  })
}

/** What became of it, in a sentence; the service is gone whatever that is. */
async function deleteItsModel(api: KubeApi, service: InferenceService): Promise<string> {
  const { namespace } = service.metadata
  const { modelRef } = service.spec.value
  try {
    return await whileItChanges(async () => {
      const model = await planModel(api, service)
      if (!model) return ''
      if (!model.isDeleted) return model.message
      await api.delete(resources.models, namespace, modelRef, preconditions(model.object))
      return `Its Model ${modelRef} was deleted too; downloaded files stay on this machine.`
    })
  } catch (error) {
    if (!isApiError(error)) throw error
    if (isApiError(error, 404)) return ''
    return clusterWords(`Its Model ${modelRef} stays`, error)
  }
}

const preconditions = ({
  metadata: { uid, resourceVersion },
}: InferenceService | { metadata: InferenceService['metadata'] }) => ({
  uid,
  resourceVersion,
})

/** Again from the beginning where an object was changed between its reading and its deletion. */
async function whileItChanges<T>(attempt: () => Promise<T>): Promise<T> {
  for (let count = 1; ; count += 1) {
    try {
      return await attempt()
    } catch (error) {
      if (!isApiError(error, 409) || count === maxAttempts) throw error
    }
  }
}

/** What goes with an InferenceService, as the cluster has it now. */
interface DeletionPlan {
  readonly service: InferenceService
  readonly model: PlannedModel | undefined
}

interface PlannedModel {
  readonly object: Model
  readonly isDeleted: boolean
  /** Why it goes, or stays: one sentence. */
  readonly message: string
}

/** Throws ApiError. */
async function planDeletion(api: KubeApi, { namespace, name }: ServiceRef): Promise<DeletionPlan> {
  const service = parseInferenceService(await api.get(resources.inferenceServices, namespace, name))
  return { service, model: await planModel(api, service) }
}

/** Whether the service's Model is deleted with it; undefined if there is no Model. The service itself may already be gone. Throws ApiError. */
export async function planModel(api: KubeApi, service: InferenceService): Promise<PlannedModel | undefined> {
  const { namespace, uid } = service.metadata
  const { modelRef } = service.spec.value
  if (modelRef === '') return undefined
  const object = await api.get(resources.models, namespace, modelRef).then(parseModel, (error: unknown) => {
    if (isApiError(error, 404)) return undefined
    throw error
  })
  if (!object) return undefined
  const stays = (why: string): PlannedModel => ({
    object,
    isDeleted: false,
    message: `The Model ${modelRef} stays: ${why}.`,
  })
  if (!isMadeByUs(service) || !isMadeByUs(object)) return stays('it was not added together with the service')
  const others = await servicesNaming(api, namespace, modelRef, uid)
  const [other] = others
  if (other !== undefined) {
    return stays(
      others.length === 1 ? `${other} uses it too` : `${others.length} other services use it, such as ${other}`,
    )
  }
  return {
    object,
    isDeleted: true,
    message: `The Model ${modelRef} is deleted with it, since no other service uses it; downloaded files stay on this machine.`,
  }
}

const isMadeByUs = ({ metadata }: KubeObject): boolean => metadata.labels[createdBy.label] === createdBy.value

/** As namespace/name, sorted. */
async function servicesNaming(api: KubeApi, namespace: string, model: string, exceptUid: string): Promise<string[]> {
  const naming: string[] = []
  for await (const { items } of api.pages(resources.inferenceServices, { namespace })) {
    for (const { metadata, spec } of readable(items, parseInferenceService)) {
      const { modelRef, speculativeDecoding } = spec.value
      const names = modelRef === model || speculativeDecoding?.draftModelRef === model
      if (names && metadata.uid !== exceptUid) naming.push(refKey(metadata))
    }
  }
  return naming.sort()
}

function keptSentence({ metadata }: InferenceService): string[] {
  const keeper = keeperOf(metadata)
  return keeper === undefined ? [] : [`${keeper} manages it and may bring it back: delete it there.`]
}

function deletionViewOf({ service, model }: DeletionPlan): DeletionView {
  const key = refKey(service.metadata)
  return {
    uid: service.metadata.uid,
    ...(model && {
      model: { name: model.object.metadata.name, isDeleted: model.isDeleted, message: model.message },
    }),
    message: [
      ...keptSentence(service),
      `The InferenceService ${key} is deleted in the cluster, whichever machine serves it.`,
      ...(model ? [model.message] : []),
    ].join(' '),
  }
}

/** Longest name of a tool or owner that is quoted in a sentence. */
const maxKeeperBytes = 200

/** The tool or owner that may bring the object back or change it again, as its label `managed-by` or its ownerReference says. */
export function keeperOf({
  labels,
  ownerReferences,
}: Pick<ObjectMeta, 'labels' | 'ownerReferences'>): string | undefined {
  const owner = ownerReferences.find(({ controller }) => controller === true)
  const keeper = labels['app.kubernetes.io/managed-by'] || (owner && `${owner.kind} ${owner.name}`)
  return keeper === undefined ? undefined : sentence(keeper, maxKeeperBytes)
}

/** What goes with the service where it is deleted. Throws LinkError where the cluster does not tell. */
export async function deletion(api: KubeApi, service: ServiceRef): Promise<DeletionView> {
  try {
    return deletionViewOf(await planDeletion(api, service))
  } catch (error) {
    if (!isApiError(error)) throw error
    const words = error.code === undefined ? `the cluster does not answer (${rootMessage(error)})` : error.detail
    const unknown = `It is not known what would be deleted with ${refKey(service)}`
    throw new LinkError('refused', `${unknown}: ${words}.`, { cause: error })
  }
}
