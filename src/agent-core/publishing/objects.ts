import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import type { EndpointSlice, ObjectMeta, OwnerReference, Service } from '../kube/resources.ts'
import type { PublishedPorts } from '../servers/ports.ts'
import { parseJson } from '../util/files.ts'
import { keyOf } from '../util/object-key.ts'
import { isIpv6 } from '../../contract/addresses.ts'

/** Which InferenceService is published, and as what; `endpointPort` is `spec.endpoint.port`. */
export interface PublishTarget {
  readonly namespace: string
  readonly name: string
  /** The uid of the InferenceService. */
  readonly uid: string
  readonly endpointPort: number | undefined
}

/** Where a server listens. */
interface Address {
  /** Of IPv4 or IPv6. */
  readonly address: string
  readonly port: number
}

/** What pods are told. */
export interface Published extends Address {
  readonly ready: boolean
  /** Behind the ingress: where the server listens on this machine. */
  readonly enginePort?: number
}

interface ServicePort {
  readonly name: 'http' | 'endpoint' | 'https'
  readonly port: number
  /** Absent = the port at which the service was published first: it informs people, since kube-proxy goes by the slice. */
  readonly targetPort?: number
}

/** Under which names and at which ports a service is published. */
export interface Naming {
  readonly nameOf: (inferenceService: string) => string
  readonly servicePortsOf: (endpointPort: number | undefined) => readonly ServicePort[]
  /** What the slice of the service says besides. */
  readonly annotations: (target: PublishTarget) => Readonly<Record<string, string>>
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
  /** Annotations of the slice besides those that every agent writes. */
  readonly annotations: Readonly<Record<string, string>>
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
  sliceController: 'endpointslice.kubernetes.io/managed-by',
} as const

/** Kubernetes' own, for Services that select Pods, and for Endpoints. */
export const sliceControllers = ['endpointslice-controller.k8s.io', 'endpointslicemirroring-controller.k8s.io'] as const

/** The value of the `managed-by` label, and so the selector of the watches on Services and EndpointSlices. */
export const managedBy = 'metal-agent'

export const annotations = {
  heartbeat: 'llmkube.ai/agent-heartbeat',
  agentVersion: 'llmkube.ai/agent-version',
  metalAccelerated: 'llmkube.ai/metal-accelerated',
  nativeProcess: 'llmkube.ai/native-process',
  ingressPin: 'llmkube.ai/agent-ingress-spki',
  enginePort: 'llmkube.ai/agent-engine-port',
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

/** Pods ask this machine themselves. */
export const directNaming: Naming = {
  nameOf: serviceNameOf,
  servicePortsOf,
  annotations: () => ({}),
}

const relayServicePort = 8443

/** The name of the Service and the EndpointSlice by which LLMKube's relay finds the ingress. */
export const relayNameOf = (inferenceService: string): string => `${serviceNameOf(inferenceService)}-agent`

/** LLMKube's relay asks the ingress of this machine. `pin` gives the pin of its certificate, or undefined if the slice must not have one. */
export const relayNaming = (port: () => number, pin: (target: PublishTarget) => string | undefined): Naming => ({
  nameOf: relayNameOf,
  servicePortsOf: () => [{ name: 'https', port: relayServicePort, targetPort: port() }],
  annotations: (target) => {
    const known = pin(target)
    return known === undefined ? {} : { [annotations.ingressPin]: known }
  },
})

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
      serviceNameOf(other.name) === serviceNameOf(target.name) &&
      isBefore(other, target)
    ) {
      return other.name
    }
  }
  return undefined
}

type Named = Pick<ObjectMeta, 'namespace' | 'name' | 'creationTimestamp'>

/** One is never before itself. */
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

export const sliceBody = (publication: Publication): object => ({
  metadata: {
    name: publication.serviceName,
    namespace: publication.namespace,
    labels: sliceLabels(publication),
    annotations: sliceAnnotations(publication),
    ownerReferences: [ownerReferenceOf(publication)],
  },
  addressType: addressTypeOf(publication),
  ...sliceContent(publication),
})

const addressTypeOf = ({ published }: Pick<Publication, 'published'>): 'IPv4' | 'IPv6' =>
  published && isIpv6(published.address) ? 'IPv6' : 'IPv4'

/** A slice has addresses of one type, which cannot be changed: for another one it is deleted and made again. */
export const isOfOtherType = ({ addressType }: EndpointSlice, publication: Publication): boolean =>
  publication.published !== undefined && addressType !== addressTypeOf(publication)

