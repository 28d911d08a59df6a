import { z } from 'zod'
import type { PublishTarget } from '../../src/agent-core/publishing/objects.ts'
import type { World } from '../support/api-worlds/api-worlds.ts'
import type { KubeRequest } from '../support/controller-stand-in/kube-http.ts'

const heartbeat = 'llmkube.ai/agent-heartbeat'

type Plural = 'services' | 'endpoints' | 'endpointslices' | 'inferenceservices' | 'models'

const collections: Record<Plural, { root: string; apiVersion: string; kind: string }> = {
  services: { root: '/api/v1', apiVersion: 'v1', kind: 'Service' },
  endpoints: { root: '/api/v1', apiVersion: 'v1', kind: 'Endpoints' },
  endpointslices: { root: '/apis/discovery.k8s.io/v1', apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice' },
  inferenceservices: {
    root: '/apis/inference.llmkube.dev/v1alpha1',
    apiVersion: 'inference.llmkube.dev/v1alpha1',
    kind: 'InferenceService',
  },
  models: { root: '/apis/inference.llmkube.dev/v1alpha1', apiVersion: 'inference.llmkube.dev/v1alpha1', kind: 'Model' },
}

const kubeObject = z.looseObject({
  metadata: z.looseObject({
    uid: z.string(),
    resourceVersion: z.string(),
    labels: z.record(z.string(), z.string()).optional(),
    annotations: z.record(z.string(), z.string()).optional(),
    ownerReferences: z.array(z.looseObject({ uid: z.string() })).optional(),
  }),
  spec: z.unknown().optional(),
})

/** Arranges and looks at a cluster as others do. */
export function clusterOf({ http, namespace }: Pick<World, 'http' | 'namespace'>) {
  const path = (plural: Plural, name = '') => `${collections[plural].root}/namespaces/${namespace}/${plural}/${name}`
  const send = async (request: KubeRequest) => {
    const { status, body } = await http.request(request)
    if (status === 404) return undefined
    if (status >= 300) throw new Error(JSON.stringify(body))
    return body
  }
  const find = async (plural: Plural, name: string) => {
    const body = await send({ path: path(plural, name) })
    return body === undefined ? undefined : kubeObject.parse(body)
  }
  const create = async (plural: Plural, object: object) => {
    const { apiVersion, kind } = collections[plural]
    const body = { apiVersion, kind, ...object }
    return kubeObject.parse(await send({ method: 'POST', path: path(plural).replace(/\/$/, ''), body }))
  }
  const patch = (plural: Plural, name: string, body: object) =>
    send({ method: 'PATCH', path: path(plural, name), body, contentType: 'application/merge-patch+json' })
  const managed = (name: string) => ({
    app: name,
    'llmkube.ai/managed-by': 'metal-agent',
    'llmkube.ai/inference-service': name,
  })
  const content = {
    endpoints: [{ addresses: ['192.0.2.99'], conditions: { ready: true } }],
    ports: [{ name: 'http', port: 4_444, protocol: 'TCP' }],
  }
  return {
    find,
    create,
    patch,
    async get(plural: Plural, name: string) {
      const found = await find(plural, name)
      if (!found) throw new Error(`There is no ${plural} ${name}.`)
      return found
    },
    delete: (plural: Plural, name: string) => send({ method: 'DELETE', path: path(plural, name) }),
    async inferenceService(name: string, endpointPort?: number): Promise<PublishTarget> {
      const endpoint = endpointPort === undefined ? {} : { endpoint: { port: endpointPort } }
      const created = await create('inferenceservices', { metadata: { name }, spec: { modelRef: 'tiny', ...endpoint } })
      return { namespace, name, uid: created.metadata.uid, endpointPort }
    },
    async kindsOf(name: string) {
      const kinds = ['services', 'endpoints', 'endpointslices'] as const
      const found = await Promise.all(kinds.map((kind) => find(kind, name)))
      return kinds.filter((_, index) => found[index])
    },
    async uidsOf(name: string) {
      const kinds = ['services', 'endpoints', 'endpointslices'] as const
      const found = await Promise.all(
        kinds.map(async (kind) => [kind, (await find(kind, name))?.metadata.uid] as const),
      )
      return Object.fromEntries(found)
    },
    /** Keeps foreign annotations, resets the labels, and knows no claim. */
    goAgentWrites: (name: string, at: string) =>
      patch('endpointslices', name, {
        metadata: {
          labels: { 'kubernetes.io/service-name': name, ...managed(name) },
          annotations: { [heartbeat]: at },
        },
        ...content,
      }),
    /** What an old Go agent left, with additions of others and Endpoints that are still mirrored. */
    async goAgentCreates(name: string) {
      await create('services', {
        metadata: { name, labels: { ...managed(name), team: 'x' }, annotations: { 'example.com/theirs': 'kept' } },
        spec: { ports: [{ name: 'http', port: 8080, targetPort: 4_444 }] },
      })
      await create('endpoints', {
        metadata: { name, labels: managed(name) },
        subsets: [{ addresses: [{ ip: '192.0.2.99' }], ports: [{ name: 'http', port: 4_444 }] }],
      })
      await create('endpointslices', {
        metadata: {
          name,
          labels: { 'kubernetes.io/service-name': name, ...managed(name) },
          annotations: { [heartbeat]: '2026-01-01T00:00:00Z' },
        },
        addressType: 'IPv4',
        ...content,
      })
    },
  }
}
