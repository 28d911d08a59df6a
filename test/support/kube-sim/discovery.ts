import type { JsonObject } from './json.ts'
import { apiVersionOf, type Kind } from './kinds.ts'

const verbs = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch']

/** `/api`, `/apis`, `/apis/GROUP` and `/apis/GROUP/VERSION`: enough for clients that look for a kind. Undefined = no such address. */
export function discoveryDocument(path: string, kinds: readonly Kind[]): JsonObject | undefined {
  if (path === '/api') return { kind: 'APIVersions', versions: ['v1'] }
  if (path === '/apis') return groupList(kinds)
  const group = /^\/apis\/([^/]+)$/.exec(path)?.[1]
  if (group !== undefined) {
    const found = groupsOf(kinds).find(({ name }) => name === group)
    return found && { kind: 'APIGroup', apiVersion: 'v1', ...found }
  }
  const groupVersion = path === '/api/v1' ? 'v1' : /^\/apis\/([^/]+\/[^/]+)$/.exec(path)?.[1]
  const served = kinds.filter((kind) => apiVersionOf(kind) === groupVersion)
  if (groupVersion === undefined || served.length === 0) return undefined
  return { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources: served.flatMap(resourceEntries) }
}

function resourceEntries({ plural, kind, namespaced, hasStatus }: Kind): JsonObject[] {
  const entry = (name: string, entryVerbs: string[]) => ({
    name,
    singularName: '',
    namespaced,
    kind,
    verbs: entryVerbs,
  })
  return [
    { ...entry(plural, verbs), singularName: kind.toLowerCase() },
    ...(hasStatus ? [entry(`${plural}/status`, ['get', 'patch', 'update'])] : []),
  ]
}

const groupList = (kinds: readonly Kind[]): JsonObject => ({
  kind: 'APIGroupList',
  apiVersion: 'v1',
  groups: groupsOf(kinds),
})

function groupsOf(kinds: readonly Kind[]) {
  const byGroup = new Map(kinds.filter(({ group }) => group !== '').map((kind) => [kind.group, kind]))
  return [...byGroup.values()].map((kind) => {
    const version = { groupVersion: apiVersionOf(kind), version: kind.version }
    return { name: kind.group, versions: [version], preferredVersion: version }
  })
}