export const slicePatch = (publication: Publication, current: EndpointSlice): MergePatch => ({
  metadata: {
    labels: sliceLabels(publication),
    annotations: {
      ...sliceAnnotations(publication),
      // After a release a pin would keep LLMKube's controller at a relay that is no longer ready.
      ...(publication.claim === undefined &&
        annotations.ingressPin in current.metadata.annotations && { [annotations.ingressPin]: null }),
    },
    ownerReferences: ownerReferencesWith(publication, current.metadata),
  },
  ...sliceContent(publication),
})

/** Says that the holder lives, and nothing about its server. */
export const heartbeatPatch = (publication: Publication, current: EndpointSlice): MergePatch => ({
  metadata: slicePatch(publication, current).metadata,
})

/** Takes a dead agent's address out of service; the claim stays for an agent that can serve. */
export const withdrawPatch = (current: EndpointSlice): MergePatch => ({
  metadata: {},
  endpoints: current.endpoints.map(({ addresses }) => ({ addresses, conditions: { ready: false } })),
})

/** True where a write would change nothing but the heartbeat. */
export const sliceIsCurrent = (slice: EndpointSlice, publication: Publication): boolean =>
  sliceShows(slice, publication, stateOf(publication))

/** Whether the slice shows pods `state`, and is labelled and owned as for `publication`. */
export function sliceShows(slice: EndpointSlice, publication: Publication, state: PublishedState): boolean {
  const { agentVersion } = publication
  return (
    holds(slice.metadata.labels, sliceLabels(publication)) &&
    holds(slice.metadata.annotations, publication.annotations) &&
    (agentVersion === '' || slice.metadata.annotations[annotations.agentVersion] === agentVersion) &&
    isOwnedBy(slice, publication) &&
    isDeepStrictEqual(stateIn(slice), state)
  )
}

/** What a slice tells pods, as far as it is compared. */
export interface PublishedState {
  readonly published: Published | undefined
  readonly addresses: number
  readonly ports: readonly { readonly name: string | null | undefined; readonly port: number | null | undefined }[]
}

export const stateIn = (slice: EndpointSlice): PublishedState => ({
  published: publishedOf(slice),
  addresses: slice.endpoints.length,
  ports: slice.ports.map(({ name, port }) => ({ name, port })),
})

export function stateOf({ published, servicePorts }: Pick<Publication, 'published' | 'servicePorts'>): PublishedState {
  if (!published) return { published, addresses: 0, ports: [] }
  const { address, port, ready, enginePort } = published
  return {
    published: { address, port, ready, ...(enginePort !== undefined && { enginePort }) },
    addresses: 1,
    ports: servicePorts.map(({ name }) => ({ name, port })),
  }
}

export const heartbeatOf = ({ metadata }: EndpointSlice): string => metadata.annotations[annotations.heartbeat] ?? ''

/** What the slice tells pods; undefined where it names no address. An absent `ready` counts as ready, as for every reader. */
export function publishedOf(slice: EndpointSlice): Published | undefined {
  const [endpoint] = slice.endpoints
  const address = endpoint?.addresses[0]
  const port = slice.ports[0]?.port
  if (!endpoint || address === undefined || port == null) return undefined
  const enginePort = Number(slice.metadata.annotations[annotations.enginePort])
  return {
    address,
    port,
    ready: endpoint.conditions?.ready !== false,
    ...(enginePort > 0 && { enginePort }),
  }
}

const sliceLabels = (publication: Publication): Readonly<Record<string, string>> => ({
  [labels.serviceName]: publication.serviceName,
  ...commonLabels(publication),
})

const sliceAnnotations = ({
  heartbeat,
  agentVersion,
  claim,
  releasedBy,
  published,
  annotations: others,
}: Publication): Readonly<Record<string, string>> => ({
  ...others,
  ...(published?.enginePort !== undefined && { [annotations.enginePort]: String(published.enginePort) }),
  [annotations.heartbeat]: heartbeat,
  ...(agentVersion === '' ? {} : { [annotations.agentVersion]: agentVersion }),
  [annotations.claim]: claimText(claim ?? { heartbeat, releasedBy }),
})

const sliceContent = ({ name, published, servicePorts }: Publication) =>
  published === undefined
    ? { endpoints: [], ports: [] }
    : {
        endpoints: [
          {
            addresses: [published.address],
            conditions: { ready: published.ready },
            targetRef: { kind: 'Pod', name: `${name}-metal` },
          },
        ],
        ports: servicePorts.map((port) => ({ name: port.name, port: published.port, protocol: 'TCP' })),
      }

