import { createHash } from 'node:crypto'
import type { JsonObject } from './json.ts'
import { apiVersionOf, type Kind } from './kinds.ts'

const verbs = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch']

/** `/api`, `/apis`, `/apis/GROUP`, `/apis/GROUP/VERSION` and their schemas below `/openapi/v3`: enough for clients that look for a kind. Undefined = no such address. */
export function discoveryDocument(path: string, kinds: readonly Kind[]): JsonObject | undefined {
  if (path === '/api') return { kind: 'APIVersions', versions: ['v1'] }
  if (path === '/apis') return groupList(kinds)
  if (path === '/openapi/v3') return openApiIndex(kinds)
  const described = /^\/openapi\/v3\/apis\/([^/]+\/[^/]+)$/.exec(path)?.[1]
  if (described !== undefined) return openApi(kinds.filter((kind) => apiVersionOf(kind) === described))
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

const openApi = (kinds: readonly Kind[]): JsonObject => ({
  openapi: '3.0.0',
  components: {
    schemas: Object.fromEntries(
      kinds.map(({ kind, schema }) => [`dev.kube-sim.${kind}`, JSON.parse(JSON.stringify(schema)) as JsonObject]),
    ),
  },
})

/** The address of a schema says another text where the schema is another one, as with the real server. */
function openApiIndex(kinds: readonly Kind[]): JsonObject {
  const versions = [...new Set(kinds.filter(({ group }) => group !== '').map(apiVersionOf))]
  const entries = versions.map((version) => {
    const document = openApi(kinds.filter((kind) => apiVersionOf(kind) === version))
    const hash = createHash('sha512').update(JSON.stringify(document)).digest('hex')
    return [`apis/${version}`, { serverRelativeURL: `/openapi/v3/apis/${version}?hash=${hash}` }] as const
  })
  return { paths: Object.fromEntries(entries) }
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
