import { isObject, isSame, type Json } from './json.ts'
import { badRequest, StatusError } from './status-error.ts'

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

/** RFC 6902. Throws a StatusError: 400 where it is no JSON patch, 422 where it does not fit the object. */
export function jsonPatch(target: Json, operations: Json): Json {
  if (!Array.isArray(operations))
    throw badRequest('json: cannot unmarshal object into Go value of type jsonpatch.Patch')
  let document = structuredClone(target)
  for (const operation of operations) document = applyOperation(document, operation)
  return document
}

function applyOperation(document: Json, operation: Json): Json {
  if (!isObject(operation)) throw badRequest('a JSON patch is a list of operations')
  const { op, path, from, value } = operation
  if (typeof path !== 'string') throw badRequest('a JSON patch operation needs a path')
  switch (op) {
    case 'add':
      return insert(document, pointer(path), value ?? null)
    case 'remove':
      return remove(document, pointer(path))
    case 'replace':
      at(document, pointer(path))
      return insert(remove(document, pointer(path)), pointer(path), value ?? null)
    case 'move':
    case 'copy': {
      if (typeof from !== 'string') throw badRequest(`a JSON patch "${op}" needs a "from"`)
      const moved = structuredClone(at(document, pointer(from)))
      return insert(op === 'move' ? remove(document, pointer(from)) : document, pointer(path), moved)
    }
    case 'test': {
      const actual = find(document, pointer(path))
      if (!isSame(actual ?? null, value ?? null)) throw unfit()
      return document
    }
    default:
      throw badRequest(`Unexpected kind: ${JSON.stringify(op ?? null)}`)
  }
}

/** The real server does not say what did not fit. */
const unfit = (): StatusError =>
  new StatusError(422, 'Invalid', 'the server rejected our request due to an error in our request')

function pointer(path: string): string[] {
  if (path === '') return []
  return path
    .slice(1)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
}

function find(document: Json, path: readonly string[]): Json | undefined {
  let current: Json | undefined = document
  for (const part of path) {
    if (Array.isArray(current)) current = current[Number(part)]
    else current = isObject(current) ? current[part] : undefined
  }
  return current
}

function at(document: Json, path: readonly string[]): Json {
  const value = find(document, path)
  if (value === undefined) throw unfit()
  return value
}

/** Changes `document` in place, where it is not replaced as a whole. */
function insert(document: Json, path: readonly string[], value: Json): Json {
  const last = path.at(-1)
  if (last === undefined) return value
  const parent = at(document, path.slice(0, -1))
  if (Array.isArray(parent)) parent.splice(last === '-' ? parent.length : Number(last), 0, value)
  else if (isObject(parent)) parent[last] = value
  else throw unfit()
  return document
}

function remove(document: Json, path: readonly string[]): Json {
  at(document, path)
  const last = path.at(-1)
  if (last === undefined) return {}
  const parent = at(document, path.slice(0, -1))
  if (Array.isArray(parent)) parent.splice(Number(last), 1)
  else if (isObject(parent)) Reflect.deleteProperty(parent, last)
  return document
}
