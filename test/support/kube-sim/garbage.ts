import type { KubeObject } from './json.ts'
import type { Operations } from './operations.ts'
import type { Store } from './store.ts'

/** Deletes, a turn later, what only names owners that do not exist, as kube-controller-manager does. Returns the stop. */
export function collectGarbage(store: Store, operations: Operations): () => void {
  const pending = new Set<NodeJS.Immediate>()
  const collect = () => {
    const alive = new Set([...store.all()].map(({ metadata }) => metadata.uid))
    for (const orphan of [...store.all()].filter((object) => isOrphan(object, alive))) remove(orphan)
  }
  const remove = ({ apiVersion, kind: kindName, metadata }: KubeObject) => {
    const [version = '', group = ''] = apiVersion.split('/').reverse()
    const kind = operations.findKind({ group, version, kind: kindName })
    const { namespace = '', name, uid } = metadata
    // The deletion of another may have taken it along, as a Service does its Endpoints.
    const isThere = kind !== undefined && store.get(kind, namespace, name)?.metadata.uid === uid
    if (isThere) operations.delete({ kind, namespace, name }, {})
  }
  const unsubscribe = store.onChange(({ type, object }) => {
    if (type !== 'DELETED' && object.metadata.ownerReferences === undefined) return
    const soon = setImmediate(() => {
      pending.delete(soon)
      collect()
    })
    pending.add(soon)
  })
  return () => {
    unsubscribe()
    for (const soon of pending) clearImmediate(soon)
  }
}

function isOrphan({ metadata }: KubeObject, alive: ReadonlySet<string>): boolean {
  const owners = metadata.ownerReferences ?? []
  return owners.length > 0 && owners.every(({ uid }) => !alive.has(uid))
}
