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
  type Resource,
} from '../../agent-core/kube/resources.ts'
import {
  annotations,
  claimText,
  heartbeatAt,
  heartbeatOf,
  isClaim,
  labels,
  managedBy,
  parseClaim,
  publishedOf,
  relayNameOf,
  serviceNameOf,
  type Published,
  withdrawPatch,
} from '../../agent-core/publishing/objects.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'

/** One InferenceService for Macs, and where the Go agent publishes it. */
export interface FoundService {
  readonly namespace: string
  readonly name: string
  readonly spec: InferenceServiceSpec
  /** Published at an address of this machine; undefined where nothing, or another machine, is published. */
  readonly published: Published | undefined
  /** It is published for LLMKube's relay. */
  readonly isRelayed: boolean
  /** Our agent serves it already. */
  readonly isMoved: boolean
  /** The address of another machine that serves it. */
  readonly elsewhere: string | undefined
}

export interface ClusterLook {
  readonly services: readonly FoundService[]
  /** The versions that agents which publish here write into their slices. */
  readonly agentVersions: readonly string[]
  /** What agents in relay mode on this machine say that relays know them by. */
  readonly pins: readonly string[]
  /** What this user may not do and the agent has to, such as "patch services". */
  readonly missingRights: readonly string[]
}

export interface LookQuery {
  /** Undefined = all. */
  readonly namespace: string | undefined
  /** Empty = all. */
  readonly allowlist: readonly string[]
  readonly ownAddresses: ReadonlySet<string>
}

