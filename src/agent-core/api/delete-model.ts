import { done, type Known, type Outcome, refused, refusedByCluster, type Rooms } from './command.ts'
import { type ApiError, isApiError, rootMessage } from '../kube/api-error.ts'
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
import { createdBy, type DeletionView, type ManagerView } from '../../contract/model-application.ts'

/** Others write the same objects all the time, so each attempt reads them again. */
const maxAttempts = 10

type DeleteModel = Extract<Command, { name: 'deleteModel' }>

/** The InferenceService first, so that what it runs on is not taken from it; then its Model, where that is ours to delete. */
export async function deleteModel(rooms: Rooms, known: Known, command: DeleteModel): Outcome {
  const { service: ref, uid, evenIfManaged } = command
  const { key } = known.report
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
    const message = `${key} was deleted. ${await deleteItsModel(api, deleted.service)}`.trim()
    rooms.history.add({ kind: 'deleted', service: ref, message })
    return done(message)
  } catch (error) {
    if (error instanceof UnknownOutcome) {
      return refusedByCluster(`It is not known whether ${key} was deleted; try again`, error.cause)
    }
    if (!isApiError(error)) throw error
    if (!isApiError(error, 404)) return refusedByCluster(`${key} was not deleted`, error)
    const last = known.report.service
    const model = last?.metadata.uid === asked ? await deleteItsModel(api, last) : ''
    return done(`${key} is no longer in the cluster. ${model}`.trim())
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
    return refused(`${key} is now another InferenceService of the same name: check it again before you delete it.`)
  }
  return refused(`${key} was not deleted. ${deletionViewOf(plan).message}`, {
    command: { ...command, evenIfManaged: true },
    label: 'Delete anyway',
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

/** What goes with an InferenceService, as the cluster has it now. */
interface DeletionPlan {
  readonly service: InferenceService
  readonly model: PlannedModel | undefined
  readonly managers: readonly ManagerView[]
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
  const model = await planModel(api, service)
  return {
    service,
    model,
    managers: [
      ...managersOf('InferenceService', service.metadata),
      ...(model?.isDeleted === true ? managersOf('Model', model.object.metadata) : []),
    ],
  }
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

function deletionViewOf({ service, model, managers }: DeletionPlan): DeletionView {
  const key = refKey(service.metadata)
  const [manager] = managers
  const comesBack =
    manager === undefined
      ? []
      : [`${manager.tool} manages ${nameOf(manager)} (${manager.evidence}) and will bring it back: delete it there.`]
  return {
    uid: service.metadata.uid,
    ...(model && {
      model: { name: model.object.metadata.name, isDeleted: model.isDeleted, message: model.message },
    }),
    managers: [...managers],
    message: [
      ...comesBack,
      `The InferenceService ${key} is deleted in the cluster, whichever machine serves it.`,
      ...(model ? [model.message] : []),
    ].join(' '),
  }
}

const nameOf = ({ object }: ManagerView): string => (object === 'Model' ? 'its Model' : 'it')

interface Sign {
  readonly tool: string
  readonly labels?: readonly string[]
  readonly annotations?: readonly string[]
  /** Matches the value of `app.kubernetes.io/managed-by`. */
  readonly managedBy?: RegExp
}

/** How tools that keep objects as a repository has them mark those objects. */
const signs: readonly Sign[] = [
  { tool: 'Argo CD', labels: ['argocd.argoproj.io/instance'], annotations: ['argocd.argoproj.io/tracking-id'] },
  {
    tool: 'Flux',
    labels: ['kustomize.toolkit.fluxcd.io/name', 'helm.toolkit.fluxcd.io/name'],
    managedBy: /^flux/i,
  },
  { tool: 'Helm', annotations: ['meta.helm.sh/release-name'], managedBy: /^(?:helm|tiller)$/i },
  {
    tool: 'kustomize',
    annotations: ['config.kubernetes.io/origin', 'kustomize.config.k8s.io/id'],
    managedBy: /^kustomize/i,
  },
  { tool: 'kapp', labels: ['kapp.k14s.io/app'] },
  { tool: 'Rancher Fleet', annotations: ['objectset.rio.cattle.io/id'], labels: ['objectset.rio.cattle.io/hash'] },
  { tool: 'Config Sync', annotations: ['configmanagement.gke.io/managed', 'configsync.gke.io/resource-id'] },
  { tool: 'Crossplane', annotations: ['crossplane.io/composition-resource-name'] },
]

const managedByLabel = 'app.kubernetes.io/managed-by'
/** Longest label or annotation of another tool that is quoted in a sentence. */
const maxEvidenceBytes = 200

/** The tools that would bring the object back or change it again, by their labels and annotations, which may also be copies. */
export function managersOf(
  object: ManagerView['object'],
  { labels, annotations, ownerReferences }: Pick<ObjectMeta, 'labels' | 'annotations' | 'ownerReferences'>,
): ManagerView[] {
  const by = labels[managedByLabel]
  const byTools = signs.flatMap(({ tool, labels: ofLabels = [], annotations: ofAnnotations = [], managedBy }) => {
    const [evidence] = [
      ...ofLabels.filter((name) => labels[name] !== undefined).map((name) => marked('label', name, labels)),
      ...ofAnnotations
        .filter((name) => annotations[name] !== undefined)
        .map((name) => marked('annotation', name, annotations)),
      ...(by !== undefined && managedBy?.test(by) === true ? [marked('label', managedByLabel, labels)] : []),
    ]
    return evidence === undefined ? [] : [{ object, tool, evidence }]
  })
  const owners = ownerReferences
    .filter(({ controller }) => controller === true)
    .map(({ kind, name }) => ({ object, tool: said(`${kind} ${name}`), evidence: 'its owner' }))
  return [...byTools, ...owners]
}

const marked = (what: string, name: string, values: Readonly<Record<string, string>>): string =>
  said(`${what} ${name}: ${values[name] ?? ''}`)

const said = (text: string): string => sentence(text, maxEvidenceBytes)

/** What goes with the service where it is deleted. Throws LinkError where the cluster does not tell. */
export async function deletion(api: KubeApi, service: ServiceRef, isShown: boolean): Promise<DeletionView> {
  const key = refKey(service)
  if (!isShown) throw new LinkError('refused', `This machine knows no InferenceService ${key}.`)
  try {
    return deletionViewOf(await planDeletion(api, service))
  } catch (error) {
    if (!isApiError(error)) throw error
    const words = error.code === undefined ? `the cluster does not answer (${rootMessage(error)})` : error.detail
    throw new LinkError('refused', `It is not known what would be deleted with ${key}: ${words}.`, { cause: error })
  }
}
