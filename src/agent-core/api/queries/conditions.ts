import { sentence } from '../../../contract/clean-text.ts'
import { LinkError } from '../../../contract/client.ts'
import type { ServiceRef } from '../../../contract/commands.ts'
import type { ConditionView } from '../../../contract/queries.ts'
import type { Cluster } from '../../kube/cluster.ts'
import type { Condition } from '../../kube/resources.ts'

const maxConditions = 50
/** Kubernetes' own limit of a condition's type and reason is about this. */
const maxWordBytes = 320
const maxMessageBytes = 1_024

/** What everybody says of an InferenceService in its status, as last heard of the cluster. Throws LinkError where there is none. */
export function conditions(
  { inferenceServices }: Pick<Cluster, 'inferenceServices'>,
  { namespace, name }: ServiceRef,
): { conditions: ConditionView[] } {
  const service = inferenceServices.get(namespace, name)
  if (!service) throw new LinkError('refused', `The cluster has no InferenceService ${namespace}/${name}.`)
  return { conditions: service.status.conditions.slice(0, maxConditions).map(viewOf) }
}

function viewOf({ type, status, reason, message, lastTransitionTime }: Condition): ConditionView {
  const since = Date.parse(lastTransitionTime ?? '')
  return {
    type: sentence(type, maxWordBytes),
    status: sentence(status, maxWordBytes),
    reason: sentence(reason, maxWordBytes),
    message: sentence(message, maxMessageBytes),
    ...(!Number.isNaN(since) && { since: new Date(since).toISOString() }),
  }
}
