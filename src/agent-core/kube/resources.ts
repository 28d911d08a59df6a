import { z } from 'zod'
import { cutText } from '../../contract/clean-text.ts'
import { dnsLabel, dnsSubdomain, maxLabelLength, maxSubdomainLength } from '../../contract/names.ts'

/** Longest list of any kind: the schema refuses a longer one without parsing its items. */
const maxItems = 1_000
/** Labels and annotations of others that are kept beside those that may mean something to us. */
const maxForeignEntries = 64
/** Bounds the memory that labels and annotations with our own prefixes can take; real objects have a handful. */
const maxMeaningEntries = 1_000
/** A claim, the longest of ours, has a tenth of it. */
const maxEntryLength = 4_096
const maxKeyLength = 317

/**
 * Label and annotation keys that mean something to us: those of LLMKube, Kueue, Kubernetes, GitOps tools and our own, with our label `app`.
 * A hostile writer's thousand others must not push these out.
 */
const meaning =
  /^(?:app$|(?:[\w-]+\.)*(?:metalbar\.dev|llmkube\.(?:ai|dev)|(?:x-)?k8s\.io|kubernetes\.io|argoproj\.io|fluxcd\.io|helm\.sh|k14s\.io|cattle\.io|gke\.io|crossplane\.io)\/)/

/** kubectl's second copy of every object it applied: never kept in memory. */
const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'

/**
 * What a schema knows of a raw object, and no more of its lists than it can allow, before the schema goes through it: an object may have
 * megabytes, in a hundred thousand keys, and the event loop serves every other model meanwhile. What is an object or a list where it
 * should be neither or the other loses its content, and stays as wrong as it was.
 */
const trimmed = (schema: z.ZodType, raw: unknown): unknown =>
  typeof raw === 'object' && raw !== null ? trimmerOf(schema)(raw) : raw

type Trimmer = (raw: object) => unknown

/** A schema is gone through once, not for each of a thousand objects. */
const trimmers = new WeakMap<z.ZodType, Trimmer>()

function trimmerOf(schema: z.ZodType): Trimmer {
  const known = trimmers.get(schema)
  if (known) return known
  const trimmer = newTrimmer(unwrapped(schema))
  trimmers.set(schema, trimmer)
  return trimmer
}

function newTrimmer(inner: z.ZodType): Trimmer {
  const asWrong: Trimmer = withoutInside.some((type) => inner instanceof type) ? emptied : (raw) => raw
  if (inner instanceof z.ZodArray) {
    const element = inner.element as z.ZodType
    return (raw) =>
      Array.isArray(raw) ? raw.slice(0, maxItems + 1).map((item: unknown) => trimmed(element, item)) : asWrong(raw)
  }
  if (!(inner instanceof z.ZodObject)) return asWrong
  const fields = Object.entries<z.ZodType>(inner.shape)
  return (raw) => {
    if (Array.isArray(raw)) return asWrong(raw)
    const kept: Record<string, unknown> = {}
    for (const [key, field] of fields) if (Object.hasOwn(raw, key)) kept[key] = trimmed(field, Reflect.get(raw, key))
    return kept
  }
}

/** Schemas for which what is inside of an object makes no difference, once lists and objects that fit were gone through. */
const withoutInside = [z.ZodArray, z.ZodObject, z.ZodString, z.ZodNumber, z.ZodBoolean, z.ZodEnum, z.ZodCustom]

const emptied = (raw: object): object => (Array.isArray(raw) ? [] : {})

function unwrapped(schema: z.ZodType): z.ZodType {
  if (schema instanceof z.ZodPipe) return unwrapped(schema.in as z.ZodType)
  const isWrapper =
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodNullable ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodCatch
  return isWrapper ? unwrapped(schema.unwrap() as z.ZodType) : schema
}

/** Labels or annotations, without those beyond the limits of length and number, which mean nothing here. */
export function keptEntries(raw: unknown): unknown {
  if (typeof raw !== 'object' || raw === null) return raw
  const kept: Record<string, unknown> = {}
  const room = { foreign: maxForeignEntries, meaning: maxMeaningEntries }
  // Pairs of a hundred thousand would take three times as long as their keys.
  for (const key of Object.keys(raw)) {
    if (key === lastApplied || key.length > maxKeyLength) continue
    const kind = meaning.test(key) ? 'meaning' : 'foreign'
    if (room[kind] === 0) continue
    const value: unknown = Reflect.get(raw, key)
    if (typeof value === 'string' && value.length > maxEntryLength) continue
    room[kind] -= 1
    kept[key] = typeof value === 'object' && value !== null ? emptied(value) : value
  }
  return kept
}

/** A spec that does not parse is kept as the sentence that says why, so that the object is not lost, and nothing new is begun for it. */
type Parsed<T> =
  | { readonly ok: true; readonly value: T }
  | {
      readonly ok: false
      readonly message: string
      /** What of it can be read; a field that cannot is as if it were not there. */
      readonly value: T
      /** The fields that cannot be read, such as `hardware.accelerator`. */
      readonly unread: readonly string[]
    }

interface Named {
  readonly namespace: string
  readonly name: string
}

