import { canonical, isObject, parseJson, type Json, type JsonObject } from './json.ts'
import { listMapKey, memberSchema, type Schema } from './schema.ts'

/** A path is written as its `FieldsV1` elements, joined by what no element contains. */
const separator = '\n'

/** Every path that can have an owner, with its value: leaves, items of keyed lists, empty containers. */
export function fieldsOf(
  value: Json,
  schema: Schema | undefined,
  path: readonly string[] = [],
  out = new Map<string, string>(),
): Map<string, string> {
  const own = path.join(separator)
  if (isObject(value) && schema?.['x-kubernetes-map-type'] !== 'atomic') {
    const members = Object.entries(value)
    if (members.length === 0 && path.length > 0) out.set(own, '{}')
    for (const [name, member] of members) fieldsOf(member, memberSchema(schema, name), [...path, `f:${name}`], out)
  } else if (Array.isArray(value) && schema && isGranularList(schema)) {
    if (value.length === 0) out.set(own, '[]')
    for (const item of value) {
      const itemPath = [...path, elementOf(item, schema)]
      out.set(itemPath.join(separator), '')
      if (isObject(item)) fieldsOf(item, schema.items, itemPath, out)
    }
  } else {
    out.set(own, canonical(value))
  }
  return out
}

export const isGranularList = (schema: Schema): boolean =>
  schema['x-kubernetes-list-type'] === 'map' || schema['x-kubernetes-list-type'] === 'set'

export const elementOf = (item: Json, schema: Schema): string =>
  schema['x-kubernetes-list-type'] === 'set' ? `v:${canonical(item)}` : `k:${canonical(listMapKey(item, schema))}`

export const changedPaths = (before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): Set<string> =>
  new Set([...after].filter(([path, value]) => before.get(path) !== value).map(([path]) => path))

/** Whether the path, or one below it, is among those. */
export const isKept = (path: string, kept: readonly string[]): boolean =>
  kept.some((other) => other === path || other.startsWith(path + separator))

/** Removes in place; a container that becomes empty goes too. */
export function removePath(value: Json, [element = '', ...rest]: readonly string[], schema: Schema | undefined): void {
  if (isObject(value) && element.startsWith('f:')) {
    const name = element.slice(2)
    const member = value[name]
    if (member === undefined) return
    if (rest.length === 0) Reflect.deleteProperty(value, name)
    else {
      removePath(member, rest, memberSchema(schema, name))
      if (isEmpty(member)) Reflect.deleteProperty(value, name)
    }
  } else if (Array.isArray(value) && schema) {
    const index = value.findIndex((item) => elementOf(item, schema) === element)
    if (index < 0) return
    if (rest.length === 0) value.splice(index, 1)
    else removePath(value[index] ?? null, rest, schema.items)
  }
}

const isEmpty = (value: Json): boolean =>
  Array.isArray(value) ? value.length === 0 : isObject(value) && Object.keys(value).length === 0

/** As conflicts name a path: `.status.conditions[type="Ready"].reason`. */
export const dotted = (path: string): string =>
  pathOf(path)
    .map((element) => {
      if (element.startsWith('f:')) return `.${element.slice(2)}`
      const inner = element.slice(2)
      if (element.startsWith('v:')) return `[=${inner}]`
      const key = parseJson(inner)
      return `[${Object.entries(isObject(key) ? key : {})
        .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
        .join(',')}]`
    })
    .join('')

/** The tree that `managedFields` shows. */
export function encodeFields(paths: Iterable<string>): JsonObject {
  const root: JsonObject = {}
  const known = new Set(paths)
  for (const path of known) {
    let node = root
    const walked: string[] = []
    for (const element of pathOf(path)) {
      const next = node[element]
      const child: JsonObject = isObject(next) ? next : {}
      node[element] = child
      walked.push(element)
      if (known.has(walked.join(separator)) && walked.length < depth(path)) child['.'] = {}
      node = child
    }
  }
  return root
}

export function* decodeFields(tree: JsonObject, path: readonly string[] = []): Generator<string> {
  const members = Object.entries(tree)
  if (members.length === 0 && path.length > 0) yield path.join(separator)
  for (const [element, child] of members) {
    if (element === '.') yield path.join(separator)
    else if (isObject(child)) yield* decodeFields(child, [...path, element])
  }
}

export const depth = (path: string): number => path.split(separator).length

export const pathOf = (path: string): string[] => path.split(separator)
