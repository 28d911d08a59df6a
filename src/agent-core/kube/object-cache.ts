import { keyOf } from '../util/object-key.ts'
import type { KubeObject } from './resources.ts'

export interface CacheChange<T> {
  readonly key: string
  readonly before: T | undefined
  readonly after: T | undefined
}

/** Answers to our own writes are on their way for seconds, not for so many deletions. */
const maxRemoved = 1_000

/**
 * The last known objects of one resource. Only the list-watch loop fills it; writers may `assume` the answer to their
 * own write, so that the next pass reads what it wrote although the watch has not delivered it yet.
 */
export class ObjectCache<T extends KubeObject> {
  readonly #objects = new Map<string, T>()
  readonly #listeners = new Set<(change: CacheChange<T>) => void>()
  /** Uids of objects that are gone, oldest first. */
  readonly #removed = new Set<string>()
  #synced = false
  /** Set while a list is under way: what our own writes brought since it began. */
  #meanwhile: Map<string, { readonly object: T; readonly isGone: boolean }> | undefined

  /** False until the first complete list: before that, absence means nothing. */
  get synced(): boolean {
    return this.#synced
  }

  get size(): number {
    return this.#objects.size
  }

  get(namespace: string, name: string): T | undefined {
    return this.#objects.get(keyOf(namespace, name))
  }

  /** The object as read before, where `raw` has the same resourceVersion: a watch brings back every write of our own. */
  known(raw: unknown): T | undefined {
    if (!hasMetadata(raw)) return undefined
    const { namespace = '', name, uid, resourceVersion } = raw.metadata
    if (typeof namespace !== 'string' || typeof name !== 'string') return undefined
    const object = this.get(namespace, name)
    return object && object.metadata.uid === uid && object.metadata.resourceVersion === resourceVersion
      ? object
      : undefined
  }

  values(): IterableIterator<T> {
    return this.#objects.values()
  }

  /** The listener gets delete + add where an object was re-created under another uid. */
  onChange(listener: (change: CacheChange<T>) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** To be called before the first page of a list is asked for. */
  beginList(): void {
    this.#meanwhile = new Map()
  }

  /**
   * A complete list is the truth whatever its versions: a restored etcd counts from an earlier number. Only where our own
   * writes brought something while it was on its way do versions decide: the server may have answered the list after others
   * changed or deleted that again, and a watch from `version` tells nothing of what came before it.
   */
  replace(objects: readonly T[], version: string): void {
    const meanwhile = this.#meanwhile ?? new Map<string, never>()
    this.#meanwhile = undefined
    this.#synced = true
    const isNewer = (key: string): boolean => {
      const own = meanwhile.get(key)
      return own !== undefined && !own.isGone && isOlder(version, own.object.metadata.resourceVersion)
    }
    const listed = new Set(objects.map(({ metadata }) => keyOf(metadata.namespace, metadata.name)))
    for (const [key, object] of this.#objects) {
      if (!listed.has(key) && !isNewer(key)) this.#set(key, object, undefined)
    }
    for (const object of objects) {
      const key = keyOf(object.metadata.namespace, object.metadata.name)
      const own = meanwhile.get(key)
      const wasDeleted = own?.isGone === true && isNoNewer(object, own.object)
      if (!wasDeleted && !isNewer(key)) this.#take(object)
    }
  }

  /** The answer to a request of our own. One that arrives after the watch reported the object's end brings nothing back. */
  assume(object: T): void {
    if (!this.#removed.has(object.metadata.uid)) this.upsert(object)
  }

  /** Ignores versions older than the known one: our own writes run ahead of the watch. */
  upsert(object: T): void {
    const key = keyOf(object.metadata.namespace, object.metadata.name)
    const before = this.#objects.get(key)
    if (before && before.metadata.uid === object.metadata.uid && isOlder(versionOf(object), versionOf(before))) return
    this.#meanwhile?.set(key, { object, isGone: false })
    this.#take(object)
  }

  remove(namespace: string, name: string): void {
    const key = keyOf(namespace, name)
    const before = this.#objects.get(key)
    if (!before) return
    this.#meanwhile?.set(key, { object: before, isGone: true })
    this.#set(key, before, undefined)
  }

  #take(object: T): void {
    const key = keyOf(object.metadata.namespace, object.metadata.name)
    const before = this.#objects.get(key)
    if (before && before.metadata.uid !== object.metadata.uid) {
      this.#set(key, before, undefined)
      this.#set(key, undefined, object)
    } else {
      this.#set(key, before, object)
    }
  }

  #set(key: string, before: T | undefined, after: T | undefined): void {
    if (before && after && before.metadata.resourceVersion === after.metadata.resourceVersion) return
    if (after) this.#objects.set(key, after)
    else this.#objects.delete(key)
    if (before && !after) this.#bury(before.metadata.uid)
    if (after) this.#removed.delete(after.metadata.uid)
    for (const listener of this.#listeners) listener({ key, before, after })
  }

  #bury(uid: string): void {
    this.#removed.add(uid)
    const [oldest] = this.#removed
    if (this.#removed.size > maxRemoved && oldest !== undefined) this.#removed.delete(oldest)
  }
}

/** resourceVersions of one resource are comparable integers since Kubernetes 1.35; where they are not, nothing is "older". */
const isOlder = (candidate: string, known: string): boolean =>
  /^\d+$/.test(candidate) && /^\d+$/.test(known) && BigInt(candidate) < BigInt(known)

const versionOf = ({ metadata }: KubeObject): string => metadata.resourceVersion

/** The very object that is known, as it was then or before. */
const isNoNewer = (candidate: KubeObject, known: KubeObject): boolean =>
  candidate.metadata.uid === known.metadata.uid && !isOlder(versionOf(known), versionOf(candidate))

const hasMetadata = (raw: unknown): raw is { readonly metadata: Readonly<Record<string, unknown>> } =>
  typeof raw === 'object' &&
  raw !== null &&
  'metadata' in raw &&
  typeof raw.metadata === 'object' &&
  raw.metadata !== null
