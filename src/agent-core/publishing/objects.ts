import type { ObjectMeta, OwnerReference } from '../kube/resources.ts'
import type { Claim } from './claim-text.ts'

/** Which InferenceService is published, and as what; `endpointPort` is `spec.endpoint.port`. */
export interface PublishTarget {
  readonly namespace: string
  readonly name: string
  /** Of the InferenceService. */
  readonly uid: string
  readonly endpointPort: number | undefined
}

/** Where a server listens. */
export interface Address {
  /** IPv4. */
  readonly address: string
  readonly port: number
}

/** What pods are told. */
export interface Published extends Address {
  readonly ready: boolean
}

export interface ServicePort {
  readonly name: 'http' | 'endpoint'
  readonly port: number
}

/** Everything that the three objects say. */
export interface Publication {
  readonly namespace: string
  readonly name: string
  readonly uid: string
  readonly serviceName: string
  readonly servicePorts: readonly ServicePort[]
  /** Undefined while there is a claim but no server yet. */
  readonly published: Published | undefined
  /** RFC 3339, whole seconds, in the API server's time. */
  readonly heartbeat: string
  /** Empty = not stated. */
  readonly agentVersion: string
  /** Undefined = released: any agent may take the slice. */
  readonly claim: Claim | undefined
  /** Our node id, which a release leaves. */
  readonly releasedBy?: string
}

export const labels = {
  app: 'app',
  managedBy: 'llmkube.ai/managed-by',
  inferenceService: 'llmkube.ai/inference-service',
  serviceName: 'kubernetes.io/service-name',
  skipMirror: 'endpointslice.kubernetes.io/skip-mirror',
  accelerator: 'llmkube.dev/accelerator',
} as const

/** The value of the `managed-by` label, and so the selector of the watches on Services and EndpointSlices. */
export const managedBy = 'metal-agent'

export const annotations = {
  heartbeat: 'llmkube.ai/agent-heartbeat',
  agentVersion: 'llmkube.ai/agent-version',
  metalAccelerated: 'llmkube.ai/metal-accelerated',
  nativeProcess: 'llmkube.ai/native-process',
  claim: 'metalbar.dev/claim',
} as const

const owner = {
  apiVersion: 'inference.llmkube.dev/v1alpha1',
  group: 'inference.llmkube.dev/',
  kind: 'InferenceService',
}

const defaultServicePort = 8080

/** Service, EndpointSlice and Endpoints all carry this name; LLMKube looks for it there. */
export const serviceNameOf = (inferenceService: string): string => inferenceService.replaceAll('.', '-')

/** As pods reach it, where the cluster's domain is the usual one. */
export const urlForPods = (namespace: string, inferenceService: string): string =>
  `http://${serviceNameOf(inferenceService)}.${namespace}.svc.cluster.local:${defaultServicePort}`

/** LLMKube's controller and gateway address the port that the spec names; all other clients use 8080. */
export const servicePortsOf = (endpointPort: number | undefined): readonly ServicePort[] => [
  { name: 'http', port: defaultServicePort },
  ...(endpointPort === undefined || endpointPort === defaultServicePort
    ? []
    : [{ name: 'endpoint' as const, port: endpointPort }]),
]

/** Seconds precision, as LLMKube's controller parses it. */
export const heartbeatAt = (epochMs: number): string => `${new Date(epochMs).toISOString().slice(0, 19)}Z`

export interface MergePatch {
  readonly metadata: object
  readonly [field: string]: unknown
}

export interface Owned {
  readonly metadata: { readonly ownerReferences: readonly OwnerReference[] }
}

/** The InferenceService an object of ours was made for; undefined where it names none. */
export function ownerOf({ metadata }: Owned): { readonly name: string; readonly uid: string } | undefined {
  const found = metadata.ownerReferences.find(isInferenceService)
  return found && { name: found.name, uid: found.uid }
}

/** What to publish or remove for an object found in the cluster, also when its InferenceService is gone. */
export function targetOf(
  object: Owned & { readonly metadata: { readonly namespace: string } },
): PublishTarget | undefined {
  const found = ownerOf(object)
  return found && { namespace: object.metadata.namespace, ...found, endpointPort: undefined }
}

export const isOwnedBy = ({ metadata }: Owned, { uid }: { readonly uid: string }): boolean =>
  metadata.ownerReferences.some((reference) => isInferenceService(reference) && reference.uid === uid)

/** `a.b` and `a-b` share one Service name: the older one has it. Returns the name that stands in the way. */
export function collidesWith(target: Named, others: Iterable<Named>): string | undefined {
  for (const other of others) {
    if (
      other.namespace === target.namespace &&
      other.name !== target.name &&
      serviceNameOf(other.name) === serviceNameOf(target.name) &&
      isBefore(other, target)
    ) {
      return other.name
    }
  }
  return undefined
}

type Named = Pick<ObjectMeta, 'namespace' | 'name' | 'creationTimestamp'>

function isBefore(one: Named, other: Named): boolean {
  const [a, b] = [one.creationTimestamp ?? '', other.creationTimestamp ?? '']
  return a === b ? one.name < other.name : a < b
}

export const commonLabels = ({ name }: Publication): Readonly<Record<string, string>> => ({
  [labels.app]: name,
  [labels.managedBy]: managedBy,
  [labels.inferenceService]: name,
})

/** Not a controller reference: it only lets the cluster clean up when the InferenceService goes while we are away. */
export const ownerReferenceOf = ({ name, uid }: Publication): OwnerReference => ({
  apiVersion: owner.apiVersion,
  kind: owner.kind,
  name,
  uid,
  controller: false,
  blockOwnerDeletion: false,
})

/** A merge patch replaces lists whole: other owners stay, an InferenceService that is gone does not. */
export const ownerReferencesWith = (
  publication: Publication,
  { ownerReferences }: Owned['metadata'],
): readonly OwnerReference[] => [
  ...ownerReferences.filter((reference) => !isInferenceService(reference)),
  ownerReferenceOf(publication),
]

const isInferenceService = ({ apiVersion, kind }: OwnerReference): boolean =>
  kind === owner.kind && apiVersion.startsWith(owner.group)

export const holds = (actual: Readonly<Record<string, string>>, wanted: Readonly<Record<string, string>>): boolean =>
  Object.entries(wanted).every(([key, value]) => actual[key] === value)
