import {
  isObject,
  isSame,
  type Json,
  type JsonObject,
  type KubeObject,
  type ManagedFieldsEntry,
  without,
} from './json.ts'
import type { Kind } from './kinds.ts'
import { isGranularList, itemKey, memberSchema, type Schema } from './schema.ts'

/** The writer, and the endpoint it writes through: together they are one entry of `managedFields`. */
export interface Writer {
  readonly manager: string
  readonly apiVersion: string
  readonly subresource: string
  readonly now: string
}

/**
 * Server-side apply by force: merges `config` into `live`, and drops what this manager applied before and does not now. No field is kept
 * for another manager that applied it too: managers here have fields of their own.
 */
export function applyConfig(kind: Kind, live: KubeObject | undefined, config: KubeObject, writer: Writer): KubeObject {
  const wanted = writable(kind, config, writer.subresource)
  const entry = entryOf(writer, 'Apply', wanted)
  const known = live?.metadata.managedFields?.find((one) => isOfSame(one, entry))
  const { apiVersion, kind: kindName, metadata } = live ?? config
  const rest = live ? without(live, 'metadata') : {}
  const merged = mergeApplied({ ...rest, metadata }, wanted, kind.schema)
  if (known) dropApplied(merged, known.fieldsV1, wanted, kind.schema)
  const { uid, resourceVersion } = config.metadata
  const given = { ...(uid === '' ? {} : { uid }), ...(resourceVersion === '' ? {} : { resourceVersion }) }
  const fields = isObject(merged) ? merged : {}
  const mergedMeta = isObject(fields['metadata']) ? fields['metadata'] : {}
  const result = { ...fields, apiVersion, kind: kindName, metadata: { ...metadata, ...mergedMeta, ...given } }
  return withEntry(result, entry)
}

/** Notes the writer of any other write that changed something. */
export function trackUpdate(kind: Kind, before: KubeObject | undefined, after: KubeObject, writer: Writer): KubeObject {
  const isIdle = before !== undefined && isSame(ownable(before), ownable(after))
  return isIdle ? after : withEntry(after, entryOf(writer, 'Update', {}))
}

const serverOwned = [
  'name',
  'generateName',
  'namespace',
  'uid',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'managedFields',
]

/** The part of an object that managers can own. */
function ownable(object: KubeObject): JsonObject {
  const rest = without(object, 'apiVersion', 'kind', 'metadata')
  const meta = without(object.metadata, ...serverOwned)
  return Object.keys(meta).length > 0 ? { metadata: meta, ...rest } : rest
}

/** Of that, what a write through this door reaches. */
function writable(kind: Kind, object: KubeObject, subresource: string): JsonObject {
  const all = ownable(object)
  if (subresource === 'status') return all['status'] === undefined ? {} : { status: all['status'] }
  return kind.hasStatus ? without(all, 'status') : all
}

function mergeApplied(live: Json, config: Json, schema: Schema | undefined): Json {
  if (isObject(live) && isObject(config)) {
    const merged = { ...live }
    for (const [name, member] of Object.entries(config)) {
      const own = live[name]
      merged[name] = own === undefined ? member : mergeApplied(own, member, memberSchema(schema, name))
    }
    return structuredClone(merged)
  }
  if (!Array.isArray(live) || !Array.isArray(config) || !schema || !isGranularList(schema)) return config
  const applied = new Map(config.map((item) => [itemKey(item, schema), item]))
  const updated = live.map((item) => {
    const key = itemKey(item, schema)
    const change = applied.get(key)
    applied.delete(key)
    return change === undefined ? item : mergeApplied(item, change, schema.items)
  })
  return [...updated, ...applied.values()]
}

/** Removes from `target`, in place, what `before` has and `wanted` has not. */
function dropApplied(
  target: Json | undefined,
  before: Json,
  wanted: Json | undefined,
  schema: Schema | undefined,
): void {
  if (isObject(target) && isObject(before)) {
    for (const [name, member] of Object.entries(before)) {
      const next = isObject(wanted) ? wanted[name] : undefined
      if (next === undefined && !isObject(member)) Reflect.deleteProperty(target, name)
      else dropApplied(target[name], member, next, memberSchema(schema, name))
    }
  } else if (Array.isArray(target) && Array.isArray(before) && schema && isGranularList(schema)) {
    const kept = new Set((Array.isArray(wanted) ? wanted : []).map((item) => itemKey(item, schema)))
    const gone = new Set(before.map((item) => itemKey(item, schema)).filter((key) => !kept.has(key)))
    target.splice(0, target.length, ...target.filter((item) => !gone.has(itemKey(item, schema))))
  }
}

const isOfSame = (one: ManagedFieldsEntry, other: ManagedFieldsEntry): boolean =>
  one.manager === other.manager && one.operation === other.operation && one.subresource === other.subresource

/** `fieldsV1` has what was applied last in place of the paths of what a manager owns, which nobody here reads. */
const entryOf = (writer: Writer, operation: 'Apply' | 'Update', applied: JsonObject): ManagedFieldsEntry => ({
  ...{ manager: writer.manager, operation, apiVersion: writer.apiVersion, time: writer.now },
  ...{ fieldsType: 'FieldsV1', fieldsV1: applied },
  ...(writer.subresource === '' ? {} : { subresource: writer.subresource }),
})

function withEntry(object: KubeObject, entry: ManagedFieldsEntry): KubeObject {
  const others = (object.metadata.managedFields ?? []).filter((one) => !isOfSame(one, entry))
  const managedFields = [...others, entry].sort((left, right) => left.operation.localeCompare(right.operation))
  return { ...object, metadata: { ...object.metadata, managedFields } }
}
