import { z } from 'zod'
import { cutText } from '../../contract/clean-text.ts'
import { dnsLabel, dnsSubdomain, maxLabelLength, maxSubdomainLength } from '../../contract/names.ts'
import { isObject, parseSpec, type Parsed } from './parsed-spec.ts'
import { keptEntries, trimmed } from './raw-object.ts'

/** Where one kind of object lives in the API. */
export interface Resource {
  /** Empty for core/v1. */
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly kind: string
}

export const resources = {
  inferenceServices: {
    group: 'inference.llmkube.dev',
    version: 'v1alpha1',
    plural: 'inferenceservices',
    kind: 'InferenceService',
  },
  models: { group: 'inference.llmkube.dev', version: 'v1alpha1', plural: 'models', kind: 'Model' },
  services: { group: '', version: 'v1', plural: 'services', kind: 'Service' },
  endpoints: { group: '', version: 'v1', plural: 'endpoints', kind: 'Endpoints' },
  secrets: { group: '', version: 'v1', plural: 'secrets', kind: 'Secret' },
  events: { group: '', version: 'v1', plural: 'events', kind: 'Event' },
  namespaces: { group: '', version: 'v1', plural: 'namespaces', kind: 'Namespace' },
  endpointSlices: { group: 'discovery.k8s.io', version: 'v1', plural: 'endpointslices', kind: 'EndpointSlice' },
} as const satisfies Record<string, Resource>

export const apiVersionOf = ({ group, version }: Resource): string => (group === '' ? version : `${group}/${version}`)

const stringMap = z.record(z.string(), z.string())
const entries = z.preprocess(keptEntries, stringMap.default({}))

/** Refused where it is longer, since half a source is another source. */
const text = (max: number) => z.string().max(max, `must be at most ${max} characters`)
/** What stands in sentences, paths and addresses. */
const line = (max: number) => text(max).regex(/^\P{Cc}*$/u, 'must not contain control characters')
const listOf = <T extends z.ZodType>(item: T, max: number) => z.array(item).max(max, `must be at most ${max} entries`)
/** As our own conditions are at most. */
const maxToldBytes = 1_024
/** Of a status, which only informs: longer ones are cut. */
const told = z
  .string()
  .default('')
  .transform((message) => cutText(message, maxToldBytes))

export const ownerReference = z.object({
  apiVersion: z.string(),
  kind: z.string(),
  name: z.string(),
  uid: z.string(),
  controller: z.boolean().optional(),
  blockOwnerDeletion: z.boolean().optional(),
})
export type OwnerReference = z.infer<typeof ownerReference>

export const objectMeta = z.object({
  name: z.string().max(maxSubdomainLength).regex(dnsSubdomain, 'must be a name that Kubernetes allows'),
  /** Empty for what belongs to no namespace. */
  namespace: z
    .string()
    .max(maxLabelLength)
    .refine((name) => name === '' || dnsLabel.test(name), 'must be a name that Kubernetes allows')
    .default(''),
  uid: z.string(),
  resourceVersion: z.string(),
  generation: z.number().int().default(0),
  creationTimestamp: z.string().optional(),
  deletionTimestamp: z.string().optional(),
  labels: entries,
  annotations: entries,
  ownerReferences: z.array(ownerReference).default([]),
  managedFields: z
    .array(
      z.object({ manager: z.string().default(''), time: z.string().optional(), subresource: z.string().optional() }),
    )
    .default([]),
})
export type ObjectMeta = z.infer<typeof objectMeta>

/** What every cached object has, whatever its kind. */
export interface KubeObject {
  readonly metadata: ObjectMeta
}

const cacheType = line(63).min(1)
const int = z.number().int()
/** Nothing but whether it is there: it may be as large as an object can be. */
const presence = z
  .custom()
  .transform((): unknown => true)
  .optional()

