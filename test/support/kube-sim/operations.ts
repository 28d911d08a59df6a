import { applyConfig, trackUpdate, type Writer } from './apply.ts'
import { allocateClusterIp } from './defaults.ts'
import { isSame, mergePatch, timestamp, type Json, type KubeObject, type ObjectMeta } from './json.ts'
import { apiVersionOf, builtInKinds, type Kind, kindFromDefinition } from './kinds.ts'
import {
  fillKindDefaults,
  newObject,
  readObject,
  refuseInvalid,
  risesGeneration,
  throughDoor,
  withoutTimes,
} from './object-rules.ts'
import {
  alreadyExists,
  badRequest,
  conflict,
  fieldInvalid,
  fieldRequired,
  invalid,
  modified,
  notFound,
  StatusError,
} from './status-error.ts'
import type { Store } from './store.ts'

export type PatchType = 'merge' | 'apply'
export type Subresource = '' | 'status'

export interface WriteOptions {
  readonly manager: string
  readonly dryRun?: boolean
  readonly subresource?: Subresource
}

/** Names one object, or all of one kind where the name is empty. */
export interface Target {
  readonly kind: Kind
  readonly namespace: string
  readonly name: string
}

export interface DeletePreconditions {
  readonly uid?: string | undefined
  readonly resourceVersion?: string | undefined
}

/** What the API server does with a write once it is read, allowed and understood. All methods throw StatusError. */
export class Operations {
  readonly #store: Store
  readonly #now: () => number
  #addresses = 0

  constructor(dependencies: { store: Store; now: () => number }) {
    this.#store = dependencies.store
    this.#now = dependencies.now
  }