/** Throws ApiError. */
export async function lookAtCluster(api: KubeApi, query: LookQuery, signal?: AbortSignal): Promise<ClusterLook> {
  const { namespace, allowlist, ownAddresses } = query
  const ofAgents = { namespace, labelSelector: `${labels.managedBy}=${managedBy}` }
  const [services, models, slices] = await Promise.all([
    all(api, resources.inferenceServices, { namespace }, parseInferenceService, signal),
    all(api, resources.models, { namespace }, parseModel, signal),
    all(api, resources.endpointSlices, ofAgents, parseEndpointSlice, signal),
  ])
  const metalModels = models.filter(({ spec }) => spec.value.hardware?.accelerator === 'metal')
  const isMeant = ({ metadata: { namespace, name }, spec }: InferenceService): boolean =>
    metalModels.some(({ metadata: model }) => model.namespace === namespace && model.name === spec.value.modelRef) &&
    (allowlist.length === 0 || allowlist.includes(name))
  const isOwn = (slice: EndpointSlice) => ownAddresses.has(publishedOf(slice)?.address ?? '')
  const found = services.filter(isMeant).map(({ metadata: { namespace, name }, spec }): FoundService => {
    const isOf = ({ metadata }: EndpointSlice): boolean =>
      metadata.namespace === namespace &&
      [serviceNameOf(name), relayNameOf(name)].includes(metadata.name) &&
      (metadata.labels[labels.inferenceService] ?? name) === name
    // The other one is left of an earlier agent.
    const [slice] = slices
      .filter(isOf)
      .toSorted(
        (one, other) => Number(isOwn(other)) - Number(isOwn(one)) || heartbeatOf(other).localeCompare(heartbeatOf(one)),
      )
    const isHere = slice !== undefined && isOwn(slice)
    const published = slice && publishedOf(slice)
    return {
      ...{ namespace, name, spec: spec.value },
      published: isHere ? published : undefined,
      isRelayed: slice?.metadata.name === relayNameOf(name),
      isMoved: isHere && isHeldByOurs(slice),
      elsewhere: isHere ? undefined : published?.address,
    }
  })
  const ofOthers = slices.filter((slice) => isOwn(slice) && !isHeldByOurs(slice))
  const annotationsHere = ofOthers.map(({ metadata }) => metadata.annotations)
  const versions = annotationsHere.map((one) => one[annotations.agentVersion] ?? '').filter((one) => one !== '')
  const pins = annotationsHere.map((one) => one[annotations.ingressPin] ?? '').filter((one) => one !== '')
  const missingRights = await rightsMissing(api, namespace, pins.length > 0, signal)
  return { services: found, agentVersions: [...new Set(versions)], pins: [...new Set(pins)], missingRights }
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

interface Right {
  readonly of: Resource
  readonly subresource?: string
  /** Of that object alone. */
  readonly named?: string
  readonly verbs: readonly string[]
}

/** The rights that our agent needs. */
const rights: readonly Right[] = [
  { of: resources.inferenceServices, verbs: ['get', 'list', 'watch'] },
  { of: resources.inferenceServices, subresource: 'status', verbs: ['patch'] },
  { of: resources.models, verbs: ['get', 'list', 'watch'] },
  { of: resources.services, verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'] },
  { of: resources.endpointSlices, verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'] },
  { of: resources.endpoints, verbs: ['get', 'create', 'patch', 'delete'] },
  { of: resources.events, verbs: ['create', 'patch'] },
]

/** Needed besides where LLMKube's relays ask this machine: the token that they show. */
const rightForRelays: Right = { of: resources.secrets, named: 'llmkube-metal-relay', verbs: ['get'] }

const review = z.object({ status: z.object({ allowed: z.boolean() }) })
const reviews: Resource = {
  group: 'authorization.k8s.io',
  version: 'v1',
  plural: 'selfsubjectaccessreviews',
  kind: 'SelfSubjectAccessReview',
}

async function rightsMissing(
  api: KubeApi,
  namespace: string | undefined,
  isRelayed: boolean,
  signal?: AbortSignal,
): Promise<string[]> {
  const needed = isRelayed ? [...rights, rightForRelays] : rights
  const asked = needed.flatMap(({ verbs, ...what }) => verbs.map((verb) => ({ ...what, verb })))
  const missing = asked.map(async ({ of: { group, version, plural: resource }, subresource, verb, named }) => {
    const resourceAttributes = { namespace, verb, group, version, resource, subresource, name: named }
    try {
      const answer = await api.create(reviews, '', { spec: { resourceAttributes } }, { ...(signal && { signal }) })
      const name = subresource === undefined ? resource : `${resource}/${subresource}`
      return review.parse(answer).status.allowed ? [] : [`${verb} ${name}`]
    } catch (error) {
      // A user who may not ask finds out by trying.
      if (isApiError(error, 403) || isApiError(error, 404)) return []
      throw error
    }
  })
  return (await Promise.all(missing)).flat()
}

/** Whether an agent of ours wrote it last: a Go agent leaves the claim where it is and writes a heartbeat of its own. */
export function isHeldByOurs(slice: EndpointSlice): boolean {
  const claim = parseClaim(slice.metadata.annotations[annotations.claim])
  return claim !== undefined && isClaim(claim) && claim.heartbeat === heartbeatOf(slice)
}

/** Another writer may come in between. */
const writeTries = 5

/** Nobody is sent to the service's address from now on. */
export const withdraw = (api: KubeApi, service: FoundService): Promise<void> =>
  changeSlice(api, service, (slice) => withdrawPatch(slice))

/** Marks the slice as given up, so that our agent claims it at once instead of after three minutes of silence. */
export const release = (api: KubeApi, service: FoundService): Promise<void> =>
  changeSlice(api, service, (slice) => ({
    ...withdrawPatch(slice),
    metadata: { annotations: { [annotations.claim]: claimText({ heartbeat: heartbeatOf(slice) }) } },
  }))

/** Of the EndpointSlice by which it is published, and of the Service beside that. */
export const publishedName = ({ name, isRelayed }: FoundService): string =>
  isRelayed ? relayNameOf(name) : serviceNameOf(name)

/** Does nothing where there is no slice, or an agent of ours holds it. */
async function changeSlice(
  api: KubeApi,
  service: FoundService,
  change: (slice: EndpointSlice) => { readonly metadata: object },
): Promise<void> {
  const { namespace } = service
  const sliceName = publishedName(service)
  for (let tries = 1; ; tries++) {
    try {
      const slice = parseEndpointSlice(await api.get(resources.endpointSlices, namespace, sliceName))
      if (isHeldByOurs(slice)) return
      const patch = change(slice)
      const { uid, resourceVersion } = slice.metadata
      const metadata = { ...patch.metadata, uid, resourceVersion }
      await api.mergePatch(resources.endpointSlices, namespace, sliceName, { ...patch, metadata })
      return
    } catch (error) {
      if (isApiError(error, 404)) return
      if (!isApiError(error, 409) || tries === writeTries) throw error
    }
  }
}

/** The Go agent's own interval. */
const usualEveryMs = 30_000

/** Writes the heartbeats of services whose Go agent is paused: after three minutes without one they would count as dead. */
export class Heartbeats implements AsyncDisposable {
  readonly #api: KubeApi
  readonly #services: Set<FoundService>
  readonly #tell: (sentence: string) => void
  readonly #timer: NodeJS.Timeout
  #round: Promise<void> = Promise.resolve()

  constructor(
    api: KubeApi,
    services: Iterable<FoundService>,
    tell: (sentence: string) => void,
    everyMs = usualEveryMs,
  ) {
    this.#api = api
    this.#services = new Set(services)
    this.#tell = tell
    this.#timer = setInterval(() => {
      this.#round = this.#round.then(() => this.#renewAll())
    }, everyMs)
  }

  /** From now on our agent writes the heartbeats of this service. */
  async leave(service: FoundService): Promise<void> {
    this.#services.delete(service)
    await this.#round
  }

  async #renewAll(): Promise<void> {
    for (const service of [...this.#services]) {
      try {
        const heartbeat = heartbeatAt(this.#api.serverNow())
        const metadata = { annotations: { [annotations.heartbeat]: heartbeat } }
        await changeSlice(this.#api, service, () => ({ metadata }))
      } catch (error) {
        this.#tell(`The heartbeat of ${service.namespace}/${service.name} was not renewed: ${messageOf(error)}`)
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer)
    await this.#round
  }
}
