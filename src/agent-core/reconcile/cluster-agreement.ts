import type { InferenceService, Model } from '../kube/resources.ts'

/** What the cluster makes of a service that this machine publishes; only LLMKube's controller writes the phase. */
export type ClusterAgreement =
  | { readonly kind: 'agrees' }
  /** Nothing is known to stand in the way: the controller may only need a moment. */
  | { readonly kind: 'pending'; readonly message: string }
  /** It will not agree before a person changes something. */
  | { readonly kind: 'disagrees'; readonly message: string }
  | { readonly kind: 'noController'; readonly message: string }

export function clusterAgreement(service: InferenceService | undefined, model: Model | undefined): ClusterAgreement {
  const phase = service?.status.phase ?? ''
  if (phase === 'Ready') return { kind: 'agrees' }
  if (phase === '') {
    const message = 'No controller seen: nobody in the cluster has written the status of this service.'
    return { kind: 'noController', message }
  }
  const replicas = service?.spec.value.replicas ?? 1
  if (replicas > 1) {
    const message = `One Mac serves one replica, and ${replicas} are asked for: the cluster stays at ${phase}. Set replicas to 1.`
    return { kind: 'disagrees', message }
  }
  if (model !== undefined && model.status.phase !== 'Ready') {
    const message = `The cluster's controller does not call Model ${model.metadata.name} ready (${model.status.phase || 'no phase'}) and ignores this address until it does; for a local path it needs --allowed-host-path-roots.`
    return { kind: 'disagrees', message }
  }
  return { kind: 'pending', message: `The cluster still says ${phase}.` }
}

/** The controller gets so long to take up what is published or withdrawn. */
export const disagreementAfterMs = 60_000

/** The sentence for a person where the cluster's status goes on contradicting this machine; undefined where it does not. */
export function disagreement(
  isPublished: boolean,
  service: InferenceService | undefined,
  model: Model | undefined,
): string | undefined {
  const agreement = clusterAgreement(service, model)
  if (!isPublished) {
    return agreement.kind === 'agrees' ? 'The cluster still says Ready, although nothing is published here.' : undefined
  }
  return agreement.kind === 'pending' || agreement.kind === 'disagrees' ? agreement.message : undefined
}
