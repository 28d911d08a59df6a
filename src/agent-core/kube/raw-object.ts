import { z } from 'zod'

/** Of a list of any kind: what has more is refused by its schema, and is not looked at item by item before. */
const maxItems = 1_000
/** Labels and annotations of others that are kept beside those that may mean something to us. */
const maxForeignEntries = 64
/** Bounds the memory that labels and annotations with our own prefixes can take; real objects have a handful. */
const maxMeaningEntries = 1_000
/** A claim, the longest of ours, has a tenth of it. */
const maxEntryLength = 4_096
const maxKeyLength = 317

/**
 * Of LLMKube, Kueue, Kubernetes, tools that keep objects as a repository has them, and ours, with our label `app`: a hostile writer's
 * thousand others must not push these out.
 */
const meaning =
  /^(?:app$|(?:[\w-]+\.)*(?:metalbar\.dev|llmkube\.(?:ai|dev)|(?:x-)?k8s\.io|kubernetes\.io|argoproj\.io|fluxcd\.io|helm\.sh|k14s\.io|cattle\.io|gke\.io|crossplane\.io)\/)/

/** Of every object that was applied with kubectl, a second copy: kept in no memory. */
const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'

/**
 * What a schema knows of a raw object, and no more of its lists than it can allow, before the schema goes through it: an object may have
 * megabytes, in a hundred thousand keys, and the event loop serves every other model meanwhile. What is an object or a list where it
 * should be neither or the other loses its content, and stays as wrong as it was.
 */
export const trimmed = (schema: z.ZodType, raw: unknown): unknown =>
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
