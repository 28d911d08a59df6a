import { isDeepStrictEqual } from 'node:util'
import type { EndpointSlice } from '../kube/resources.ts'
import { claimText } from './claim-text.ts'
import {
  type MergePatch,
  type Publication,
  type Published,
  annotations,
  commonLabels,
  holds,
  isOwnedBy,
  labels,
  ownerReferenceOf,
  ownerReferencesWith,
} from './objects.ts'

export const sliceBody = (publication: Publication): object => ({
  metadata: {
    name: publication.serviceName,
    namespace: publication.namespace,
    labels: sliceLabels(publication),
    annotations: sliceAnnotations(publication),
    ownerReferences: [ownerReferenceOf(publication)],
  },
  addressType: 'IPv4',
  ...sliceContent(publication),
})

export const slicePatch = (publication: Publication, current: EndpointSlice): MergePatch => ({
  metadata: {
    labels: sliceLabels(publication),
    annotations: sliceAnnotations(publication),
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
  sliceTells(slice, publication, toldBy(publication))

/** Whether it tells pods `told`, and is labelled and owned as for `publication`. */
export function sliceTells(slice: EndpointSlice, publication: Publication, told: Told): boolean {
  const { agentVersion } = publication
  return (
    holds(slice.metadata.labels, sliceLabels(publication)) &&
    (agentVersion === '' || slice.metadata.annotations[annotations.agentVersion] === agentVersion) &&
    isOwnedBy(slice, publication) &&
    isDeepStrictEqual(toldIn(slice), told)
  )
}

/** What a slice tells pods, as far as we compare it. */
export interface Told {
  readonly published: Published | undefined
  readonly addresses: number
  readonly ports: readonly { readonly name: string | null | undefined; readonly port: number | null | undefined }[]
}

export const toldIn = (slice: EndpointSlice): Told => ({
  published: publishedOf(slice),
  addresses: slice.endpoints.length,
  ports: slice.ports.map(({ name, port }) => ({ name, port })),
})

export function toldBy({ published, servicePorts }: Pick<Publication, 'published' | 'servicePorts'>): Told {
  if (!published) return { published, addresses: 0, ports: [] }
  const { address, port, ready } = published
  return { published: { address, port, ready }, addresses: 1, ports: servicePorts.map(({ name }) => ({ name, port })) }
}

export const heartbeatOf = ({ metadata }: EndpointSlice): string => metadata.annotations[annotations.heartbeat] ?? ''

/** What the slice tells pods; undefined where it names no address. An absent `ready` counts as ready, as for every reader. */
export function publishedOf(slice: EndpointSlice): Published | undefined {
  const [endpoint] = slice.endpoints
  const address = endpoint?.addresses[0]
  const port = slice.ports[0]?.port
  if (!endpoint || address === undefined || port == null) return undefined
  return { address, port, ready: endpoint.conditions?.ready !== false }
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
}: Publication): Readonly<Record<string, string>> => ({
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
