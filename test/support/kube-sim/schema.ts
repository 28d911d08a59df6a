import { canonical, isObject, type Json, type JsonObject } from './json.ts'
import { fieldDuplicate, fieldInvalid, fieldRequired, fieldUnsupported, type FieldError } from './status-error.ts'

/** The part of a structural OpenAPI schema that the sim understands; a CRD may carry more, which is ignored. */
export interface Schema {
  readonly type?: 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean'
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: Schema | boolean
  readonly items?: Schema
  readonly required?: readonly string[]
  readonly default?: Json
  readonly enum?: readonly Json[]
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly nullable?: boolean
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean
  readonly 'x-kubernetes-int-or-string'?: boolean
  readonly 'x-kubernetes-list-type'?: 'atomic' | 'map' | 'set'
  readonly 'x-kubernetes-list-map-keys'?: readonly string[]
}

/** The schema of one member; undefined where the schema says nothing about it. */
export function memberSchema(schema: Schema | undefined, name: string): Schema | undefined {
  const own = schema?.properties?.[name]
  if (own) return own
  return typeof schema?.additionalProperties === 'object' ? schema.additionalProperties : undefined
}

/** Fills in defaults, in place. A null where the schema has a default counts as absent, as in the real server. */
export function fillDefaults(value: Json, schema: Schema): void {
  if (Array.isArray(value)) {
    for (const item of value) if (schema.items) fillDefaults(item, schema.items)
    return
  }
  if (!isObject(value)) return
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    if (property.default !== undefined && (value[name] ?? null) === null && property.nullable !== true) {
      value[name] = structuredClone(property.default)
    }
    const member = value[name]
    if (member !== undefined) fillDefaults(member, property)
  }
}

/** Drops what the schema does not know, in place, unless it says to keep it. */
export function prune(value: Json, schema: Schema): void {
  if (Array.isArray(value)) {
    for (const item of value) if (schema.items) prune(item, schema.items)
    return
  }
  if (!isObject(value)) return
  for (const [name, member] of Object.entries(value)) {
    const known = memberSchema(schema, name)
    if (known) prune(member, known)
    else if (schema['x-kubernetes-preserve-unknown-fields'] !== true && schema.properties) {
      Reflect.deleteProperty(value, name)
    }
  }
}

export function validateSchema(value: Json, schema: Schema, field: string): FieldError[] {
  if (value === null && schema.nullable === true) return []
  const wrongType = typeError(value, schema, field)
  if (wrongType) return [wrongType]
  if (schema.enum && !schema.enum.some((allowed) => canonical(allowed) === canonical(value))) {
    return [fieldUnsupported(field, JSON.stringify(value), schema.enum.map(plain))]
  }
  if (typeof value === 'string') return textErrors(value, schema, field)
  if (typeof value === 'number') return numberErrors(value, schema, field)
  if (Array.isArray(value)) return listErrors(value, schema, field)
  if (isObject(value)) return objectErrors(value, schema, field)
  return []
}

function typeError(value: Json, schema: Schema, field: string): FieldError | undefined {
  if (schema['x-kubernetes-int-or-string'] === true || schema.type === undefined) return undefined
  const actual = typeOf(value)
  if (actual === schema.type || (schema.type === 'number' && actual === 'integer')) return undefined
  return fieldInvalid(
    field,
    JSON.stringify(actual),
    `${field} in body must be of type ${schema.type}: ${JSON.stringify(actual)}`,
  )
}

function typeOf(value: Json): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number'
  return typeof value
}

const plain = (value: Json): string => (typeof value === 'string' ? value : JSON.stringify(value))

function textErrors(value: string, schema: Schema, field: string): FieldError[] {
  const errors: FieldError[] = []
  const refuse = (why: string) => errors.push(fieldInvalid(field, JSON.stringify(value), `${field} in body ${why}`))
  if (schema.minLength !== undefined && value.length < schema.minLength) {
    refuse(`should be at least ${schema.minLength} chars long`)
  }
  if (schema.maxLength !== undefined && value.length > schema.maxLength) {
    errors.push(fieldInvalid(field, JSON.stringify(value), `may not be more than ${schema.maxLength} bytes`))
  }
  if (schema.pattern !== undefined && !new RegExp(schema.pattern).test(value))
    refuse(`should match '${schema.pattern}'`)
  return errors
}

function numberErrors(value: number, schema: Schema, field: string): FieldError[] {
  if (schema.minimum !== undefined && value < schema.minimum) {
    return [fieldInvalid(field, String(value), `${field} in body should be greater than or equal to ${schema.minimum}`)]
  }
  if (schema.maximum !== undefined && value > schema.maximum) {
    return [fieldInvalid(field, String(value), `${field} in body should be less than or equal to ${schema.maximum}`)]
  }
  return []
}

function listErrors(value: readonly Json[], schema: Schema, field: string): FieldError[] {
  const errors = value.flatMap((item, index) =>
    schema.items ? validateSchema(item, schema.items, `${field}[${index}]`) : [],
  )
  if (schema['x-kubernetes-list-type'] !== 'map') return errors
  const seen = new Set<string>()
  value.forEach((item, index) => {
    const key = canonical(listMapKey(item, schema))
    if (seen.has(key)) errors.push(fieldDuplicate(`${field}[${index}]`, key))
    seen.add(key)
  })
  return errors
}

export const isGranularList = (schema: Schema): boolean =>
  schema['x-kubernetes-list-type'] === 'map' || schema['x-kubernetes-list-type'] === 'set'

/** What identifies an item of a granular list, as a text. */
export const itemKey = (item: Json, schema: Schema): string =>
  canonical(schema['x-kubernetes-list-type'] === 'set' ? item : listMapKey(item, schema))

/** What identifies one item of a list whose type is `map`; a key with a default need not be written. */
function listMapKey(item: Json, schema: Schema): JsonObject {
  const key: JsonObject = {}
  for (const name of schema['x-kubernetes-list-map-keys'] ?? []) {
    const value = (isObject(item) ? item[name] : undefined) ?? schema.items?.properties?.[name]?.default
    if (value !== undefined) key[name] = value
  }
  return key
}

function objectErrors(value: JsonObject, schema: Schema, field: string): FieldError[] {
  const at = (name: string) => (field === '' ? name : `${field}.${name}`)
  const missing = (schema.required ?? [])
    .filter((name) => value[name] === undefined)
    .map((name) => fieldRequired(at(name)))
  const wrong = Object.entries(value).flatMap(([name, member]) => {
    const known = memberSchema(schema, name)
    return known ? validateSchema(member, known, at(name)) : []
  })
  return [...missing, ...wrong]
}
