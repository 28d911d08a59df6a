import type { EndpointSlice } from '../kube/resources.ts'
import type { PublishedPorts } from '../servers/ports.ts'
import { keyOf } from '../util/object-key.ts'
import { holderOf } from './claim-text.ts'
import { annotations, labels, ownerOf } from './objects.ts'
import { publishedOf } from './slice-object.ts'

/** Where pods are sent to the machine `node`, by these slices, seen from the service `key`. */
export function publishedPorts(key: string, slices: Iterable<EndpointSlice>, node: string): PublishedPorts {
  const besides = new Set<number>()
  let own: number | undefined
  for (const slice of slices) {
    const { namespace, annotations: told, labels: named } = slice.metadata
    const published = publishedOf(slice)
    if (holderOf(told[annotations.claim]) !== node || published?.ready !== true) continue
    const isOwn = keyOf(namespace, named[labels.inferenceService] ?? ownerOf(slice)?.name ?? '') === key
    if (isOwn) own = published.port
    else besides.add(published.port)
  }
  return { own, besides }
}