export const serviceBody = (publication: Publication): object => ({
  metadata: {
    name: publication.serviceName,
    namespace: publication.namespace,
    labels: commonLabels(publication),
    annotations: serviceAnnotations,
    ownerReferences: [ownerReferenceOf(publication)],
  },
  spec: { type: 'ClusterIP', ports: servicePortList(publication, undefined) },
})

/** Only what is ours: a merge patch leaves labels and annotations of others alone. */
export const servicePatch = (publication: Publication, current: Service): MergePatch => ({
  metadata: {
    labels: commonLabels(publication),
    annotations: serviceAnnotations,
    ownerReferences: ownerReferencesWith(publication, current.metadata),
  },
  spec: {
    ports: servicePortList(publication, current),
    ...(Object.keys(current.spec.selector ?? {}).length > 0 && { selector: null }),
  },
})

export function serviceIsCurrent(service: Service, publication: Publication): boolean {
  const wanted = servicePortList(publication, service)
  const { ports } = service.spec
  return (
    holds(service.metadata.labels, commonLabels(publication)) &&
    holds(service.metadata.annotations, serviceAnnotations) &&
    isOwnedBy(service, publication) &&
    Object.keys(service.spec.selector ?? {}).length === 0 &&
    ports.length === wanted.length &&
    wanted.every(({ name, port }, index) => ports[index]?.name === name && ports[index].port === port) &&
    publication.servicePorts.every(
      ({ targetPort }, index) => targetPort === undefined || ports[index]?.targetPort === targetPort,
    )
  )
}

const serviceAnnotations = { [annotations.metalAccelerated]: 'true', [annotations.nativeProcess]: 'true' }

const servicePortList = ({ servicePorts, published }: Publication, current: Service | undefined) =>
  servicePorts.map(({ name, port, targetPort: wanted }) => {
    const known = current?.spec.ports.find((one) => one.name === name)?.targetPort
    const targetPort = wanted ?? known ?? published?.port
    return { name, port, protocol: 'TCP', ...(targetPort === undefined ? {} : { targetPort }) }
  })

const claim = z.object({
  /** The random id of an agent's state folder. */
  node: z.string().min(1),
  /** Rises by one with every take-over. */
  epoch: z.number().int().min(0),
  /** The slice's heartbeat as it was written together with this claim. */
  heartbeat: z.string(),
  /** How people call that machine. */
  displayName: z.string().optional(),
})
export type Claim = z.infer<typeof claim>

const released = z.strictObject({
  /** The slice's heartbeat when the claim was given up. */
  heartbeat: z.string(),
  /** The node id of the agent that gave it up, by which an uninstall knows its own; absent where none of ours did. */
  releasedBy: z.string().min(1).optional(),
})
type Released = z.infer<typeof released>

/** The value of the annotation `metalbar.dev/claim`. */
export const claimText = (claim: Claim | Released): string => JSON.stringify(claim)

/** What the annotation says; text that is no claim counts as none: an agent that knows no claims wrote it. */
export function parseClaim(text: string | undefined): Claim | Released | undefined {
  if (text === undefined) return undefined
  const json = parseJson(text)
  return claim.safeParse(json).data ?? released.safeParse(json).data
}

export const isClaim = (found: Claim | Released): found is Claim => 'node' in found

/** The node id of the agent that holds the claim. */
export function holderOf(text: string | undefined): string | undefined {
  const found = parseClaim(text)
  return found && isClaim(found) ? found.node : undefined
}

/** Where pods are sent to the machine `node` for services that are ready, by slices of any machine. */
export function publishedBy(
  node: string,
  slices: Iterable<EndpointSlice>,
): readonly { readonly key: string; readonly published: Published }[] {
  return [...slices].flatMap((slice) => {
    const { namespace, annotations: written, labels: named } = slice.metadata
    const published = publishedOf(slice)
    if (holderOf(written[annotations.claim]) !== node || published?.ready !== true) return []
    return [{ key: keyOf(namespace, named[labels.inferenceService] ?? ownerOf(slice)?.name ?? ''), published }]
  })
}

/** Where its servers listen for them, seen from the service `key`. */
export function publishedPorts(key: string, node: string, slices: Iterable<EndpointSlice>): PublishedPorts {
  const besides = new Set<number>()
  let own: number | undefined
  for (const { key: of, published } of publishedBy(node, slices)) {
    const port = published.enginePort ?? published.port
    if (of === key) own = port
    else besides.add(port)
  }
  return { own, besides }
}
