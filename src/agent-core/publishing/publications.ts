import type { KubeApi } from '../kube/kube-api.ts'
import {
  heartbeatAt,
  serviceNameOf,
  servicePortsOf,
  type Publication,
  type Published,
  type PublishTarget,
} from './objects.ts'

export interface PublicationsOptions {
  readonly api: KubeApi
  /** `id` is the random id of the state folder, `displayName` what people call this machine. */
  readonly node: { readonly id: string; readonly displayName: string }
  /** Empty = not stated. */
  readonly agentVersion: string
}

/** Everything that this machine says of a service, with the time that it is; without an epoch it carries no claim. */
export type PublicationOf = (target: PublishTarget, published: Published | undefined, epoch?: number) => Publication

export const publicationsOf =
  ({ api, node, agentVersion }: PublicationsOptions): PublicationOf =>
  (target, published, epoch) => {
    const heartbeat = heartbeatAt(api.serverNow())
    return {
      namespace: target.namespace,
      name: target.name,
      uid: target.uid,
      serviceName: serviceNameOf(target.name),
      servicePorts: servicePortsOf(target.endpointPort),
      published,
      heartbeat,
      agentVersion,
      releasedBy: node.id,
      claim: epoch === undefined ? undefined : { node: node.id, epoch, heartbeat, displayName: node.displayName },
    }
  }
