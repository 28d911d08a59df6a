import type { ServiceRef } from '../../../contract/commands.ts'
import type { Cluster } from '../../kube/cluster.ts'
import type { InferenceService, ObjectMeta } from '../../kube/resources.ts'
import { changeInCluster, type Change, type ClusterChange } from './cluster-change.ts'

/** How many replicas there were before a stop that had to scale to zero. */
export const replicasBeforeStop = 'metalbar.dev/replicas-before-stop'

/** With this label `spec.suspend` is Kueue's: it is how a queue holds a workload back and lets it go. */
export const kueueQueue = 'kueue.x-k8s.io/queue-name'

/** Suspends it; where that is not ours to do or the cluster's schema does not know it, scales to zero. Throws ApiError. */
export async function stopInCluster(cluster: Cluster, ref: ServiceRef): Promise<ClusterChange> {
  const suspended = await changeInCluster(cluster, ref, suspension)
  // An older definition of InferenceService drops the field without a word.
  return isStopped(suspended.service) ? suspended : changeInCluster(cluster, ref, scalingToZero)
}

/** Undoes a stop, ours or another's, and makes zero replicas one. Throws ApiError. */
export function startInCluster(cluster: Cluster, ref: ServiceRef): Promise<ClusterChange> {
  return changeInCluster(cluster, ref, resumption)
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
