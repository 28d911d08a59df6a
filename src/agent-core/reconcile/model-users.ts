import { keyOf } from '../util/object-key.ts'
import type { Cluster } from '../kube/cluster.ts'
import type { ModelUser } from '../models/store/inventory.ts'
import { selectionDigest } from '../models/selection.ts'
import { parseModelSource } from '../models/source.ts'

/** Which services have their model in the store, or will; undefined while the services are not listed yet. */
export function modelUsers(cluster: Cluster | undefined): ModelUser[] | undefined {
  if (cluster?.synced !== true) return undefined
  return [...cluster.inferenceServices.values()].flatMap(({ metadata, spec }) => {
    const { modelRef, speculativeDecoding: { draftModelRef = '' } = {} } = spec.value
    return [...new Set([modelRef, draftModelRef])].flatMap((name) => {
      const model = cluster.models.get(metadata.namespace, name)
      if (!model) return []
      const source = parseModelSource(model.spec.value.source)
      return [
        {
          service: keyOf(metadata.namespace, metadata.name),
          model: model.metadata.name,
          digest: selectionDigest(model.spec.value),
          ...(source.kind === 'local' && { path: source.path }),
          isActive: !spec.value.suspend && spec.value.replicas > 0,
        },
      ]
    })
  })
}
