import type { KubeObject } from './json.ts'
import { kindKey, type Kind } from './kinds.ts'

export interface Change {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly kind: Kind
  readonly revision: number
  /** As it is now; of a deleted one the last state, under the revision of its deletion. */
  readonly object: KubeObject
  readonly before: KubeObject | undefined
}

const idOf = ({ metadata }: KubeObject): string => `${metadata.namespace ?? ''}/${metadata.name}`

/** Objects of every kind under one revision counter, and what happened to them, as etcd keeps it. */
export class Store {
  readonly #objects = new Map<string, Map<string, KubeObject>>()
  readonly #listeners = new Set<(change: Change) => void>()
  readonly #historyLimit: number
  #history: Change[] = []
  #revision = 1
  #compacted = 0

  constructor(options: { historyLimit: number }) {
    this.#historyLimit = options.historyLimit
  }

  get revision(): number {
    return this.#revision
  }

  /** Changes up to this revision are forgotten: nothing can be read or watched from before it. */
  get compacted(): number {
    return this.#compacted
  }

  compact(): void {
    this.#history = []
    this.#compacted = this.#revision
  }

  get(kind: Kind, namespace: string, name: string): KubeObject | undefined {
    return this.#objects.get(kindKey(kind))?.get(`${namespace}/${name}`)
  }

  /** In etcd's order: by namespace, then name. */
  list(kind: Kind, namespace?: string): KubeObject[] {
    return sorted([...(this.#objects.get(kindKey(kind))?.values() ?? [])], namespace)
  }

  /** What `list` would have answered at an earlier revision that is not yet compacted. */
  listAt(revision: number, kind: Kind, namespace?: string): KubeObject[] {
    const then = new Map(this.#objects.get(kindKey(kind)) ?? [])
    for (const change of this.#history.toReversed()) {
      if (change.revision <= revision) break
      if (kindKey(change.kind) !== kindKey(kind)) continue
      if (change.before) then.set(idOf(change.object), change.before)
      else then.delete(idOf(change.object))
    }
    return sorted([...then.values()], namespace)
  }

  *all(): Generator<KubeObject> {
    for (const objects of this.#objects.values()) yield* objects.values()
  }

  changesSince(revision: number, kind: Kind): Change[] {
    const key = kindKey(kind)
    return this.#history.filter((change) => change.revision > revision && kindKey(change.kind) === key)
  }

  /** Stores the object under the next revision. */
  put(kind: Kind, object: KubeObject): KubeObject {
    const key = kindKey(kind)
    const objects = this.#objects.get(key) ?? new Map<string, KubeObject>()
    this.#objects.set(key, objects)
    const before = objects.get(idOf(object))
    const stored = this.#stamped(object)
    objects.set(idOf(stored), stored)
    this.#record({ type: before ? 'MODIFIED' : 'ADDED', kind, revision: this.#revision, object: stored, before })
    return stored
  }

  remove(kind: Kind, object: KubeObject): KubeObject {
    const objects = this.#objects.get(kindKey(kind))
    const before = objects?.get(idOf(object))
    const last = this.#stamped(object)
    objects?.delete(idOf(object))
    this.#record({ type: 'DELETED', kind, revision: this.#revision, object: last, before })
    return last
  }

  onChange(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #stamped(object: KubeObject): KubeObject {
    this.#revision += 1
    return { ...object, metadata: { ...object.metadata, resourceVersion: String(this.#revision) } }
  }

  #record(change: Change): void {
    this.#history.push(change)
    if (this.#history.length > this.#historyLimit) {
      const forgotten = this.#history.splice(0, Math.ceil(this.#historyLimit / 2))
      this.#compacted = forgotten.at(-1)?.revision ?? this.#compacted
    }
    for (const listener of [...this.#listeners]) listener(change)
  }
}

function sorted(objects: KubeObject[], namespace: string | undefined): KubeObject[] {
  const chosen = namespace === undefined ? objects : objects.filter(({ metadata }) => metadata.namespace === namespace)
  return chosen.sort((left, right) => (idOf(left) < idOf(right) ? -1 : 1))
}
