import type { AdminClient } from '../test/support/control-plane/admin-client.ts'
import { eventually } from '../test/support/eventually.ts'

/** By verb and resource, such as `patch endpointslices`. */
export type RequestCounts = ReadonlyMap<string, number>

const verbs = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete']
const resources = [
  ...['inferenceservices', 'inferenceservices/status', 'models', 'models/status'],
  ...['services', 'endpointslices', 'endpoints', 'events', 'namespaces', 'leases'],
]
const flowSchemas = '/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas'

/**
 * Has the API server itself count one service account's requests, watches as they begin: its metrics name no user, but
 * the FlowSchema that took a request, so that user gets one for each verb and resource.
 */
export class RequestCounter {
  readonly #admin: AdminClient
  readonly #kinds: ReadonlyMap<string, string>

  private constructor(admin: AdminClient, kinds: ReadonlyMap<string, string>) {
    this.#admin = admin
    this.#kinds = kinds
  }

  static async install(admin: AdminClient, account: { name: string; namespace: string }): Promise<RequestCounter> {
    const kinds = new Map<string, string>()
    const subjects = [{ kind: 'ServiceAccount', serviceAccount: account }]
    const add = async (kind: string, matchingPrecedence: number, verb: string, resource: string): Promise<void> => {
      const name = `${account.name}-${kind.replaceAll(/[ /]/g, '-')}`
      kinds.set(name, kind)
      const resourceRules = [
        { verbs: [verb], apiGroups: ['*'], resources: [resource], namespaces: ['*'], clusterScope: true },
      ]
      const spec = {
        priorityLevelConfiguration: { name: 'exempt' },
        matchingPrecedence,
        rules: [{ subjects, resourceRules }],
      }
      const body = { apiVersion: 'flowcontrol.apiserver.k8s.io/v1', kind: 'FlowSchema', metadata: { name }, spec }
      const { status, text } = await admin.request({ method: 'POST', path: flowSchemas, body })
      if (status !== 201) throw new Error(`FlowSchema ${name}: ${text}`)
    }
    for (const verb of verbs) {
      await Promise.all(resources.map((resource) => add(`${verb} ${resource}`, 2, verb, resource)))
    }
    await add('other', 3, '*', '*')
    await eventually(() => isTaken(admin, [...kinds.keys()].at(-1) ?? ''), { what: 'the FlowSchemas count' })
    return new RequestCounter(admin, kinds)
  }

  /** Since the start. */
  async read(): Promise<RequestCounts> {
    const { text } = await this.#admin.request({ method: 'GET', path: '/metrics' })
    const counts = new Map<string, number>()
    const line = /^apiserver_flowcontrol_dispatched_requests_total\{flow_schema="([^"]+)",[^}]*\} (\S+)$/gm
    for (const [, flowSchema = '', count] of text.matchAll(line)) {
      const kind = this.#kinds.get(flowSchema)
      if (kind !== undefined) counts.set(kind, (counts.get(kind) ?? 0) + Number(count))
    }
    return counts
  }
}

/** The API server writes a condition on each FlowSchema that it has begun to use. */
async function isTaken(admin: AdminClient, name: string): Promise<boolean> {
  const { text } = await admin.request({ method: 'GET', path: `${flowSchemas}/${name}` })
  return text.includes('"Dangling"')
}

/** The requests between two readings; kinds without a request are left out. */
export const countsBetween = (before: RequestCounts, after: RequestCounts): RequestCounts =>
  new Map(
    [...after]
      .map(([kind, count]) => [kind, count - (before.get(kind) ?? 0)] as const)
      .filter(([, count]) => count > 0),
  )

export const totalOf = (counts: RequestCounts): number => counts.values().reduce((sum, count) => sum + count, 0)

export const listed = (counts: RequestCounts): string =>
  [...counts]
    .toSorted(([, a], [, b]) => b - a)
    .map(([kind, count]) => `${count} ${kind}`)
    .join(', ')
