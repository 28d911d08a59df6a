import { hostname } from 'node:os'
import { z } from 'zod'
import { isApiError } from '../../agent-core/kube/api-error.ts'
import { KubeApi, type Preconditions } from '../../agent-core/kube/kube-api.ts'
import { PinnedContext } from '../../agent-core/kube/pinned-context.ts'
import {
  objectMeta,
  parseEndpointSlice,
  parseLease,
  readable,
  resources,
  type ObjectMeta,
  type Resource,
} from '../../agent-core/kube/resources.ts'
import { leaseNameOf } from '../../agent-core/publishing/lease-content.ts'
import { annotations, isClaim, labels, managedBy, ownerOf, parseClaim } from '../../agent-core/publishing/objects.ts'
import { shellCommand } from '../../contract/shell.ts'
import type { TracePart } from './traces.ts'

/** The cluster that this machine served, as far as that is known without an agent. */
export interface ClusterReach {
  readonly kubeconfig?: string | undefined
  readonly context: string
  /** The server that the context named when this machine served it last. */
  readonly server: string
  /** Absent = all namespaces. */
  readonly namespace?: string | undefined
  /** The name under which this machine claims services. */
  readonly nodeId: string | undefined
  readonly env: NodeJS.ProcessEnv
}

/** A cluster that does not answer holds nobody up for longer, request by request. */
const limitMs = 15_000

/** Throws one sentence where the context is not there, or is another cluster by now. */
export async function openCluster({ kubeconfig, context, server, env }: ClusterReach): Promise<KubeApi> {
  const pinned = await PinnedContext.load({ file: kubeconfig, context, env })
  if (pinned.server !== server) {
    throw new Error(
      `Context "${context}" pointed to ${server} when this machine last served it and now points to ${pinned.server}, so nothing is deleted there.`,
    )
  }
  return new KubeApi(pinned)
}

const soon = (): AbortSignal => AbortSignal.timeout(limitMs)

interface Owned {
  readonly resource: Resource
  readonly metadata: ObjectMeta
}

const named = z.object({ metadata: objectMeta })

/** A slice with the Endpoints and the Service beside it; the slice comes first, by which pods find the rest. */
type PublishedService = readonly [Owned, ...Owned[]]

/** Services that this machine claims, or gave up and nobody has claimed since; what another machine or LLMKube's agent wrote is left alone. */
async function published(api: KubeApi, { namespace, nodeId }: ClusterReach): Promise<PublishedService[]> {
  const ours: PublishedService[] = []
  const labelSelector = `${labels.managedBy}=${managedBy}`
  for await (const { items } of api.pages(resources.endpointSlices, { namespace, labelSelector }, soon())) {
    for (const { metadata } of readable(items, parseEndpointSlice)) {
      const claim = parseClaim(metadata.annotations[annotations.claim])
      if (claim === undefined || nodeId === undefined) continue
      if ((isClaim(claim) ? claim.node : claim.releasedBy) !== nodeId) continue
      ours.push([{ resource: resources.endpointSlices, metadata }, ...(await besideSlice(api, metadata))])
    }
  }
  return ours
}

/** The Lease of this machine, where its last agent could not take it away. */
async function ownLease(api: KubeApi, { namespace, nodeId }: ClusterReach): Promise<Owned[]> {
  const place = namespace ?? 'default'
  try {
    const { metadata, spec } = parseLease(await api.get(resources.leases, place, leaseNameOf(hostname()), soon()))
    return nodeId !== undefined && spec.holderIdentity === nodeId ? [{ resource: resources.leases, metadata }] : []
  } catch (error) {
    // Without the right to read it there was none to write it.
    if (isApiError(error, 403, 404)) return []
    throw error
  }
}

/** Endpoints and Service of the slice's name, where an agent made them. */
async function besideSlice(api: KubeApi, slice: ObjectMeta): Promise<Owned[]> {
  const found: Owned[] = []
  for (const resource of [resources.endpoints, resources.services]) {
    try {
      const { metadata } = named.parse(await api.get(resource, slice.namespace, slice.name, soon()))
      const isAgents = metadata.labels[labels.managedBy] === managedBy && ownerOf({ metadata }) !== undefined
      if (isAgents) found.push({ resource, metadata })
    } catch (error) {
      if (!isApiError(error, 404)) throw error
    }
  }
  return found
}

const preconditions = ({ uid, resourceVersion }: ObjectMeta): Preconditions => ({ uid, resourceVersion })

/** Something that another machine has taken over, or somebody has deleted, since it was looked at is theirs. */
async function deleteUnchanged(api: KubeApi, { resource, metadata }: Owned): Promise<void> {
  try {
    await api.delete(resource, metadata.namespace, metadata.name, preconditions(metadata), soon())
  } catch (error) {
    if (!isApiError(error, 404) && !isApiError(error, 409)) throw error
  }
}

const placeOf = ({ resource, metadata }: Owned) => ({
  path: `${metadata.namespace}/${metadata.name} (${resource.kind})`,
})

/** The line that deletes objects of one namespace. */
const kubectl = ({ context, kubeconfig }: ClusterReach, [first, ...others]: PublishedService): string =>
  shellCommand([
    'kubectl',
    ...(kubeconfig === undefined ? [] : ['--kubeconfig', kubeconfig]),
    ...['--context', context, '-n', first.metadata.namespace, 'delete'],
    ...[first, ...others].map(
      ({ resource: { group, plural }, metadata }) => `${group === '' ? plural : `${plural}.${group}`}/${metadata.name}`,
    ),
  ])

/** What pods are told of this machine; removed only after its agent has ended, which would write it again. */
export const clusterPart = (reach: ClusterReach): TracePart => ({
  kind: 'cluster',
  look: async () => {
    const api = await openCluster(reach)
    const ours = [
      ...(await published(api, reach)),
      ...(await ownLease(api, reach)).map((lease): PublishedService => [lease]),
    ]
    return {
      places: ours.flat().map(placeOf),
      byHand: ours.map((one) => kubectl(reach, one)),
      remove: async () => {
        for (const one of ours.flat()) await deleteUnchanged(api, one)
      },
    }
  },
})
