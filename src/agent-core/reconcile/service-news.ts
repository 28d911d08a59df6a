import { isDeepStrictEqual } from 'node:util'
import type { InferenceService } from '../kube/resources.ts'
import { isOurCondition } from '../kube/status-writer.ts'

/**
 * LLMKube's controller writes the status anew after every heartbeat, mostly with other times alone. Where nothing that is read here
 * changed, it is no reason to look at the service again.
 */
export function isOnlyStatusNoise(before: InferenceService | undefined, after: InferenceService | undefined): boolean {
  return before !== undefined && after !== undefined && isDeepStrictEqual(essence(before), essence(after))
}

function essence({ metadata, spec, status }: InferenceService): object {
  const { phase, readyReplicas, desiredReplicas, schedulingStatus } = status
  return {
    metadata: { ...metadata, resourceVersion: '', managedFields: [] },
    spec,
    status: { phase, readyReplicas, desiredReplicas, schedulingStatus },
    conditions: status.conditions.filter(({ type }) => isOurCondition(type)),
  }
}
