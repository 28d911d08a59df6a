import { isDeepStrictEqual } from 'node:util'
import type { EndpointSlice } from '../kube/resources.ts'
import { annotations } from './objects.ts'
import { heartbeatOf } from './slice-object.ts'

/** The claim was renewed and nothing else happened: no reason to look at the service again. */
export function isOnlyHeartbeat(before: EndpointSlice | undefined, after: EndpointSlice | undefined): boolean {
  return before !== undefined && after !== undefined && isDeepStrictEqual(essence(before), essence(after))
}

function essence(slice: EndpointSlice): object {
  const heartbeat = heartbeatOf(slice)
  const claim = slice.metadata.annotations[annotations.claim]?.replace(heartbeat, '')
  const told = { ...slice.metadata.annotations, [annotations.heartbeat]: '', [annotations.claim]: claim }
  return { ...slice, metadata: { ...slice.metadata, annotations: told, resourceVersion: '', managedFields: [] } }
}
