import { askFromCluster, type LeftPods, type ProbeTarget } from '../doctor/from-cluster.ts'
import type { Cluster } from '../kube/cluster.ts'
import { publishedOf, serviceNameOf, servicePortsOf } from '../publishing/objects.ts'
import { StateFileError } from '../state/state-file.ts'
import { LinkError } from '../../contract/client.ts'
import type { ServiceRef } from '../../contract/commands.ts'
import type { FromClusterView } from '../../contract/doctor.ts'

/** The smallest that is known everywhere and has what is needed, sh and wget. */
const usualProbeImage = 'busybox:1.37'

interface FromClusterSources {
  readonly cluster: Pick<Cluster, 'api' | 'inferenceServices' | 'slices'>
  readonly left: LeftPods
}

/** Has a Pod of the cluster ask a service of this machine. Throws LinkError. */
export async function fromCluster(
  { cluster, left }: FromClusterSources,
  { service, image = usualProbeImage }: { readonly service: ServiceRef; readonly image?: string | undefined },
  signal: AbortSignal,
): Promise<FromClusterView> {
  const target = targetOf(cluster, service)
  if (!target) {
    throw new LinkError('refused', `${service.namespace}/${service.name} is not published, so there is nothing to ask.`)
  }
  try {
    const found = await left.alone(() => askFromCluster(target, { api: cluster.api, image, left, signal }))
    if (found) return found
    throw new LinkError('refused', 'Another test Pod is running: wait for its result.')
  } catch (error) {
    if (!(error instanceof StateFileError)) throw error
    throw new LinkError('refused', `No Pod was created, because the agent could not record it: ${error.message}`, {
      cause: error,
    })
  }
}

/** As the cluster was last heard to have it; undefined while it is not published. */
function targetOf(
  { inferenceServices, slices }: FromClusterSources['cluster'],
  { namespace, name }: ServiceRef,
): ProbeTarget | undefined {
  const service = inferenceServices.get(namespace, name)
  const serviceName = serviceNameOf(name)
  const slice = slices.get(namespace, serviceName)
  const published = slice && publishedOf(slice)
  const [first] = servicePortsOf(service?.spec.value.endpoint?.port)
  if (!service || !published?.ready || !first) return undefined
  const { address, port } = published
  return { namespace, name, uid: service.metadata.uid, serviceName, servicePort: first.port, address, port }
}
