import type { EndpointSlice } from '../../agent-core/kube/resources.ts'
import { isClaim, parseClaim } from '../../agent-core/publishing/objects.ts'
import { annotations, heartbeatOf } from '../../agent-core/publishing/objects.ts'

/** Whether an agent of ours wrote it last: a Go agent leaves the claim where it is and writes a heartbeat of its own. */
export function isHeldByOurs(slice: EndpointSlice): boolean {
  const claim = parseClaim(slice.metadata.annotations[annotations.claim])
  return claim !== undefined && isClaim(claim) && claim.heartbeat === heartbeatOf(slice)
}
