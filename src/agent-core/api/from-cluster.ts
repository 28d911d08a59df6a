import { askFromCluster, type ProbeTarget } from '../doctor/from-cluster.ts'
import type { Cluster } from '../kube/cluster.ts'
import { publishedOf, serviceNameOf, servicePortsOf } from '../publishing/objects.ts'
import { LinkError } from '../../contract/client.ts'
import type { ServiceRef } from '../../contract/commands.ts'
import type { FromClusterView } from '../../contract/doctor.ts'

/** The smallest that is known everywhere and has what is needed, sh and wget. */
const usualProbeImage = 'busybox:1.37'

type KnownCluster = Pick<Cluster, 'api' | 'inferenceServices' | 'slices'>

/** One Pod at a time in each cluster, so that no client fills it with them. */
const asked = new WeakSet<KnownCluster>()

/** Has a Pod of the cluster ask a service of this machine. Throws LinkError. */
export async function fromCluster(
  cluster: KnownCluster,
  { service, image = usualProbeImage }: { readonly service: ServiceRef; readonly image?: string | undefined },
  signal: AbortSignal,
): Promise<FromClusterView> {
  const target = targetOf(cluster, service)
  if (!target) {
    throw new LinkError('refused', `${service.namespace}/${service.name} is not published, so there is nothing to ask.`)
  }
  if (asked.has(cluster)) throw new LinkError('refused', 'Another test Pod is running: wait for its result.')
  asked.add(cluster)
  try {
    return await askFromCluster(target, { api: cluster.api, image, signal })
  } finally {
    asked.delete(cluster)
  }
}

/** As the cluster was last heard to have it; undefined while it is not published. */
function targetOf(
  { inferenceServices, slices }: KnownCluster,
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
