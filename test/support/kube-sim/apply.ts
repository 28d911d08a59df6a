import { isObject, type Json, type JsonObject, type KubeObject, type ManagedFieldsEntry, without } from './json.ts'
import {
  changedPaths,
  decodeFields,
  depth,
  dotted,
  elementOf,
  encodeFields,
  fieldsOf,
  isGranularList,
  isKept,
  pathOf,
  removePath,
} from './field-paths.ts'
import { metadataSchema, type Kind } from './kinds.ts'
import { memberSchema, type Schema } from './schema.ts'
import { StatusError } from './status-error.ts'

/** The writer, and the endpoint it writes through: together they are one entry of `managedFields`. */
export interface Writer {
  readonly manager: string
  readonly apiVersion: string
  readonly subresource: string
  readonly now: string
}

/**
 * Server-side apply: merges `config` into `live`, drops what this manager applied before and does not now (unless another
 * manager has it too), and refuses to change what others own. Throws a 409 StatusError, without `force`.
 */
export function applyConfig(
  kind: Kind,
  live: KubeObject | undefined,
  config: KubeObject,
  writer: Writer & { readonly force: boolean },
): KubeObject {
  const schema = schemaOf(kind)
  const managers = decodeManagers(live)
  const self = managerKey({ ...writer, operation: 'Apply' })
  const wanted = fieldsOf(writable(kind, config, writer.subresource), schema)
  const merged = mergeApplied(live ?? {}, writable(kind, config, writer.subresource), schema)
  const { apiVersion, kind: kindName } = config
  const result = {
    apiVersion,
    kind: kindName,
    ...(isObject(merged) ? merged : {}),
    metadata: mergedMeta(live, config, merged),
  }

  const others = [...managers].filter(([key]) => key !== self).map(([, manager]) => manager)
  const kept = [...wanted.keys(), ...others.flatMap(({ fields }) => [...fields])]
  const dropped = [...(managers.get(self)?.fields ?? [])].filter((path) => !isKept(path, kept))
  for (const path of dropped.sort((left, right) => depth(left) - depth(right))) removePath(result, pathOf(path), schema)

  const before = live ? fieldsOf(ownable(kind, live), schema) : new Map<string, string>()
  const after = fieldsOf(ownable(kind, result), schema)
  const changed = changedPaths(before, after)
  const clashes = others.flatMap(({ entry, fields }) =>
    [...fields].filter((path) => changed.has(path)).map((path) => ({ entry, path })),
  )
  if (clashes.length > 0 && !writer.force) throw applyConflict(clashes)
  release(managers, self, changed, before, after)
  const known = managers.get(self)
  const isSameClaim = known?.fields.size === wanted.size && [...wanted.keys()].every((path) => known.fields.has(path))
  const isIdle = live !== undefined && isSameClaim && changed.size === 0 && before.size === after.size
  managers.set(self, {
    fields: new Set(wanted.keys()),
    entry: entryOf(writer, 'Apply', isIdle ? known.entry.time : writer.now),
  })
  return withManagers(result, managers)
}

/** What any other write does to the ownership of fields: the writer takes what it changed. */
export function trackUpdate(kind: Kind, before: KubeObject | undefined, after: KubeObject, writer: Writer): KubeObject {
  const schema = schemaOf(kind)
  const managers = decodeManagers(before)
  const self = managerKey({ ...writer, operation: 'Update' })
  const old = before ? fieldsOf(ownable(kind, before), schema) : new Map<string, string>()
  const now = fieldsOf(ownable(kind, after), schema)
  const changed = changedPaths(old, now)
  release(managers, self, changed, old, now)
  if (changed.size > 0) {
    const known = managers.get(self)
    managers.set(self, {
      fields: new Set([...(known?.fields ?? []), ...changed]),
      entry: entryOf(writer, 'Update', writer.now),
    })
  }
  return withManagers(after, managers)
}