/** The fields of `InferenceService.spec` that matter on a Mac; ranges as LLMKube's schema states them. */
export const inferenceServiceSpec = z.object({
  modelRef: line(253).default(''),
  runtime: line(253).optional(),
  replicas: int.min(0).max(10).default(1),
  suspend: z.boolean().default(false),
  priority: z.enum(['critical', 'high', 'normal', 'low', 'batch']).default('normal'),
  evictionProtection: z.boolean().default(false),
  contextSize: int.min(128).max(2_097_152).optional(),
  ropeScaling: z
    .object({
      type: z.enum(['linear', 'yarn', 'longrope']),
      factor: text(32)
        .regex(/^[0-9]+(\.[0-9]+)?$/)
        .optional(),
      originalContext: int.min(128).optional(),
    })
    .optional(),
  parallelSlots: int.min(1).max(64).optional(),
  flashAttention: z.boolean().optional(),
  jinja: z.boolean().optional(),
  cacheTypeK: cacheType.optional(),
  cacheTypeV: cacheType.optional(),
  cacheTypeCustomK: line(63).optional(),
  cacheTypeCustomV: line(63).optional(),
  moeCPUOffload: z.boolean().optional(),
  moeCPULayers: int.min(0).optional(),
  noKvOffload: z.boolean().optional(),
  noWarmup: z.boolean().optional(),
  reasoningBudget: int.min(0).optional(),
  reasoningBudgetMessage: text(4_096).optional(),
  metadataOverrides: listOf(text(1_024), 256).default([]),
  tensorOverrides: listOf(text(1_024), 256).default([]),
  batchSize: int.min(1).max(16_384).optional(),
  uBatchSize: int.min(1).optional(),
  mode: z.enum(['chat', 'embedding', 'rerank']).optional(),
  /** A chat template may be one of them. */
  extraArgs: listOf(text(16_384), 256).default([]),
  /** Only to know which Models it names. */
  speculativeDecoding: z
    .object({ draftModelRef: line(253).optional() })
    .optional()
    .catch(undefined),
  env: listOf(z.object({ name: line(256).min(1), value: text(16_384).optional(), valueFrom: presence }), 256).default(
    [],
  ),
  endpoint: z.object({ port: int.min(1).max(65_535).optional(), path: line(2_048).optional() }).optional(),
})
export type InferenceServiceSpec = z.infer<typeof inferenceServiceSpec>

export const modelSpec = z.object({
  source: line(2_048).default(''),
  format: line(63).default('gguf'),
  /** As in the names of files: Q4_K_M, UD-Q4_K_XL. Chooses among the files of a repository. */
  quantization: line(253).optional(),
  /** Of a source that names a repository or folder; the first is what the runtime is given. */
  files: listOf(line(1_024), 1_000).default([]),
  /** A multimodal projector, relative to the source as `files`. */
  mmproj: line(1_024).optional(),
  /** Of the first file, in hex. */
  sha256: z
    .string()
    .regex(/^[a-fA-F0-9]{64}$/, 'must be 64 hexadecimal digits')
    .optional(),
  refreshPolicy: z.enum(['IfNotPresent', 'OnChange']).default('IfNotPresent'),
  /** A Secret of the Model's namespace. An empty name is allowed by the API and means none. */
  sourceSecretRef: z.object({ name: line(253).default('') }).optional(),
  hardware: z
    .object({
      accelerator: line(63).default('cpu'),
      gpu: z.object({ layers: int.min(-1).optional() }).optional(),
      /** A quantity of memory, and a fraction of it; judged when a server is to be started. */
      memoryBudget: line(63).optional(),
      memoryFraction: z.number().optional(),
    })
    .optional(),
})
export type ModelSpec = z.infer<typeof modelSpec>

export const condition = z.object({
  type: z.string(),
  status: z.string(),
  reason: z.string().default(''),
  message: told,
  lastTransitionTime: z.string().optional(),
  observedGeneration: z.number().optional(),
})
export type Condition = z.infer<typeof condition>

const inferenceServiceStatus = z.object({
  phase: z.string().default(''),
  readyReplicas: int.default(0),
  desiredReplicas: int.default(0),
  schedulingStatus: z.string().default(''),
  schedulingMessage: told,
  conditions: z.array(condition).default([]),
})
export type InferenceServiceStatus = z.infer<typeof inferenceServiceStatus>

export interface InferenceService extends KubeObject {
  readonly spec: Parsed<InferenceServiceSpec>
  readonly status: InferenceServiceStatus
}

export interface Model extends KubeObject {
  readonly spec: Parsed<ModelSpec>
  readonly status: {
    readonly phase: string
    /** As the controller read the header. */
    readonly gguf?:
      { readonly layerCount?: number | undefined; readonly embeddingSize?: number | undefined } | undefined
  }
}

