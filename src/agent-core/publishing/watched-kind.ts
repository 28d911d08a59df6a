import type { ObjectCache } from '../kube/object-cache.ts'
import type { KubeObject, Resource } from '../kube/resources.ts'
import { labels, managedBy } from './objects.ts'
import type { ObjectStore } from './settled-write.ts'

/** A kind of which all objects with the label `llmkube.ai/managed-by=metal-agent` are watched. */
export interface WatchedKind<T extends KubeObject> {
  readonly resource: Resource
  readonly parse: (raw: unknown) => T
  readonly cache: ObjectCache<T>
}

/** Only what the watch would deliver may enter its cache: it would never hear of anything else again. */
export const watchedStore = <T extends KubeObject>({ resource, parse, cache }: WatchedKind<T>): ObjectStore<T> => ({
  resource,
  parse: (raw) => cache.known(raw) ?? parse(raw),
  learn: (namespace, name, object) => {
    if (object?.metadata.labels[labels.managedBy] === managedBy) cache.assume(object)
    else cache.remove(namespace, name)
  },
})
