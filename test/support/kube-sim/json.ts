import { isDeepStrictEqual } from 'node:util'

export type Json = null | boolean | number | string | Json[] | JsonObject
export type JsonObject = { [key: string]: Json }

export type OwnerReference = {
  apiVersion: string
  kind: string
  name: string
  uid: string
  controller?: boolean
  blockOwnerDeletion?: boolean
}

export type ManagedFieldsEntry = {
  manager: string
  operation: 'Apply' | 'Update'
  apiVersion: string
  time: string
  fieldsType: 'FieldsV1'
  fieldsV1: JsonObject
  subresource?: string
}

export type ObjectMeta = {
  name: string
  generateName?: string
  namespace?: string
  uid: string
  resourceVersion: string
  generation?: number
  creationTimestamp: string
  deletionTimestamp?: string
  deletionGracePeriodSeconds?: number
  labels?: Record<string, string>
  annotations?: Record<string, string>
  ownerReferences?: OwnerReference[]
  finalizers?: string[]
  managedFields?: ManagedFieldsEntry[]
}

/** An object as the store holds it: never changed in place, replaced as a whole. */
export type KubeObject = {
  apiVersion: string
  kind: string
  metadata: ObjectMeta
  [field: string]: Json
}

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The child object under `key`, or an empty one that is not attached. */
export function childOf(parent: Json | undefined, key: string): JsonObject {
  const child = isObject(parent) ? parent[key] : undefined
  return isObject(child) ? child : {}
}

export const itemsOf = (parent: Json | undefined, key: string): Json[] => {
  const child = isObject(parent) ? parent[key] : undefined
  return Array.isArray(child) ? child : []
}

export const textOf = (parent: Json | undefined, key: string): string | undefined => {
  const child = isObject(parent) ? parent[key] : undefined
  return typeof child === 'string' ? child : undefined
}

export const isSame: (left: unknown, right: unknown) => boolean = isDeepStrictEqual

/** Throws a SyntaxError. */
export function parseJson(text: string): Json {
  // JSON.parse returns `any`; what it returns is Json by definition.
  return JSON.parse(text) as Json
}

/** One text for one value, whatever the order of its keys. */
export function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (!isObject(value)) return JSON.stringify(value)
  const members = Object.keys(value).sort()
  return `{${members.map((key) => `${JSON.stringify(key)}:${canonical(value[key] ?? null)}`).join(',')}}`
}

/** Go writes timestamps with whole seconds. */
export const timestamp = (epochMs: number): string => new Date(epochMs).toISOString().replace(/\.\d+Z$/, 'Z')

/** A shallow copy that lacks these members. */
export const without = (object: JsonObject, ...names: readonly string[]): JsonObject =>
  Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)))

/** RFC 7386: null removes, lists are replaced whole. */
export function mergePatch(target: Json | undefined, patch: Json): Json {
  if (!isObject(patch)) return patch
  const merged = isObject(target) ? { ...target } : {}
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) Reflect.deleteProperty(merged, key)
    else merged[key] = mergePatch(merged[key], value)
  }
  return merged
}
