import type { EndpointSlice } from '../kube/resources.ts'
import { keyOf } from '../support/object-key.ts'
import { holderOf } from './claim-text.ts'
import { annotations, labels, ownerOf } from './objects.ts'
import { publishedOf } from './slice-object.ts'

/** Where pods are sent to the machine `node` for other services than `key`, by these slices. */
export function portsBesides(key: string, slices: Iterable<EndpointSlice>, node: string): ReadonlySet<number> {
  const ports = new Set<number>()
  for (const slice of slices) {
    const { namespace, annotations: told, labels: named } = slice.metadata
    const published = publishedOf(slice)
    if (holderOf(told[annotations.claim]) !== node || published?.ready !== true) continue
    if (keyOf(namespace, named[labels.inferenceService] ?? ownerOf(slice)?.name ?? '') !== key)
      ports.add(published.port)
  }
  return ports
}
