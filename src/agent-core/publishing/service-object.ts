import type { Service } from '../kube/resources.ts'
import {
  type MergePatch,
  type Publication,
  annotations,
  commonLabels,
  holds,
  isOwnedBy,
  ownerReferenceOf,
  ownerReferencesWith,
} from './objects.ts'

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
  spec: { ports: servicePortList(publication, current) },
})

export function serviceIsCurrent(service: Service, publication: Publication): boolean {
  const wanted = servicePortList(publication, service)
  const { ports } = service.spec
  return (
    holds(service.metadata.labels, commonLabels(publication)) &&
    holds(service.metadata.annotations, serviceAnnotations) &&
    isOwnedBy(service, publication) &&
    ports.length === wanted.length &&
    wanted.every(({ name, port }, index) => ports[index]?.name === name && ports[index].port === port)
  )
}

const serviceAnnotations = { [annotations.metalAccelerated]: 'true', [annotations.nativeProcess]: 'true' }

/** The target port is as it was at first, for people who read it: kube-proxy goes by the names of the slice's ports. */
const servicePortList = ({ servicePorts, published }: Publication, current: Service | undefined) =>
  servicePorts.map(({ name, port }) => {
    const targetPort = current?.spec.ports.find((known) => known.name === name)?.targetPort ?? published?.port
    return { name, port, protocol: 'TCP', ...(targetPort === undefined ? {} : { targetPort }) }
  })
