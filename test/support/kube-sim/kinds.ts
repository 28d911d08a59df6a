import { z } from 'zod'
import type { Json, KubeObject } from './json.ts'
import {
  fillEndpointSliceDefaults,
  fillEndpointsDefaults,
  fillSecretDefaults,
  fillServiceDefaults,
} from './defaults.ts'
import type { Schema } from './schema.ts'
import type { FieldError } from './status-error.ts'
import { validateEvent, validateLabelName, validateSubdomain } from './validation.ts'

/** One resource type and how its objects are treated. */
export interface Kind {
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly kind: string
  readonly namespaced: boolean
  /** Served at `/status`; without it `status` is a field like any other. */
  readonly hasStatus: boolean
  /** Which kinds count generations, and what lets it rise. */
  readonly generation: 'spec' | 'everything' | 'none'
  readonly custom: boolean
  /** A PUT without a resourceVersion overwrites. */
  readonly unconditionalUpdate: boolean
  /** A PUT to a name that does not exist creates. */
  readonly createOnUpdate: boolean
  readonly schema: Schema
  /** The 299 that goes with every answer about this kind. */
  readonly warning?: string
  validateName(name: string): string | undefined
  fillDefaults(object: KubeObject): void
  validate(object: KubeObject, before: KubeObject | undefined): FieldError[]
}

export const kindKey = ({ group, plural }: Pick<Kind, 'group' | 'plural'>): string => `${group}/${plural}`
export const apiVersionOf = ({ group, version }: Pick<Kind, 'group' | 'version'>): string =>
  group === '' ? version : `${group}/${version}`

const builtIn = {
  namespaced: true,
  hasStatus: false,
  generation: 'none',
  custom: false,
  unconditionalUpdate: true,
  createOnUpdate: false,
  schema: {},
  validateName: validateSubdomain,
  fillDefaults: () => undefined,
  validate: () => [],
} satisfies Partial<Kind>

export const builtInKinds: readonly Kind[] = [
  {
    ...builtIn,
    group: '',
    version: 'v1',
    plural: 'namespaces',
    kind: 'Namespace',
    namespaced: false,
    hasStatus: true,
    validateName: validateLabelName,
    fillDefaults: (object) => {
      object['spec'] = { finalizers: ['kubernetes'] }
      object['status'] = { phase: 'Active' }
      object.metadata.labels = { ...object.metadata.labels, 'kubernetes.io/metadata.name': object.metadata.name }
    },
  },
  {
    ...builtIn,
    group: '',
    version: 'v1',
    plural: 'services',
    kind: 'Service',
    hasStatus: true,
    validateName: validateLabelName,
    fillDefaults: fillServiceDefaults,
  },
  {
    ...builtIn,
    group: '',
    version: 'v1',
    plural: 'endpoints',
    kind: 'Endpoints',
    createOnUpdate: true,
    warning: 'v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice',
    fillDefaults: fillEndpointsDefaults,
  },
  {
    ...builtIn,
    group: '',
    version: 'v1',
    plural: 'events',
    kind: 'Event',
    createOnUpdate: true,
    validate: validateEvent,
  },
  { ...builtIn, group: '', version: 'v1', plural: 'secrets', kind: 'Secret', fillDefaults: fillSecretDefaults },
  {
    ...builtIn,
    group: 'apps',
    version: 'v1',
    plural: 'deployments',
    kind: 'Deployment',
    hasStatus: true,
    generation: 'spec',
  },
  {
    ...builtIn,
    group: 'discovery.k8s.io',
    version: 'v1',
    plural: 'endpointslices',
    kind: 'EndpointSlice',
    generation: 'everything',
    fillDefaults: fillEndpointSliceDefaults,
  },
  { ...builtIn, group: 'coordination.k8s.io', version: 'v1', plural: 'leases', kind: 'Lease' },
  {
    ...builtIn,
    group: 'apiextensions.k8s.io',
    version: 'v1',
    plural: 'customresourcedefinitions',
    kind: 'CustomResourceDefinition',
    namespaced: false,
    generation: 'spec',
    unconditionalUpdate: false,
    fillDefaults: (object) => {
      object['status'] = {
        conditions: [
          { type: 'NamesAccepted', status: 'True', reason: 'NoConflicts', message: 'no conflicts found' },
          {
            type: 'Established',
            status: 'True',
            reason: 'InitialNamesAccepted',
            message: 'the initial names have been accepted',
          },
        ],
      }
    },
  },
]

const definition = z.object({
  spec: z.object({
    group: z.string(),
    scope: z.enum(['Namespaced', 'Cluster']),
    names: z.object({ kind: z.string(), plural: z.string() }),
    versions: z
      .array(
        z.object({
          name: z.string(),
          schema: z.object({
            openAPIV3Schema: z.custom<Schema>((value) => typeof value === 'object' && value !== null),
          }),
          subresources: z.object({ status: z.unknown().optional() }).default({}),
        }),
      )
      .min(1),
  }),
})

const known = new WeakMap<KubeObject, Kind>()

/** What a CustomResourceDefinition serves; of its versions only the first. Throws a ZodError where it is none. */
export function kindFromDefinition(object: KubeObject): Kind {
  const kind = known.get(object) ?? readDefinition(object)
  known.set(object, kind)
  return kind
}

function readDefinition(raw: Json): Kind {
  const { group, scope, names, versions } = definition.parse(raw).spec
  const [version] = versions
  if (!version) throw new Error(`The definition of ${names.plural} has no version.`)
  return {
    group,
    version: version.name,
    plural: names.plural,
    kind: names.kind,
    namespaced: scope === 'Namespaced',
    hasStatus: version.subresources.status !== undefined,
    generation: 'spec',
    custom: true,
    unconditionalUpdate: false,
    createOnUpdate: false,
    schema: version.schema.openAPIV3Schema,
    validateName: validateSubdomain,
    fillDefaults: () => undefined,
    validate: () => [],
  }
}