  /** The kinds that are served now: the built-in ones and those of the installed definitions. */
  kinds(): Kind[] {
    const [definitions] = builtInKinds.filter(({ kind }) => kind === 'CustomResourceDefinition')
    return [...builtInKinds, ...(definitions ? this.#store.list(definitions) : []).map(kindFromDefinition)]
  }

  findKind(match: Partial<Pick<Kind, 'group' | 'version' | 'plural' | 'kind'>>): Kind | undefined {
    return this.kinds().find((kind) =>
      (['group', 'version', 'plural', 'kind'] as const).every(
        (key) => match[key] === undefined || match[key] === kind[key],
      ),
    )
  }

  get({ kind, namespace, name }: Target): KubeObject {
    const object = this.#store.get(kind, namespace, name)
    if (!object) throw notFound(kind, name)
    return object
  }

  create({ kind, namespace }: Omit<Target, 'name'>, body: Json, options: WriteOptions): KubeObject {
    const given = readObject(kind, namespace, body)
    this.#requireNamespace(kind, namespace)
    if (given.metadata.resourceVersion !== '') {
      throw new StatusError(500, '', 'resourceVersion should not be set on objects to be created')
    }
    const object = newObject(kind, namespace, given, this.#timestamp())
    if (kind.hasStatus) delete object['status']
    fillKindDefaults(kind, object)
    return this.#insert(kind, trackUpdate(kind, undefined, object, this.#writer(kind, options)), options)
  }

  /** PUT: replaces the whole object, or with a subresource that part of it. */
  update(target: Target, body: Json, options: WriteOptions): { object: KubeObject; isNew: boolean } {
    const { kind, namespace, name } = target
    const existing = this.#store.get(kind, namespace, name)
    const given = readObject(kind, namespace, body)
    if (given.metadata.name !== name) {
      throw badRequest(`the name of the object (${given.metadata.name}) does not match the name on the URL (${name})`)
    }
    if (!existing) {
      if (!kind.createOnUpdate) throw notFound(kind, name)
      return { object: this.create(target, body, options), isNew: true }
    }
    const { uid, resourceVersion } = given.metadata
    if (uid !== '' && uid !== existing.metadata.uid) {
      throw conflict(
        kind,
        name,
        `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${existing.metadata.uid}`,
      )
    }
    if (resourceVersion === '' && !kind.unconditionalUpdate) {
      throw invalid(kind, name, [fieldInvalid('metadata.resourceVersion', '0', 'must be specified for an update')])
    }
    return { object: this.#replace(target, existing, given, options), isNew: false }
  }

  patch(target: Target, type: PatchType, patch: Json, options: WriteOptions): { object: KubeObject; isNew: boolean } {
    const { kind, namespace, name } = target
    const existing = this.#store.get(kind, namespace, name)
    if (type === 'apply') return this.#apply(target, existing, patch, options)
    if (!existing) throw notFound(kind, name)
    const given = readObject(kind, namespace, structuredClone(mergePatch(existing, patch)))
    return { object: this.#replace(target, existing, given, options), isNew: false }
  }

  delete(target: Target, preconditions: DeletePreconditions, options: { dryRun?: boolean } = {}): KubeObject {
    const { kind, name } = target
    const existing = this.get(target)
    const { uid, resourceVersion } = existing.metadata
    if (preconditions.uid !== undefined && preconditions.uid !== uid) {
      throw conflict(
        kind,
        name,
        `the UID in the precondition (${preconditions.uid}) does not match the UID in record (${uid}). The object might have been deleted and then recreated`,
      )
    }
    if (preconditions.resourceVersion !== undefined && preconditions.resourceVersion !== resourceVersion) {
      throw conflict(
        kind,
        name,
        `the ResourceVersion in the precondition (${preconditions.resourceVersion}) does not match the ResourceVersion in record (${resourceVersion}). The object might have been modified`,
      )
    }
    if (options.dryRun === true) return existing
    if ((existing.metadata.finalizers ?? []).length === 0) return this.#remove(kind, existing)
    if (existing.metadata.deletionTimestamp !== undefined) return existing
    const metadata: ObjectMeta = {
      ...existing.metadata,
      deletionTimestamp: this.#timestamp(),
      deletionGracePeriodSeconds: 0,
    }
    if (metadata.generation !== undefined) metadata.generation += 1
    return this.#store.put(kind, { ...existing, metadata })
  }

  #apply(
    target: Target,
    existing: KubeObject | undefined,
    patch: Json,
    options: WriteOptions,
  ): { object: KubeObject; isNew: boolean } {
    const { kind, namespace, name } = target
    if (options.manager === '') {
      throw invalid({ group: 'meta.k8s.io', kind: 'PatchOptions' }, '', [
        fieldRequired('fieldManager', 'is required for apply patch'),
      ])
    }
    const config = readObject(kind, namespace, patch, name)
    if (config.metadata.managedFields) throw badRequest('metadata.managedFields must be nil')
    if (!existing && (options.subresource ?? '') !== '') throw notFound(kind, name)
    if (!existing) this.#requireNamespace(kind, namespace)
    const applied = applyConfig(kind, existing, config, this.#writer(kind, options))
    if (existing) return { object: this.#replace(target, existing, applied, options, true), isNew: false }
    if (config.metadata.uid !== '') {
      throw conflict(
        kind,
        name,
        `uid mismatch: the provided object specified uid ${config.metadata.uid}, and no existing object was found`,
      )
    }
    const object = newObject(kind, namespace, applied, this.#timestamp())
    if (applied.metadata.managedFields) object.metadata.managedFields = applied.metadata.managedFields
    if (kind.hasStatus) delete object['status']
    fillKindDefaults(kind, object)
    return { object: this.#insert(kind, object, options), isNew: true }
  }

  #insert(kind: Kind, object: KubeObject, options: WriteOptions): KubeObject {
    const { name, namespace } = object.metadata
    if (kind.kind === 'Service') allocateClusterIp(object, undefined, () => this.#nextAddress())
    refuseInvalid(kind, object, undefined)
    if (this.#store.get(kind, namespace ?? '', name)) throw alreadyExists(kind, name)
    return options.dryRun === true ? object : this.#store.put(kind, object)
  }

  /** The common end of every write to an object that exists. */
  #replace(
    target: Target,
    existing: KubeObject,
    given: KubeObject,
    options: WriteOptions,
    isApplied = false,
  ): KubeObject {
    const { kind, name } = target
    const { resourceVersion, uid } = given.metadata
    if (resourceVersion !== '' && resourceVersion !== existing.metadata.resourceVersion) throw modified(kind, name)
    const next = throughDoor(kind, existing, given, options.subresource ?? '')
    if (next.metadata.uid !== existing.metadata.uid) {
      throw invalid(kind, name, [fieldInvalid('metadata.uid', JSON.stringify(uid), 'field is immutable')])
    }
    fillKindDefaults(kind, next)
    const managed = isApplied ? next : trackUpdate(kind, existing, next, this.#writer(kind, options))
    if (kind.kind === 'Service') allocateClusterIp(managed, existing, () => this.#nextAddress())
    refuseInvalid(kind, managed, existing)
    if (isSame(withoutTimes(managed), withoutTimes(existing))) return existing
    if (risesGeneration(kind, existing, managed)) managed.metadata.generation = (existing.metadata.generation ?? 0) + 1
    if (options.dryRun === true) return managed
    const isFinished =
      managed.metadata.deletionTimestamp !== undefined && (managed.metadata.finalizers ?? []).length === 0
    return isFinished ? this.#remove(kind, managed) : this.#store.put(kind, managed)
  }

  #remove(kind: Kind, object: KubeObject): KubeObject {
    const { name, namespace = '' } = object.metadata
    const removed = this.#store.remove(kind, object)
    if (kind.kind === 'Service') this.#removeByName({ group: '', plural: 'endpoints' }, namespace, name)
    if (kind.kind === 'Namespace') this.#removeAll((one) => one.metadata.namespace === name)
    if (kind.kind === 'CustomResourceDefinition') {
      const served = kindFromDefinition(object)
      for (const instance of this.#store.list(served)) this.#store.remove(served, instance)
    }
    return removed
  }

  /** The API server itself deletes a Service's Endpoints with it; slices are left to others. */
  #removeByName(match: Pick<Kind, 'group' | 'plural'>, namespace: string, name: string): void {
    const kind = this.findKind(match)
    const object = kind && this.#store.get(kind, namespace, name)
    if (object) this.#store.remove(kind, object)
  }

  #removeAll(isMeant: (object: KubeObject) => boolean): void {
    for (const kind of this.kinds()) {
      for (const object of this.#store.list(kind).filter(isMeant)) this.#store.remove(kind, object)
    }
  }

  #requireNamespace(kind: Kind, namespace: string): void {
    if (!kind.namespaced) return
    const namespaces = this.findKind({ group: '', plural: 'namespaces' })
    if (namespaces && !this.#store.get(namespaces, '', namespace)) throw notFound(namespaces, namespace)
  }

  #writer(kind: Kind, options: WriteOptions): Writer {
    return {
      manager: options.manager,
      apiVersion: apiVersionOf(kind),
      subresource: options.subresource ?? '',
      now: this.#timestamp(),
    }
  }

  #nextAddress(): string {
    this.#addresses += 1
    return `10.96.${Math.floor(this.#addresses / 254)}.${(this.#addresses % 254) + 1}`
  }

  #timestamp(): string {
    return timestamp(this.#now())
  }
}
