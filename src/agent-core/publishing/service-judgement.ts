import type { Service } from '../kube/resources.ts'
import { isOwnedBy, labels, managedBy, type PublishTarget } from './objects.ts'

export type ServiceJudgement =
  | { readonly kind: 'absent' }
  | { readonly kind: 'ours' }
  /** A foreign Service: nothing is published beside it. */
  | { readonly kind: 'taken'; readonly message: string }

/** Whether the Service under our name may be written: ours, or left by an agent for the same InferenceService. */
export function judgeService(service: Service | undefined, target: PublishTarget): ServiceJudgement {
  if (!service) return { kind: 'absent' }
  const { metadata, spec } = service
  const controller = metadata.ownerReferences.find((reference) => reference.controller === true)
  const madeFor = metadata.labels[labels.inferenceService]
  if (controller) return taken(service, `is managed by ${controller.kind} ${controller.name}`)
  if (Object.keys(spec.selector ?? {}).length > 0) return taken(service, 'selects Pods of its own')
  if (spec.type === 'ExternalName') return taken(service, 'points to an external name')
  if (madeFor !== undefined && madeFor !== target.name) {
    return {
      kind: 'taken',
      message: `Service ${metadata.namespace}/${metadata.name} belongs to InferenceService ${madeFor}, whose name maps to the same Service; rename one of the two.`,
    }
  }
  if (metadata.labels[labels.managedBy] !== managedBy && !isOwnedBy(service, target)) {
    return taken(service, 'was not made by an agent')
  }
  return { kind: 'ours' }
}

const taken = ({ metadata: { namespace, name } }: Service, why: string): ServiceJudgement => ({
  kind: 'taken',
  message: `Service ${namespace}/${name} has the name this InferenceService needs but ${why}; delete it (kubectl -n ${namespace} delete service ${name}) or rename the InferenceService.`,
})
