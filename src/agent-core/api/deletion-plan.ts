import type { ServiceRef } from '../../contract/commands.ts'
import { createdBy, type DeletionView, type ManagerView } from '../../contract/model-application.ts'
import { isApiError } from '../kube/api-error.ts'
import type { KubeApi } from '../kube/kube-api.ts'
import {
  parseInferenceService,
  parseModel,
  readable,
  resources,
  type InferenceService,
  type KubeObject,
  type Model,
} from '../kube/resources.ts'
import { refKey } from '../util/object-key.ts'
import { managersOf } from './managers.ts'

/** What goes with an InferenceService, as the cluster has it now. */
export interface DeletionPlan {
  readonly service: InferenceService
  readonly model: PlannedModel | undefined
  readonly managers: readonly ManagerView[]
}

export interface PlannedModel {
  readonly object: Model
  readonly isDeleted: boolean
  /** Why it goes, or stays: one sentence. */
  readonly message: string
}

/** Throws ApiError. */
export async function planDeletion(api: KubeApi, { namespace, name }: ServiceRef): Promise<DeletionPlan> {
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

/** Of the service, which may be gone already; undefined where there is no Model. Throws ApiError. */
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
    message: `The Model ${modelRef} goes with it, since no other service uses it; what was downloaded stays on this machine.`,
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

export function deletionViewOf({ service, model, managers }: DeletionPlan): DeletionView {
  const key = refKey(service.metadata)
  const [manager] = managers
  const comesBack =
    manager === undefined
      ? []
      : [`${manager.tool} keeps ${nameOf(manager)} (${manager.evidence}) and will bring it back: delete it there.`]
  return {
    uid: service.metadata.uid,
    ...(model && {
      model: { name: model.object.metadata.name, isDeleted: model.isDeleted, message: model.message },
    }),
    managers: [...managers],
    message: [
      ...comesBack,
      `The InferenceService ${key} is deleted in the cluster, on whatever machine it is served.`,
      ...(model ? [model.message] : []),
    ].join(' '),
  }
}

const nameOf = ({ object }: ManagerView): string => (object === 'Model' ? 'its Model' : 'it')
