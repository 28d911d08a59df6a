import { afterAll, beforeAll, expect, test } from 'vitest'
import type { KubeObject } from '../support/control-plane/admin-client.ts'
import {
  ApiServer,
  missingControllerManager,
  startControllerManager,
  TestCluster,
} from '../support/control-plane/control-plane.ts'
import { eventually } from '../support/eventually.ts'
import { skipWhen } from '../support/skip.ts'

const missing = missingControllerManager()
skipWhen(missing)

const parts = new AsyncDisposableStack()
let cluster: TestCluster

beforeAll(async () => {
  if (missing !== undefined) return
  const server = parts.use(await ApiServer.start())
  parts.use(await startControllerManager(server.connection))
  cluster = parts.use(await TestCluster.open(server.connection))
})

afterAll(() => parts.disposeAsync())

const inferenceService = (name: string) => ({
  apiVersion: 'inference.llmkube.dev/v1alpha1',
  kind: 'InferenceService',
  metadata: { name },
  spec: { modelRef: 'tiny' },
})

test('Service, EndpointSlice and Endpoints go when the InferenceService that owns them is deleted', async () => {
  const { admin } = cluster
  const owner = await admin.create(inferenceService('owner'))
  const published = await publish(owner)
  await expect(Promise.all(published.map((object) => admin.get(object)))).resolves.toMatchObject(
    published.map(({ kind }) => ({ kind })),
  )
  await admin.delete(owner)
  await Promise.all(
    published.map((object) =>
      eventually(async () => (await admin.get(object)) === undefined, {
        what: `the deletion of the ${object.kind}`,
      }),
    ),
  )
})

test('what names an owner that was re-created under another uid goes too', async () => {
  const { admin } = cluster
  const first = await admin.create(inferenceService('re-created'))
  await admin.delete(first)
  const second = await admin.create(inferenceService('re-created'))
  const [stale] = await publish(first)
  expect(second.metadata.uid).not.toBe(first.metadata.uid)
  await eventually(async () => stale !== undefined && (await admin.get(stale)) === undefined)
})

test('Endpoints labelled skip-mirror are not mirrored into a second EndpointSlice, others are', async () => {
  const { admin } = cluster
  await publish(await admin.create(inferenceService('skipped')))
  await publish(await admin.create(inferenceService('mirrored')), { skipMirror: false })

  const slicesOf = async (service: string): Promise<string[]> => {
    const slices = await admin.list(endpointSlice, { labelSelector: `kubernetes.io/service-name=${service}` })
    return slices.map(({ metadata }) => metadata.labels?.['endpointslice.kubernetes.io/managed-by'] ?? '')
  }
  await eventually(async () => (await slicesOf('mirrored')).length === 2, {
    what: 'the mirroring of Endpoints without the label',
  })
  expect([await slicesOf('skipped'), (await slicesOf('mirrored')).sort()]).toEqual([
    ['metal-agent'],
    ['endpointslicemirroring-controller.k8s.io', 'metal-agent'],
  ])
})

const endpointSlice = { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice' }

/** The three objects as an agent publishes them, at an unreachable address. */
async function publish(owner: KubeObject, { skipMirror = true } = {}): Promise<KubeObject[]> {
  const { name, uid } = owner.metadata
  const ownerReferences = [{ apiVersion: owner.apiVersion, kind: owner.kind, name, uid }]
  const objects = [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name, ownerReferences },
      spec: { ports: [{ name: 'http', port: 8080 }] },
    },
    {
      ...endpointSlice,
      metadata: {
        name,
        ownerReferences,
        labels: { 'kubernetes.io/service-name': name, 'endpointslice.kubernetes.io/managed-by': 'metal-agent' },
      },
      addressType: 'IPv4',
      endpoints: [{ addresses: ['192.0.2.1'], conditions: { ready: true } }],
      ports: [{ name: 'http', port: 9000 }],
    },
    {
      apiVersion: 'v1',
      kind: 'Endpoints',
      metadata: {
        name,
        ownerReferences,
        ...(skipMirror ? { labels: { 'endpointslice.kubernetes.io/skip-mirror': 'true' } } : {}),
      },
      subsets: [{ addresses: [{ ip: '192.0.2.1' }], ports: [{ name: 'http', port: 9000 }] }],
    },
  ]
  const created: KubeObject[] = []
  for (const object of objects) created.push(await cluster.admin.create(object))
  return created
}