const servicePort = z.object({
  name: z.string().optional(),
  port: int,
  protocol: z.string().default('TCP'),
  targetPort: z.union([z.number(), z.string()]).optional(),
})

const service = z.object({
  metadata: objectMeta.extend({
    name: z.string().max(maxLabelLength).regex(dnsLabel, 'must be a name that Kubernetes allows for a Service'),
  }),
  spec: z
    .object({
      type: z.string().default('ClusterIP'),
      clusterIP: z.string().optional(),
      selector: stringMap.optional(),
      ports: z.array(servicePort).default([]),
    })
    .default({ type: 'ClusterIP', ports: [] }),
})
export type Service = z.infer<typeof service>

const endpointSlice = z.object({
  metadata: objectMeta,
  addressType: z.string(),
  endpoints: z
    .array(
      z.object({
        addresses: z.array(z.string()).default([]),
        conditions: z.object({ ready: z.boolean().nullish() }).nullish(),
      }),
    )
    .nullish()
    .transform((endpoints) => endpoints ?? []),
  ports: z
    .array(z.object({ name: z.string().nullish(), port: int.nullish(), protocol: z.string().nullish() }))
    .nullish()
    .transform((ports) => ports ?? []),
})
export type EndpointSlice = z.infer<typeof endpointSlice>

const envelope = z.object({ metadata: objectMeta, spec: z.unknown().optional(), status: z.unknown().optional() })

const modelStatus = z.object({
  phase: z.string().default(''),
  gguf: z
    .object({ layerCount: z.number().optional(), embeddingSize: z.number().optional() })
    .optional()
    .catch(undefined),
})

const readObjects: Readonly<Record<string, z.ZodType>> = {
  [resources.inferenceServices.kind]: envelope.extend({ spec: inferenceServiceSpec, status: inferenceServiceStatus }),
  [resources.models.kind]: envelope.extend({ spec: modelSpec, status: modelStatus }),
  [resources.services.kind]: service,
  [resources.endpointSlices.kind]: endpointSlice,
}

/** A raw object of this kind reduced to the fields that are read; of a kind without a parser here only the metadata are shortened. */
export function shortened(kind: string, raw: unknown): unknown {
  const schema = readObjects[kind]
  const object = schema ? trimmed(schema, raw) : raw
  if (!isObject(object) || !('metadata' in object) || !isObject(object.metadata)) return object
  const metadata = trimmed(objectMeta, object.metadata) as Readonly<Record<string, unknown>>
  const [labels, annotations] = [keptEntries(metadata['labels']), keptEntries(metadata['annotations'])]
  return { ...object, metadata: { ...metadata, labels, annotations } }
}

/** Throws a ZodError where the metadata is not an object's. */
const parseAs = <T>(schema: z.ZodType<T>, raw: unknown): T => schema.parse(trimmed(schema, raw))

/** Throws a ZodError where the metadata is not an object's. */
export function parseInferenceService(raw: unknown): InferenceService {
  const { metadata, spec, status } = parseAs(envelope, raw)
  return {
    metadata,
    spec: parseSpec('InferenceService', metadata, inferenceServiceSpec, spec),
    status:
      inferenceServiceStatus.safeParse(trimmed(inferenceServiceStatus, status ?? {})).data ??
      inferenceServiceStatus.parse({}),
  }
}

/** Throws a ZodError where the metadata is not an object's. */
export function parseModel(raw: unknown): Model {
  const { metadata, spec, status } = parseAs(envelope, raw)
  const { phase = '', gguf } = modelStatus.safeParse(status ?? {}).data ?? {}
  return { metadata, spec: parseSpec('Model', metadata, modelSpec, spec), status: { phase, ...(gguf && { gguf }) } }
}

/** What of a list can be read; an object whose metadata cannot is ignored, as it is in the caches. */
export const readable = <T>(items: readonly unknown[], parse: (raw: unknown) => T): T[] =>
  items.flatMap((item) => {
    try {
      return [parse(item)]
    } catch (error) {
      if (error instanceof z.ZodError) return []
      throw error
    }
  })

export const parseService = (raw: unknown): Service => parseAs(service, raw)
export const parseEndpointSlice = (raw: unknown): EndpointSlice => parseAs(endpointSlice, raw)
