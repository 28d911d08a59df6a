import { deletionViewOf, planDeletion, planModel, type DeletionPlan } from '../deletion-plan.ts'
import type { Command } from '../../../contract/commands.ts'
import { isApiError, type ApiError } from '../../kube/api-error.ts'
import type { KubeApi } from '../../kube/kube-api.ts'
import { parseInferenceService, resources, type InferenceService } from '../../kube/resources.ts'
import { refKey } from '../../util/object-key.ts'
import { done, refused, refusedByCluster, type Outcome } from './results.ts'
import { knownService, type Rooms } from './rooms.ts'

/** Others write the same objects all the time; each attempt reads them anew. */
const maxAttempts = 10

type DeleteModel = Extract<Command, { name: 'deleteModel' }>

/** The InferenceService first, so that what it runs on is not taken from it; then its Model, where that is ours to delete. */
export async function deleteModel(rooms: Rooms, command: DeleteModel): Outcome {
  const { service: ref, uid, evenIfManaged } = command
  const known = knownService(rooms, ref)
  if (typeof known === 'string') return refused(known)
  const key = refKey(ref)
  const { api } = known.session.cluster
  const asked = uid ?? known.uid
  try {
    const deleted = await whileItChanges(async () => {
      const plan = await planDeletion(api, ref)
      if (plan.service.metadata.uid !== asked || (plan.managers.length > 0 && !evenIfManaged)) return { plan }
      await deleteService(api, plan.service)
      return { plan, service: plan.service }
    })
    if (!deleted.service) return notDeleted(key, deleted.plan, { ...command, uid: asked })
    const message = `${key} is deleted. ${await deleteItsModel(api, deleted.service)}`.trim()
    rooms.history.add({ kind: 'deleted', service: ref, message })
    return done(message)
  } catch (error) {
    if (error instanceof UnknownOutcome) {
      return refusedByCluster(`Whether ${key} is deleted is not known; try again`, error.cause)
    }
    if (!isApiError(error)) throw error
    if (!isApiError(error, 404)) return refusedByCluster(`${key} is not deleted`, error)
    const last = known.report.service
    const model = last?.metadata.uid === asked ? await deleteItsModel(api, last) : ''
    return done(`${key} is not in the cluster any more. ${model}`.trim())
  }
}

/** The cluster answered neither the deletion nor the question what became of it. */
class UnknownOutcome extends Error {
  override readonly name = 'UnknownOutcome'
  override readonly cause: ApiError

  constructor(cause: ApiError) {
    super('The outcome of a deletion is not known.')
    this.cause = cause
  }
}

/** An answer that is lost is looked for in the cluster. Throws ApiError where it is not deleted, and UnknownOutcome. */
async function deleteService(api: KubeApi, service: InferenceService): Promise<void> {
  const { namespace, name } = service.metadata
  try {
    await api.delete(resources.inferenceServices, namespace, name, preconditions(service))
  } catch (error) {
    if (isApiError(error, 404)) return
    if (!isApiError(error) || error.code !== undefined) throw error
    if (!(await isLeaving(api, service))) throw error
  }
}

async function isLeaving(api: KubeApi, { metadata: { namespace, name, uid } }: InferenceService): Promise<boolean> {
  try {
    const { metadata } = parseInferenceService(await api.get(resources.inferenceServices, namespace, name))
    return metadata.uid !== uid || metadata.deletionTimestamp !== undefined
  } catch (error) {
    if (isApiError(error, 404)) return true
    throw isApiError(error) ? new UnknownOutcome(error) : error
  }
}

function notDeleted(key: string, plan: DeletionPlan, command: DeleteModel) {
  if (plan.service.metadata.uid !== command.uid) {
    return refused(`${key} is another InferenceService of the same name by now: look at it again before it is deleted.`)
  }
  return refused(`${key} is not deleted. ${deletionViewOf(plan).message}`, {
    command: { ...command, evenIfManaged: true },
    label: 'Delete all the same',
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
      return `So is its Model ${modelRef}; what was downloaded stays on this machine.`
    })
  } catch (error) {
    if (!isApiError(error)) throw error
    if (isApiError(error, 404)) return ''
    return `Its Model ${modelRef} stays: ${wordsOf(error)}.`
  }
}

const wordsOf = (error: ApiError): string =>
  error.code === undefined ? 'the cluster did not answer' : `the cluster refused to delete it (${error.detail})`

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
