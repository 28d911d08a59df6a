import type { CacheChange } from '../kube/object-cache.ts'
import { keyOf } from '../util/object-key.ts'
import type { InferenceService, ObjectMeta } from '../kube/resources.ts'
import { serviceNameOf } from '../publishing/objects.ts'

/** InferenceServices by the Service name that they would have, so that a look at one costs no look through all of them. */
export class ServiceNames {
  readonly #byName = new Map<string, Map<string, ObjectMeta>>()

  /** To be told of every change of the cache. */
  follow({ key, before, after }: Pick<CacheChange<InferenceService>, 'key' | 'before' | 'after'>): void {
    const metadata = after?.metadata ?? before?.metadata
    if (!metadata) return
    const name = nameOf(metadata)
    const sharers = this.#byName.get(name) ?? new Map<string, ObjectMeta>()
    if (after) sharers.set(key, after.metadata)
    else sharers.delete(key)
    if (sharers.size > 0) this.#byName.set(name, sharers)
    else this.#byName.delete(name)
  }

  /** Those of the same Service name, itself included. */
  sharing(metadata: Pick<ObjectMeta, 'namespace' | 'name'>): Iterable<ObjectMeta> {
    return this.#byName.get(nameOf(metadata))?.values() ?? []
  }
}

const nameOf = ({ namespace, name }: Pick<ObjectMeta, 'namespace' | 'name'>): string =>
  keyOf(namespace, serviceNameOf(name))
