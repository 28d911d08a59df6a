import type { KubeApi } from '../kube/kube-api.ts'
import type { EndpointSlice, Resource, Service } from '../kube/resources.ts'
import type { Logger } from '../observability/logger.ts'
import { HeartbeatPulse } from './heartbeat.ts'
import {
  directNaming,
  heartbeatAt,
  type Naming,
  type Publication,
  type Published,
  type PublishTarget,
} from './objects.ts'
import type { WatchedKind } from './writes.ts'

export interface PublisherOptions {
  readonly api: KubeApi
  /** `id` is the random id of the state folder, `displayName` what people call this machine. */
  readonly node: { readonly id: string; readonly displayName: string }
  /** Empty = not stated. */
  readonly agentVersion: string
  /** Absent = direct. */
  readonly naming?: Naming
  readonly services: WatchedKind<Service>
  readonly slices: WatchedKind<EndpointSlice>
  /** core/v1 Endpoints, for readers that know no slices; undefined = they are not written. */
  readonly endpoints: Resource | undefined
  readonly log: Logger
  /** Something changed that no watch tells: a claim was lost, or could not be renewed. Key = namespace/name. */
  readonly onChange: (key: string) => void
  /** Milliseconds; must not jump with the wall clock. */
  readonly monotonicNow?: () => number
  readonly random?: () => number
  /** Between two renewals of a claim. */
  readonly renewEveryMs?: number
  /** Shared with other publishers; absent = its own. */
  readonly pulse?: HeartbeatPulse
}

/** What everything that publishes under one naming shares. After the abort of `signal` nothing is written. */
export interface Publishing extends PublisherOptions {
  readonly naming: Naming
  readonly monotonicNow: () => number
  readonly random: () => number
  /** The beat on which the claims are renewed. */
  readonly pulse: HeartbeatPulse
  readonly signal: AbortSignal
}

export function publishingBy(options: PublisherOptions, signal: AbortSignal): Publishing {
  const { naming = directNaming, monotonicNow = () => performance.now(), random = Math.random } = options
  const { pulse = new HeartbeatPulse({ random, everyMs: options.renewEveryMs }) } = options
  return { ...options, naming, monotonicNow, random, pulse, signal }
}

/** Everything that this machine says of a service, with the time that it is; without an epoch it carries no claim. */
export function publicationBy(
  { api, node, agentVersion, naming }: Publishing,
  target: PublishTarget,
  published: Published | undefined,
  epoch?: number,
): Publication {
  const heartbeat = heartbeatAt(api.serverNow())
  return {
    namespace: target.namespace,
    name: target.name,
    uid: target.uid,
    serviceName: naming.nameOf(target.name),
    servicePorts: naming.servicePortsOf(target.endpointPort),
    annotations: naming.annotations(target),
    published,
    heartbeat,
    agentVersion,
    releasedBy: node.id,
    claim: epoch === undefined ? undefined : { node: node.id, epoch, heartbeat, displayName: node.displayName },
  }
}
