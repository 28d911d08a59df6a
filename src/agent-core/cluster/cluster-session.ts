import { Cluster } from '../kube/cluster.ts'
import { EventRecorder } from '../kube/event-recorder.ts'
import type { OnAnswer } from '../kube/kube-transport.ts'
import type { PinnedContext } from '../kube/pinned-context.ts'
import { parseEndpointSlice, parseService, resources } from '../kube/resources.ts'
import { StatusWriter } from '../kube/status-writer.ts'
import { NodeLease } from '../publishing/lease.ts'
import type { NodeFacts } from '../publishing/lease-content.ts'
import { type Ingress, WaysToPublish } from '../publishing/ways.ts'
import { Reconciler, type ReconcilerOptions } from '../reconcile/reconciler.ts'
import type { NodeIdentity } from '../state/node-id.ts'
import type { PublishMode } from '../../contract/settings-table.ts'

/** What hangs on one cluster; servers, models and memory outlive it. */
export interface ClusterSession {
  readonly cluster: Cluster
  readonly publisher: WaysToPublish
  readonly lease: NodeLease
  readonly events: EventRecorder
  readonly status: StatusWriter
  readonly reconciler: Reconciler
}

export interface SessionOptions extends Omit<ReconcilerOptions, 'cluster' | 'publisher'> {
  readonly context: PinnedContext
  /** Absent = all namespaces. */
  readonly namespace: string | undefined
  readonly identity: NodeIdentity
  readonly agentVersion: string
  readonly nodeFacts: () => Promise<NodeFacts>
  readonly publishMode: () => PublishMode
  readonly ingress: Ingress
  /** Called after every change of what is known of the cluster. */
  readonly onClusterState: () => void
  readonly onApiAnswer?: OnAnswer
  /** One sentence where it is this machine that keeps us from an address. */
  readonly whyUnreachable?: ((error: unknown) => Promise<string | undefined>) | undefined
}

/** Nothing is watched and nothing decided before its `cluster` and `reconciler` are started. */
export function clusterSession(options: SessionOptions): ClusterSession {
  const { context, namespace, identity, agentVersion, onClusterState, log } = options
  log.info('cluster', { context: context.name, server: context.server, namespace: namespace ?? '(all)' })
  const cluster: Cluster = new Cluster({
    context,
    namespace,
    log,
    onState: onClusterState,
    onSliceWatch: (live) => publisher.setWatchLive(live),
    onGap: () => {
      publisher.watchGap()
      lease.watchGap()
    },
    onAnswer: options.onApiAnswer,
    whyUnreachable: options.whyUnreachable,
  })
  const publisher = new WaysToPublish({
    api: cluster.api,
    services: { resource: resources.services, parse: parseService, cache: cluster.services },
    slices: { resource: resources.endpointSlices, parse: parseEndpointSlice, cache: cluster.slices },
    endpoints: resources.endpoints,
    node: { id: identity.nodeId, displayName: identity.displayName },
    agentVersion,
    mode: options.publishMode,
    ingress: options.ingress,
    inferenceService: (target) => cluster.inferenceServices.get(target.namespace, target.name),
    onNotAdopted: (key, message) => options.narrator.tell(key, { kind: 'notAdopted', message }),
    log,
    onChange: (key) => reconciler.enqueue(key),
  })
  const lease = new NodeLease({
    api: cluster.api,
    namespace: namespace ?? 'default',
    node: { id: identity.nodeId, displayName: identity.displayName },
    pulse: publisher.pulse,
    facts: options.nodeFacts,
    log,
    onChange: options.onChange,
  })
  const reconciler: Reconciler = new Reconciler({ ...options, cluster, publisher })
  return {
    cluster,
    publisher,
    lease,
    events: new EventRecorder({ api: cluster.api, log, host: identity.displayName }),
    status: new StatusWriter(cluster.api, cluster.inferenceServices),
    reconciler,
  }
}
