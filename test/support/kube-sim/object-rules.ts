import { randomUUID } from 'node:crypto'
import {
  childOf,
  isObject,
  isSame,
  itemsOf,
  textOf,
  without,
  type Json,
  type KubeObject,
  type ObjectMeta,
} from './json.ts'
import { apiVersionOf, type Kind } from './kinds.ts'
import type { Subresource } from './operations.ts'
import { fillDefaults, prune, validateSchema } from './schema.ts'
import { badRequest, fieldInvalid, fieldRequired, type FieldError, invalid } from './status-error.ts'

/** Reads a body as an object of this kind; what it leaves open comes from the address it was sent to. */
export function readObject(kind: Kind, namespace: string, body: Json, name?: string): KubeObject {
  if (!isObject(body)) throw badRequest(`the object provided is unrecognized (must be of type ${kind.kind})`)
  const isTyped = textOf(body, 'apiVersion') !== undefined && textOf(body, 'kind') !== undefined
  if (kind.custom && !isTyped) {
    throw badRequest(`the object provided is unrecognized (must be of type ${kind.kind}): Object 'Kind' is missing`)
  }
  const apiVersion = textOf(body, 'apiVersion') ?? apiVersionOf(kind)
  const kindName = textOf(body, 'kind') ?? kind.kind
  if (apiVersion !== apiVersionOf(kind)) {
    throw badRequest(
      `the API version in the data (${apiVersion}) does not match the expected API version (${apiVersionOf(kind)})`,
    )
  }
  if (kindName !== kind.kind) {
    throw badRequest(`${kindName} in version ${JSON.stringify(apiVersion)} cannot be handled as a ${kind.kind}`)
  }
  const given = childOf(body, 'metadata')
  const ownNamespace = textOf(given, 'namespace') ?? namespace
  if (kind.namespaced && ownNamespace !== namespace) {
    throw badRequest('the namespace of the provided object does not match the namespace sent on the request')
  }
  const metadata: ObjectMeta = {
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null)),
    name: textOf(given, 'name') ?? name ?? '',
    uid: textOf(given, 'uid') ?? '',
    resourceVersion: textOf(given, 'resourceVersion') ?? '',
    creationTimestamp: textOf(given, 'creationTimestamp') ?? '',
  }
  if (kind.namespaced) metadata.namespace = namespace
  return { ...structuredClone(body), apiVersion, kind: kindName, metadata: structuredClone(metadata) }
}

export function newObject(kind: Kind, namespace: string, given: KubeObject, now: string): KubeObject {
  const { labels, annotations, ownerReferences, finalizers, generateName } = given.metadata
  const prefix = generateName ?? ''
  if (given.metadata.name === '' && prefix === '') {
    throw invalid(kind, '', [fieldRequired('metadata.name', 'name or generateName is required')])
  }
  const metadata: ObjectMeta = {
    name: given.metadata.name === '' ? prefix + randomUUID().slice(0, 5) : given.metadata.name,
    ...(prefix === '' ? {} : { generateName: prefix }),
    ...(kind.namespaced ? { namespace } : {}),
    uid: randomUUID(),
    resourceVersion: '',
    ...(kind.generation === 'none' ? {} : { generation: 1 }),
    creationTimestamp: now,
    ...(labels ? { labels } : {}),
    ...(annotations ? { annotations } : {}),
    ...(ownerReferences ? { ownerReferences } : {}),
    ...(finalizers ? { finalizers } : {}),
  }
  return { ...structuredClone(given), metadata: structuredClone(metadata) }
}

export function fillKindDefaults(kind: Kind, object: KubeObject): void {
  if (kind.custom) {
    const fields = without(object, ...typeAndMeta)
    prune(fields, kind.schema)
    fillDefaults(fields, kind.schema)
    for (const name of Object.keys(object)) {
      if (!typeAndMeta.includes(name) && fields[name] === undefined) Reflect.deleteProperty(object, name)
    }
  }
  kind.fillDefaults(object)
}

export function refuseInvalid(kind: Kind, object: KubeObject, before: KubeObject | undefined): void {
  const { name } = object.metadata
  const errors: FieldError[] = []
  const badName = before ? undefined : kind.validateName(name)
  if (badName !== undefined) errors.push(fieldInvalid('metadata.name', JSON.stringify(name), badName))
  errors.push(...ownerErrors(object))
  if (kind.custom) {
    const fields = without(object, ...typeAndMeta)
    errors.push(...validateSchema(fields, kind.schema, ''))
  }
  errors.push(...kind.validate(object, before))
  if (errors.length > 0) throw invalid(kind, name, errors)
}

/** What a door lets through: `/status` only the status, the main one everything else; never the server's own fields. */
export function throughDoor(kind: Kind, existing: KubeObject, given: KubeObject, subresource: Subresource): KubeObject {
  const { managedFields } = given.metadata
  if (subresource === 'status') {
    const metadata = managedFields ? { ...existing.metadata, managedFields } : existing.metadata
    return withField({ ...existing, metadata: structuredClone(metadata) }, 'status', given['status'])
  }
  const { generation, creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds } = existing.metadata
  const metadata: ObjectMeta = {
    ...given.metadata,
    uid: given.metadata.uid === '' ? existing.metadata.uid : given.metadata.uid,
    resourceVersion: existing.metadata.resourceVersion,
    creationTimestamp,
    ...(generation === undefined ? {} : { generation }),
    ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
    ...(deletionGracePeriodSeconds === undefined ? {} : { deletionGracePeriodSeconds }),
  }
  const next = { ...structuredClone(given), metadata: structuredClone(metadata) }
  return kind.hasStatus ? withField(next, 'status', existing['status']) : next
}

const typeAndMeta = ['apiVersion', 'kind', 'metadata']

/** When a manager wrote what was there already does not count as a change. */
export const withoutTimes = (object: KubeObject): Json => ({
  ...object,
  metadata: {
    ...object.metadata,
    managedFields: (object.metadata.managedFields ?? []).map((entry) => without(entry, 'time')),
  },
})

function withField(object: KubeObject, field: string, value: Json | undefined): KubeObject {
  if (value === undefined) Reflect.deleteProperty(object, field)
  else object[field] = structuredClone(value)
  return object
}

export function risesGeneration(kind: Kind, before: KubeObject, after: KubeObject): boolean {
  if (kind.generation === 'none') return false
  const ignored = kind.hasStatus ? ['metadata', 'status'] : ['metadata']
  return !isSame(without(before, ...ignored), without(after, ...ignored))
}

function ownerErrors(object: KubeObject): FieldError[] {
  return itemsOf(object.metadata, 'ownerReferences').flatMap((reference, index) =>
    (['apiVersion', 'kind', 'name', 'uid'] as const)
      .filter((field) => (textOf(reference, field) ?? '') === '')
      .map((field) => fieldInvalid(`metadata.ownerReferences[${index}].${field}`, '""', `${field} must not be empty`)),
  )
}
