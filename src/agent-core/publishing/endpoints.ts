import { z } from 'zod'
import {
  commonLabels,
  holds,
  isOwnedBy,
  labels,
  managedBy,
  ownerReferenceOf,
  ownerReferencesWith,
  type MergePatch,
  type Owned,
  type Publication,
} from './objects.ts'

const ownerReference = z.object({
  apiVersion: z.string(),
  kind: z.string(),
  name: z.string(),
  uid: z.string(),
  controller: z.boolean().optional(),
  blockOwnerDeletion: z.boolean().optional(),
})

const addresses = z
  .array(z.object({ ip: z.string() }))
  .nullish()
  .transform((list) => list ?? [])

const subsets = z
  .array(
    z.object({
      addresses,
      notReadyAddresses: addresses,
      ports: z
        .array(z.object({ name: z.string().default(''), port: z.number().int(), protocol: z.string().default('TCP') }))
        .nullish()
        .transform((list) => list ?? []),
    }),
  )
  .nullish()
  .transform((list) => list ?? [])

const endpoints = z.object({
  metadata: z.object({
    namespace: z.string(),
    name: z.string(),
    uid: z.string(),
    resourceVersion: z.string(),
    labels: z.record(z.string(), z.string()).default({}),
    ownerReferences: z.array(ownerReference).default([]),
    managedFields: z.array(z.object({ manager: z.string().default(''), time: z.string().optional() })).default([]),
  }),
  subsets,
})

/** core/v1 Endpoints as far as we compare them; ours are written, never watched. */
export type Endpoints = z.infer<typeof endpoints>

/** Throws a ZodError where it is not an Endpoints object. */
export const parseEndpoints = (raw: unknown): Endpoints => endpoints.parse(raw)

/** An agent made it: ours, or a Go agent's that lacks the skip-mirror label. */
export const isAgents = ({ metadata }: Endpoints): boolean => metadata.labels[labels.managedBy] === managedBy

export const endpointsAreCurrent = (current: Endpoints, publication: Publication): boolean =>
  holds(current.metadata.labels, endpointsLabels(publication)) &&
  isOwnedBy(current, publication) &&
  subsetsAreCurrent(current.subsets, publication)

/** The server sorts the ports of a subset by a rule of its own. */
function subsetsAreCurrent(
  [subset, ...others]: Endpoints['subsets'],
  { published, servicePorts }: Publication,
): boolean {
  if (!published || !subset) return !published && !subset
  const { addresses, notReadyAddresses, ports } = subset
  const [shown, empty] = published.ready ? [addresses, notReadyAddresses] : [notReadyAddresses, addresses]
  return (
    others.length === 0 &&
    empty.length === 0 &&
    shown.length === 1 &&
    shown[0]?.ip === published.address &&
    ports.length === servicePorts.length &&
    servicePorts.every(({ name }) =>
      ports.some((is) => is.name === name && is.port === published.port && is.protocol === 'TCP'),
    )
  )
}

/** The skip-mirror label must be in the first write: without it Kubernetes copies the addresses into a slice of its own. */
export const endpointsBody = (publication: Publication): object => ({
  metadata: {
    name: publication.serviceName,
    namespace: publication.namespace,
    labels: endpointsLabels(publication),
    ownerReferences: [ownerReferenceOf(publication)],
  },
  subsets: endpointsSubsets(publication),
})

export const endpointsPatch = (publication: Publication, { metadata }: Owned): MergePatch => ({
  metadata: {
    labels: endpointsLabels(publication),
    ownerReferences: ownerReferencesWith(publication, metadata),
  },
  subsets: endpointsSubsets(publication),
})

const endpointsLabels = (publication: Publication): Readonly<Record<string, string>> => ({
  ...commonLabels(publication),
  [labels.skipMirror]: 'true',
  [labels.accelerator]: 'metal',
})

/** Legacy readers know nothing of expiry, so a withdrawn address moves to where they do not look. */
const endpointsSubsets = ({ published, servicePorts }: Publication): object[] =>
  published === undefined
    ? []
    : [
        {
          [published.ready ? 'addresses' : 'notReadyAddresses']: [{ ip: published.address }],
          ports: servicePorts.map(({ name }) => ({ name, port: published.port, protocol: 'TCP' })),
        },
      ]
