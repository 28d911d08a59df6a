import type { ServiceRef } from '../../contract/commands.ts'
import { ApiError, isApiError } from '../kube/api-error.ts'
import type { Cluster } from '../kube/cluster.ts'
import {
  parseInferenceService,
  resources,
  type InferenceService,
  type InferenceServiceSpec,
  type ObjectMeta,
} from '../kube/resources.ts'

/** How many replicas there were before a stop that had to scale to zero. */
export const replicasBeforeStop = 'metalbar.dev/replicas-before-stop'

/** With this label `spec.suspend` is Kueue's: it is how a queue holds a workload back and lets it go. */
export const kueueQueue = 'kueue.x-k8s.io/queue-name'

/** Others write the same object all the time; each attempt reads it anew. */
const maxAttempts = 10

interface Patch {
  /** Null removes. */
  readonly annotations?: Readonly<Record<string, string | null>>
  readonly spec: Partial<Pick<InferenceServiceSpec, 'suspend' | 'replicas'>>
}

/** The change to the object, or undefined where it is in that state already. */
type Change = (metadata: ObjectMeta, spec: InferenceServiceSpec) => Patch | undefined

export interface ClusterChange {
  readonly changed: boolean
  /** As the cluster has it now. */
  readonly service: InferenceService
}

/** Suspends it; where that is not ours to do or the cluster's schema does not know it, scales to zero. Throws ApiError. */
export async function stopInCluster(cluster: Cluster, ref: ServiceRef): Promise<ClusterChange> {
  const suspended = await change(cluster, ref, suspension)
  // An older definition of InferenceService drops the field without a word.
  return isStopped(suspended.service) ? suspended : change(cluster, ref, scalingToZero)
}

/** Undoes a stop, ours or another's, and makes zero replicas one. Throws ApiError. */
export function startInCluster(cluster: Cluster, ref: ServiceRef): Promise<ClusterChange> {
  return change(cluster, ref, resumption)
}

export const isKueues = ({ labels }: ObjectMeta): boolean => labels[kueueQueue] !== undefined

function isStopped({ metadata, spec }: InferenceService): boolean {
  return spec.value.replicas === 0 || (spec.value.suspend && !isKueues(metadata))
}

const suspension: Change = (metadata, { suspend, replicas }) =>
  isKueues(metadata) || suspend || replicas === 0 ? undefined : { spec: { suspend: true } }

const scalingToZero: Change = (_metadata, { replicas }) =>
  replicas === 0 ? undefined : { annotations: { [replicasBeforeStop]: String(replicas) }, spec: { replicas: 0 } }

const resumption: Change = (metadata, { suspend, replicas }) => {
  const kept = metadata.annotations[replicasBeforeStop]
  const mustResume = suspend && !isKueues(metadata)
  if (!mustResume && replicas > 0) return undefined
  return {
    ...(kept !== undefined && { annotations: { [replicasBeforeStop]: null } }),
    spec: { ...(mustResume && { suspend: false }), ...(replicas === 0 && { replicas: replicasIn(kept) }) },
  }
}

/** Other writers may have set the annotation, so its value is not trusted. */
const replicasIn = (text = ''): number => (/^([1-9]|10)$/.test(text) ? Number(text) : 1)

/** Reads the object and writes it with the resourceVersion read as precondition. */
async function change(cluster: Cluster, { namespace, name }: ServiceRef, wanted: Change): Promise<ClusterChange> {
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