function parseSpec<T>(kind: string, { namespace, name }: Named, schema: z.ZodType<T>, raw: unknown): Parsed<T> {
  const spec = trimmed(schema, raw ?? {})
  const result = schema.safeParse(spec)
  if (result.success) return { ok: true, value: result.data }
  const [issue] = result.error.issues
  const { value, unread } = readableOf(schema, spec)
  const field = ['spec', ...(issue?.path ?? [])].join('.')
  return {
    ok: false,
    message: `${kind} ${namespace}/${name} is not usable: ${field}: ${issue?.message ?? 'is not valid'}. Correct it and apply it again.`,
    value,
    unread,
  }
}

/** Removes one unreadable field after the other from a trimmed spec, which is a copy of our own; a list is removed as a whole. */
function readableOf<T>(schema: z.ZodType<T>, rest: unknown): { readonly value: T; readonly unread: readonly string[] } {
  const unread: string[] = []
  for (;;) {
    const result = schema.safeParse(rest)
    if (result.success) return { value: result.data, unread }
    const path = result.error.issues[0]?.path ?? []
    const end = path.findIndex((part) => typeof part !== 'string')
    const field = leaveOut(rest, (end === -1 ? path : path.slice(0, end)).map(String))
    if (!field) return { value: schema.parse({}), unread: [...unread, ''] }
    unread.push(field.join('.'))
  }
}

/** Where a required field is missing, the object that requires it is removed. Returns the field left out; undefined where there is none. */
function leaveOut(object: unknown, field: readonly string[]): readonly string[] | undefined {
  const name = field.at(-1)
  if (name === undefined) return undefined
  const place = field.slice(0, -1)
  const inside = place.reduce((outer, key) => (isObject(outer) ? Reflect.get(outer, key) : undefined), object)
  if (!isObject(inside) || !Object.hasOwn(inside, name)) return leaveOut(object, place)
  Reflect.deleteProperty(inside, name)
  return field
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null

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
  pods: { group: '', version: 'v1', plural: 'pods', kind: 'Pod' },
  secrets: { group: '', version: 'v1', plural: 'secrets', kind: 'Secret' },
  events: { group: '', version: 'v1', plural: 'events', kind: 'Event' },
  namespaces: { group: '', version: 'v1', plural: 'namespaces', kind: 'Namespace' },
  leases: { group: 'coordination.k8s.io', version: 'v1', plural: 'leases', kind: 'Lease' },
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
/** Longest message of a condition, as of our own. */
const maxStatusMessageBytes = 1_024
/** A message in a status, which only informs: cut rather than refused. */
const statusMessage = z
  .string()
  .default('')
  .transform((message) => cutText(message, maxStatusMessageBytes))

const ownerReference = z.object({
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
  managedFields: z.array(z.object({ time: z.string().optional(), subresource: z.string().optional() })).default([]),
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

/** In place of a `spec.speculativeDecoding` that cannot be read, which keeps no service from being served: it only makes answers come sooner. */
export const unreadSpeculation = { type: 'unreadable' } as const

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
  speculativeDecoding: z
    .object({
      type: line(64).optional(),
      /** One of `spec.files` of the Model that is served. */
      draftModel: line(253).optional(),
      /** A Model of the same namespace. */
      draftModelRef: line(253).optional(),
      nDraftMax: int.min(1).max(1_024).optional(),
      pMin: z.number().min(0).max(1).optional(),
    })
    .optional()
    .catch(unreadSpeculation),
  env: listOf(z.object({ name: line(256).min(1), value: text(16_384).optional(), valueFrom: presence }), 256).default(
    [],
  ),
  endpoint: z.object({ port: int.min(1).max(65_535).optional(), path: line(2_048).optional() }).optional(),
  /** What LLMKube's agent passes to oMLX. */
  turboQuantBits: presence,
  pagedSSDCacheDir: presence,
  hotCacheMaxSize: presence,
  pagedSSDCacheMaxSize: presence,
})
export type InferenceServiceSpec = z.infer<typeof inferenceServiceSpec>

export const modelSpec = z.object({
  source: line(2_048).default(''),
  format: line(63).default('gguf'),
  /** As in the names of files: Q4_K_M, UD-Q4_K_XL. Chooses among the files of a repository. */
  quantization: line(253).optional(),
  /** Files within a source that is a repository or folder; the runtime is given the first. */
  files: listOf(line(1_024), 1_000).default([]),
  /** A multimodal projector, relative to the source as `files`. */
  mmproj: line(1_024).optional(),
  /** Checksum of the first file. */
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

const condition = z.object({
  type: z.string(),
  status: z.string(),
  reason: z.string().default(''),
  message: statusMessage,
  lastTransitionTime: z.string().optional(),
  observedGeneration: z.number().optional(),
})
export type Condition = z.infer<typeof condition>

const inferenceServiceStatus = z.object({
  phase: z.string().default(''),
  readyReplicas: int.default(0),
  desiredReplicas: int.default(0),
  schedulingStatus: z.string().default(''),
  schedulingMessage: statusMessage,
  conditions: z.array(condition).default([]),
})
type InferenceServiceStatus = z.infer<typeof inferenceServiceStatus>

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

const lease = z.object({
  metadata: objectMeta,
  spec: z
    .object({
      holderIdentity: z.string().max(1_000).nullish(),
      renewTime: z.string().max(100).nullish(),
      leaseTransitions: int.nullish(),
    })
    .default({}),
})
export type Lease = z.infer<typeof lease>

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
  [resources.leases.kind]: lease,
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
export const parseLease = (raw: unknown): Lease => parseAs(lease, raw)
