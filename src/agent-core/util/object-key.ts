/** What an object of a kind is known by in caches, queues and records. */
export const keyOf = (namespace: string, name: string): string => `${namespace}/${name}`

/** As {@link keyOf}, of anything that names its object. */
export const refKey = ({ namespace, name }: { readonly namespace: string; readonly name: string }): string =>
  keyOf(namespace, name)

/** Namespaces have no slash. */
export function splitKey(key: string): { namespace: string; name: string } {
  const slash = key.indexOf('/')
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) }
}
