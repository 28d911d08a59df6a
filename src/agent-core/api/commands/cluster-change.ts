import type { ServiceRef } from '../../../contract/commands.ts'
import { ApiError, isApiError } from '../../kube/api-error.ts'
import type { Cluster } from '../../kube/cluster.ts'
import {
  parseInferenceService,
  resources,
  type InferenceService,
  type InferenceServiceSpec,
  type ObjectMeta,
} from '../../kube/resources.ts'

/** Others write the same object all the time; each attempt reads it anew. */
const maxAttempts = 10

interface Patch {
  /** Null removes. */
  readonly annotations?: Readonly<Record<string, string | null>>
  readonly spec: Partial<Pick<InferenceServiceSpec, 'suspend' | 'replicas'>> & { readonly contextSize?: number | null }
}

/** The change to the object, or undefined where it is in that state already. */
export type Change = (metadata: ObjectMeta, spec: InferenceServiceSpec) => Patch | undefined

export interface ClusterChange {
  readonly changed: boolean
  /** As the cluster has it now. */
  readonly service: InferenceService
}

/** Reads the object and writes it with the resourceVersion read as precondition. */
export async function changeInCluster(
  cluster: Cluster,
  { namespace, name }: ServiceRef,
  wanted: Change,
): Promise<ClusterChange> {
  const { api, inferenceServices } = cluster
  for (let attempt = 1; ; attempt += 1) {
    const service = parseInferenceService(await api.get(resources.inferenceServices, namespace, name))
    if (!service.spec.ok) throw new ApiError(service.spec.message, { code: 422 })
    const patch = wanted(service.metadata, service.spec.value)
    if (!patch) return { changed: false, service }
    const { uid, resourceVersion } = service.metadata
    const { annotations, spec } = patch
    const body = { metadata: { uid, resourceVersion, ...(annotations && { annotations }) }, spec }
    try {
      const answer = await api.mergePatch(resources.inferenceServices, namespace, name, body)
      const written = parseInferenceService(answer)
      inferenceServices.upsert(written)
      return { changed: true, service: written }
    } catch (error) {
      if (!isApiError(error, 409) || attempt === maxAttempts) throw error
    }
  }
}
