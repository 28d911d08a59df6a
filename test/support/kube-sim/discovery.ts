import { createHash } from 'node:crypto'
import type { JsonObject } from './json.ts'
import { apiVersionOf, type Kind } from './kinds.ts'

/** `/apis`, `/apis/GROUP` and the schemas below `/openapi/v3`, by which the agent sees what is installed. Undefined = no such address. */
export function discoveryDocument(path: string, kinds: readonly Kind[]): JsonObject | undefined {
  if (path === '/apis') return { kind: 'APIGroupList', apiVersion: 'v1', groups: groupsOf(kinds) }
  const group = /^\/apis\/([^/]+)$/.exec(path)?.[1]
  if (group !== undefined) {
    const found = groupsOf(kinds).find(({ name }) => name === group)
    return found && { kind: 'APIGroup', apiVersion: 'v1', ...found }
  }
  if (path === '/openapi/v3') return openApiIndex(kinds)
  const described = /^\/openapi\/v3\/apis\/([^/]+\/[^/]+)$/.exec(path)?.[1]
  return described === undefined ? undefined : openApi(kinds.filter((kind) => apiVersionOf(kind) === described))
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

function groupsOf(kinds: readonly Kind[]) {
  const byGroup = new Map(kinds.filter(({ group }) => group !== '').map((kind) => [kind.group, kind]))
  return [...byGroup.values()].map((kind) => {
    const version = { groupVersion: apiVersionOf(kind), version: kind.version }
    return { name: kind.group, versions: [version], preferredVersion: version }
  })
}
