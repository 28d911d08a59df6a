import { z } from 'zod'
import { isApiError } from '../../agent-core/kube/api-error.ts'
import type { KubeApi } from '../../agent-core/kube/kube-api.ts'
import {
  parseEndpointSlice,
  parseInferenceService,
  parseModel,
  readable,
  resources,
  type EndpointSlice,
  type InferenceService,
  type InferenceServiceSpec,
  type Model,
  type Resource,
} from '../../agent-core/kube/resources.ts'
import {
  annotations,
  heartbeatOf,
  isClaim,
  labels,
  managedBy,
  parseClaim,
  publishedOf,
  serviceNameOf,
} from '../../agent-core/publishing/objects.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'

/** The certificate's pin of an agent in relay mode, which LLMKube has from 0.10 on. */
const ingressPin = 'llmkube.ai/agent-ingress-spki'

/** One InferenceService for Macs, and where the Go agent publishes it. */
export interface FoundService {
  readonly namespace: string
  readonly name: string
  readonly spec: InferenceServiceSpec
  /** `spec.source` of its Model, and the Model's name; absent where that is not there. */
  readonly model: { readonly name: string; readonly source: string } | undefined
  /** Published at an address of this machine; absent where nothing, or another machine, is published. */
  readonly published: { readonly address: string; readonly port: number; readonly ready: boolean } | undefined
  /** Our agent serves it already. */
  readonly isMoved: boolean
  /** The address of another machine that serves it. */
  readonly elsewhere: string | undefined
}

export interface ClusterLook {
  readonly services: readonly FoundService[]
  /** What the agents that publish here say of themselves. */
  readonly agentVersions: readonly string[]
  /** An agent in relay mode publishes from this machine. */
  readonly isRelay: boolean
  /** What this user may not do and the agent has to, such as "patch services". */
  readonly missingRights: readonly string[]
}

export interface LookQuery {
  /** Absent = all. */
  readonly namespace: string | undefined
  /** Empty = all. */
  readonly allowlist: readonly string[]
  readonly ownAddresses: ReadonlySet<string>
}

/** Throws ApiError. */
export async function lookAtCluster(api: KubeApi, query: LookQuery, signal?: AbortSignal): Promise<ClusterLook> {
  const { namespace, allowlist, ownAddresses } = query
  const missingRights = await rightsMissing(api, namespace, signal)
  const [services, models, slices] = await Promise.all([
    all(api, resources.inferenceServices, { namespace }, parseInferenceService, signal),
    all(api, resources.models, { namespace }, parseModel, signal),
    all(
      api,
      resources.endpointSlices,
      { namespace, labelSelector: `${labels.managedBy}=${managedBy}` },
      parseEndpointSlice,
      signal,
    ),
  ])
  const modelOf = (service: InferenceService): Model | undefined =>
    models.find(
      ({ metadata }) =>
        metadata.namespace === service.metadata.namespace && metadata.name === service.spec.value.modelRef,
    )
  const isMeant = (service: InferenceService): boolean =>
    modelOf(service)?.spec.value.hardware?.accelerator === 'metal' &&
    (allowlist.length === 0 || allowlist.includes(service.metadata.name))
  const own = slices.filter((slice) => ownAddresses.has(publishedOf(slice)?.address ?? ''))
  return {
    services: services.filter(isMeant).map((service) => foundService(service, modelOf(service), slices, ownAddresses)),
    agentVersions: [...new Set(own.map(({ metadata }) => metadata.annotations[annotations.agentVersion] ?? ''))].filter(
      (version) => version !== '',
    ),
    isRelay: own.some(({ metadata }) => metadata.annotations[ingressPin] !== undefined),
    missingRights,
  }
}

function foundService(
  { metadata, spec }: InferenceService,
  model: Model | undefined,
  slices: readonly EndpointSlice[],
  ownAddresses: ReadonlySet<string>,
): FoundService {
  const { namespace, name } = metadata
  const slice = slices.find((one) => one.metadata.namespace === namespace && one.metadata.name === serviceNameOf(name))
  const published = slice && publishedOf(slice)
  const isHere = slice !== undefined && published !== undefined && ownAddresses.has(published.address)
  return {
    namespace,
    name,
    spec: spec.value,
    model: model && { name: model.metadata.name, source: model.spec.value.source },
    published: isHere ? published : undefined,
    isMoved: isHere && isHeldByOurs(slice),
    elsewhere: !isHere ? published?.address : undefined,
  }
}

async function all<T>(
  api: KubeApi,
  resource: Resource,
  query: { readonly namespace: string | undefined; readonly labelSelector?: string },
  read: (raw: unknown) => T,
  signal?: AbortSignal,
): Promise<T[]> {
  const found: T[] = []
  for await (const { items } of api.pages(resource, query, signal)) found.push(...readable(items, read))
  return found
}

const review = z.object({ status: z.object({ allowed: z.boolean() }) })
const reviews: Resource = {
  group: 'authorization.k8s.io',
  version: 'v1',
  plural: 'selfsubjectaccessreviews',
  kind: 'SelfSubjectAccessReview',
}

/** What our agent asks of a cluster. */
const rights: readonly { readonly of: Resource; readonly subresource?: string; readonly verbs: readonly string[] }[] = [
  { of: resources.inferenceServices, verbs: ['get', 'list', 'watch'] },
  { of: resources.inferenceServices, subresource: 'status', verbs: ['patch'] },
  { of: resources.models, verbs: ['get', 'list', 'watch'] },
  { of: resources.services, verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'] },
  { of: resources.endpointSlices, verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'] },
  { of: resources.endpoints, verbs: ['get', 'create', 'patch', 'delete'] },
  { of: resources.events, verbs: ['create', 'patch'] },
]

async function rightsMissing(api: KubeApi, namespace: string | undefined, signal?: AbortSignal): Promise<string[]> {
  const asked = rights.flatMap(({ of, subresource, verbs }) => verbs.map((verb) => ({ of, subresource, verb })))
  const missing = await Promise.all(
    asked.map(async ({ of, subresource, verb }) => {
      const resourceAttributes = {
        namespace,
        verb,
        group: of.group,
        version: of.version,
        resource: of.plural,
        subresource,
      }
      try {
        const answer = await api.create(reviews, '', { spec: { resourceAttributes } }, { ...(signal && { signal }) })
        const isAllowed = review.parse(answer).status.allowed
        return isAllowed ? [] : [`${verb} ${of.plural}${subresource === undefined ? '' : `/${subresource}`}`]
      } catch (error) {
        // A user who may not ask finds out by trying.
        if (isApiError(error, 403) || isApiError(error, 404)) return []
        throw error
      }
    }),
  )
  return missing.flat()
}

/** One sentence why nothing can be said of the cluster. */
export const clusterSilence = (error: unknown): string =>
  `The cluster does not answer, and without it no service can change hands: ${messageOf(error).replace(/\.$/, '')}.`

/** Whether an agent of ours wrote it last: a Go agent leaves the claim where it is and writes a heartbeat of its own. */
export function isHeldByOurs(slice: EndpointSlice): boolean {
  const claim = parseClaim(slice.metadata.annotations[annotations.claim])
  return claim !== undefined && isClaim(claim) && claim.heartbeat === heartbeatOf(slice)
}