interface Manager {
  fields: Set<string>
  entry: ManagedFieldsEntry
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

const schemaOf = (kind: Kind): Schema => ({
  ...kind.schema,
  properties: { ...kind.schema.properties, metadata: metadataSchema },
})

/** The part of an object that managers can own. */
function ownable(kind: Kind, object: KubeObject): JsonObject {
  const rest = without(object, 'apiVersion', 'kind', 'metadata')
  const meta = without(object.metadata, ...serverOwned)
  const assigned =
    kind.kind === 'Service' && isObject(rest['spec']) ? { ...rest, spec: withoutAllocated(rest['spec']) } : rest
  return Object.keys(meta).length > 0 ? { metadata: meta, ...assigned } : assigned
}

const withoutAllocated = (spec: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(spec).filter(
      ([name]) => !['clusterIP', 'clusterIPs', 'ipFamilies', 'ipFamilyPolicy'].includes(name),
    ),
  )

/** Of that, what a write through this door reaches. */
function writable(kind: Kind, object: KubeObject, subresource: string): JsonObject {
  const all = ownable(kind, object)
  if (subresource === 'status') return all['status'] === undefined ? {} : { status: all['status'] }
  if (!kind.hasStatus) return all
  return without(all, 'status')
}

function mergedMeta(live: KubeObject | undefined, config: KubeObject, merged: Json): KubeObject['metadata'] {
  const meta = isObject(merged) ? merged['metadata'] : undefined
  return { ...(live ?? config).metadata, ...(isObject(meta) ? meta : {}), ...preconditionsOf(config) }
}

/** A uid or resourceVersion in the applied object is a condition on the write. */
function preconditionsOf({ metadata }: KubeObject): Partial<Pick<KubeObject['metadata'], 'uid' | 'resourceVersion'>> {
  return {
    ...(metadata.uid ? { uid: metadata.uid } : {}),
    ...(metadata.resourceVersion ? { resourceVersion: metadata.resourceVersion } : {}),
  }
}

function mergeApplied(live: Json, config: Json, schema: Schema | undefined): Json {
  if (isObject(live) && isObject(config) && schema?.['x-kubernetes-map-type'] !== 'atomic') {
    const merged = { ...live }
    for (const [name, member] of Object.entries(config)) {
      const own = live[name]
      merged[name] = own === undefined ? member : mergeApplied(own, member, memberSchema(schema, name))
    }
    return structuredClone(merged)
  }
  if (Array.isArray(live) && Array.isArray(config) && schema && isGranularList(schema)) {
    const applied = new Map(config.map((item) => [elementOf(item, schema), item]))
    const updated = live.map((item) => {
      const key = elementOf(item, schema)
      const change = applied.get(key)
      applied.delete(key)
      return change === undefined ? item : mergeApplied(item, change, schema.items)
    })
    return [...updated, ...applied.values()]
  }
  return config
}

/** Takes what was changed from the other managers, and what is gone from all of them. */
function release(
  managers: Map<string, Manager>,
  self: string,
  changed: ReadonlySet<string>,
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): void {
  for (const [key, manager] of managers) {
    manager.fields = new Set(
      [...manager.fields].filter((path) => {
        const isTaken = key !== self && changed.has(path)
        const isGone = before.has(path) && !after.has(path)
        return !isTaken && !isGone
      }),
    )
    if (manager.fields.size === 0 && key !== self) managers.delete(key)
  }
}

function applyConflict(clashes: readonly { entry: ManagedFieldsEntry; path: string }[]): StatusError {
  const fieldsBy = Map.groupBy(clashes, ({ entry }) => whoIs(entry))
  const lists = [...fieldsBy].map(([who, fields]) => {
    const [first] = fields
    if (fields.length === 1 && first) return `conflict with ${who}: ${dotted(first.path)}`
    return [`conflicts with ${who}:`, ...fields.map(({ path }) => `- ${dotted(path)}`)].join('\n')
  })
  const count = `${clashes.length} conflict${clashes.length === 1 ? '' : 's'}`
  return new StatusError(409, 'Conflict', `Apply failed with ${count}: ${lists.join('\n')}`, {
    details: {
      causes: clashes.map(({ entry, path }) => ({
        reason: 'FieldManagerConflict',
        message: `conflict with ${whoIs(entry)}`,
        field: dotted(path),
      })),
    },
  })
}

/** The version is only said of a manager that did not apply. */
function whoIs({ manager, subresource, apiVersion, operation }: ManagedFieldsEntry): string {
  const door = subresource === undefined ? '' : ` with subresource ${JSON.stringify(subresource)}`
  return `${JSON.stringify(manager)}${door}${operation === 'Update' ? ` using ${apiVersion}` : ''}`
}

const managerKey = (entry: { manager: string; operation: string; apiVersion: string; subresource?: string }): string =>
  JSON.stringify([entry.manager, entry.operation, entry.apiVersion, entry.subresource ?? ''])

const entryOf = (writer: Writer, operation: 'Apply' | 'Update', time: string): ManagedFieldsEntry => ({
  manager: writer.manager,
  operation,
  apiVersion: writer.apiVersion,
  time,
  fieldsType: 'FieldsV1',
  fieldsV1: {},
  ...(writer.subresource === '' ? {} : { subresource: writer.subresource }),
})

const decodeManagers = (object: KubeObject | undefined): Map<string, Manager> =>
  new Map(
    (object?.metadata.managedFields ?? []).map((entry) => [
      managerKey(entry),
      { entry, fields: new Set(decodeFields(entry.fieldsV1)) },
    ]),
  )

function withManagers(object: KubeObject, managers: ReadonlyMap<string, Manager>): KubeObject {
  const entries = [...managers.values()]
    .filter(({ fields }) => fields.size > 0)
    .map(({ entry, fields }) => ({ ...entry, fieldsV1: encodeFields(fields) }))
    .sort((left, right) => left.operation.localeCompare(right.operation) || left.time.localeCompare(right.time))
  const metadata = { ...object.metadata }
  if (entries.length > 0) metadata.managedFields = entries
  else delete metadata.managedFields
  return { ...object, metadata }
}
