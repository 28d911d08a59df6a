import { describe, expect, test } from 'vitest'
import { holderOf } from '../../../src/agent-core/publishing/objects.ts'
import { endpointsBody } from '../../../src/agent-core/publishing/endpoints.ts'
import {
  collidesWith,
  heartbeatAt,
  publishedOf,
  serviceBody,
  serviceIsCurrent,
  serviceNameOf,
  servicePatch,
  servicePortsOf,
  sliceBody,
  sliceIsCurrent,
  slicePatch,
  targetOf,
} from '../../../src/agent-core/publishing/objects.ts'
import { publication, serviceOf, sliceOf } from './examples.ts'

const ownerReferences = [
  {
    apiVersion: 'inference.llmkube.dev/v1alpha1',
    kind: 'InferenceService',
    name: 'llama',
    uid: 'cr-1',
    controller: false,
    blockOwnerDeletion: false,
  },
]

describe('names and ports', () => {
  test('dots become dashes and nothing else changes', () => {
    expect(['llama', 'qwen2.5-7b', 'a.b.c', '7B_x'].map(serviceNameOf)).toEqual([
      'llama',
      'qwen2-5-7b',
      'a-b-c',
      '7B_x',
    ])
  })

  test('a port of its own is added beside 8080, never instead of it', () => {
    expect([undefined, 8080, 9000].map(servicePortsOf)).toEqual([
      [{ name: 'http', port: 8080 }],
      [{ name: 'http', port: 8080 }],
      [
        { name: 'http', port: 8080 },
        { name: 'endpoint', port: 9000 },
      ],
    ])
  })

  test('a heartbeat is RFC 3339 in UTC with whole seconds', () => {
    expect(heartbeatAt(Date.UTC(2026, 10, 21, 9, 8, 7, 999))).toBe('2026-11-21T09:08:07Z')
  })
})

describe('the objects on the wire', () => {
  test('the Service is what the Go agent writes, with an owner', () => {
    expect(serviceBody(publication)).toEqual({
      metadata: {
        name: 'llama',
        namespace: 'ml',
        labels: { app: 'llama', 'llmkube.ai/managed-by': 'metal-agent', 'llmkube.ai/inference-service': 'llama' },
        annotations: { 'llmkube.ai/metal-accelerated': 'true', 'llmkube.ai/native-process': 'true' },
        ownerReferences,
      },
      spec: { type: 'ClusterIP', ports: [{ name: 'http', port: 8080, protocol: 'TCP', targetPort: 53211 }] },
    })
  })

  test('the EndpointSlice is what the Go agent writes, with an owner and a claim', () => {
    const dotted = { ...publication, name: 'qwen2.5', serviceName: 'qwen2-5', servicePorts: servicePortsOf(9000) }
    expect(sliceBody(dotted)).toEqual({
      metadata: {
        name: 'qwen2-5',
        namespace: 'ml',
        labels: {
          'kubernetes.io/service-name': 'qwen2-5',
          app: 'qwen2.5',
          'llmkube.ai/managed-by': 'metal-agent',
          'llmkube.ai/inference-service': 'qwen2.5',
        },
        annotations: {
          'llmkube.ai/agent-heartbeat': '2026-11-21T10:00:00Z',
          'llmkube.ai/agent-version': 'v1.2.3',
          'metalbar.dev/claim': '{"node":"node-a","epoch":3,"heartbeat":"2026-11-21T10:00:00Z","displayName":"studio"}',
        },
        ownerReferences: [{ ...ownerReferences[0], name: 'qwen2.5' }],
      },
      addressType: 'IPv4',
      endpoints: [
        {
          addresses: ['192.0.2.7'],
          conditions: { ready: true },
          targetRef: { kind: 'Pod', name: 'qwen2.5-metal' },
        },
      ],
      ports: [
        { name: 'http', port: 53211, protocol: 'TCP' },
        { name: 'endpoint', port: 53211, protocol: 'TCP' },
      ],
    })
  })

  test('a claim before the server runs names no address and no port', () => {
    const claimed = { ...publication, published: undefined, agentVersion: '' }
    expect(sliceBody(claimed)).toMatchObject({ endpoints: [], ports: [] })
    expect(sliceOf(claimed).metadata.annotations).not.toHaveProperty(['llmkube.ai/agent-version'])
  })

  test('a released slice says with which heartbeat and by whom it was released, and that nobody holds it', () => {
    const released = sliceOf({ ...publication, claim: undefined, releasedBy: 'node-a' })
    const text = released.metadata.annotations['metalbar.dev/claim']
    expect([text, holderOf(text)]).toEqual(['{"heartbeat":"2026-11-21T10:00:00Z","releasedBy":"node-a"}', undefined])
  })

  test('Endpoints are never mirrored, have no heartbeat, and flip between ready and not ready', () => {
    const labels = {
      app: 'llama',
      'llmkube.ai/managed-by': 'metal-agent',
      'llmkube.ai/inference-service': 'llama',
      'endpointslice.kubernetes.io/skip-mirror': 'true',
      'llmkube.dev/accelerator': 'metal',
    }
    const ports = [{ name: 'http', port: 53211, protocol: 'TCP' }]
    expect(endpointsBody(publication)).toEqual({
      metadata: { name: 'llama', namespace: 'ml', labels, ownerReferences },
      subsets: [{ addresses: [{ ip: '192.0.2.7' }], ports }],
    })
    const withdrawn = { ...publication, published: { address: '192.0.2.7', port: 53211, ready: false } }
    expect(endpointsBody(withdrawn)).toMatchObject({
      subsets: [{ notReadyAddresses: [{ ip: '192.0.2.7' }], ports }],
    })
    expect(endpointsBody({ ...publication, published: undefined })).toMatchObject({ subsets: [] })
  })
})

describe('patches', () => {
  const other = { apiVersion: 'v1', kind: 'ConfigMap', name: 'theirs', uid: 'cm-1' }

  test('owners of other kinds stay, an InferenceService that is gone is replaced', () => {
    const [before] = ownerReferences
    const current = sliceOf(publication, { ownerReferences: [other, { ...before, uid: 'cr-0' } as never] })
    expect(slicePatch(publication, current).metadata).toMatchObject({ ownerReferences: [other, ...ownerReferences] })
  })

  test('a Service keeps the target port it has while there is no server', () => {
    const patch = servicePatch({ ...publication, published: undefined }, serviceOf(publication))
    expect(patch).toMatchObject({ spec: { ports: [{ name: 'http', targetPort: 53211 }] } })
  })
})

describe('what is up to date', () => {
  test('labels and annotations of others do not make an object outdated', () => {
    const { labels, annotations } = serviceOf(publication).metadata
    const decorated = serviceOf(publication, {
      labels: { ...labels, team: 'x' },
      annotations: { ...annotations, 'prometheus.io/scrape': 'true' },
    })
    expect(serviceIsCurrent(decorated, publication)).toBe(true)
  })

  test.each([
    ['another port', { servicePorts: servicePortsOf(9000) }],
    ['another uid', { uid: 'cr-2' }],
  ])('a Service with %s is outdated', (_, change) => {
    expect(serviceIsCurrent(serviceOf(publication), { ...publication, ...change })).toBe(false)
  })

  test('a Service is outdated by a port of another name, and by another port of the same name', () => {
    const [port, ...others] = publication.servicePorts
    if (port === undefined) throw new Error('The example has no port.')
    const withFirst = (change: Partial<typeof port>) => ({
      ...publication,
      servicePorts: [{ ...port, ...change }, ...others],
    })
    expect(
      [{}, { name: 'endpoint' } as const, { port: 1 }].map((change) =>
        serviceIsCurrent(serviceOf(publication), withFirst(change)),
      ),
    ).toEqual([true, false, false])
  })

  test('a Service with another target port is not: traffic goes by the ports of the slice', () => {
    const moved = { ...publication, published: { address: '192.0.2.7', port: 1, ready: true } }
    expect(serviceIsCurrent(serviceOf(publication), moved)).toBe(true)
  })

  test.each([
    ['nothing', {}, true],
    ['only the heartbeat', { heartbeat: '2027-01-01T00:00:00Z' }, true],
    ['the address', { published: { address: '192.0.2.8', port: 53211, ready: true } }, false],
    ['the port', { published: { address: '192.0.2.7', port: 1, ready: true } }, false],
    ['readiness', { published: { address: '192.0.2.7', port: 53211, ready: false } }, false],
    ['that there is an address', { published: undefined }, false],
    ['the Service ports', { servicePorts: servicePortsOf(9000) }, false],
    ['the uid', { uid: 'cr-2' }, false],
    ['the version', { agentVersion: 'v2' }, false],
  ])('where %s differs, a slice is up to date: %#', (_, change, expected) => {
    expect(sliceIsCurrent(sliceOf(publication), { ...publication, ...change })).toBe(expected)
  })

  test('an endpoint that does not say whether it is ready counts as ready', () => {
    const slice = sliceOf(publication)
    const silent = { ...slice, endpoints: slice.endpoints.map(({ addresses }) => ({ addresses })) }
    expect(publishedOf(silent)).toEqual({ address: '192.0.2.7', port: 53211, ready: true })
  })

  test('an object of ours tells what to remove when its InferenceService is gone', () => {
    expect(targetOf(serviceOf(publication))).toEqual({
      namespace: 'ml',
      name: 'llama',
      uid: 'cr-1',
      endpointPort: undefined,
    })
    expect(targetOf(serviceOf(publication, { ownerReferences: [] }))).toBeUndefined()
  })
})

describe('names that map to one Service', () => {
  const dotted = { namespace: 'ml', name: 'a.b', creationTimestamp: '2026-01-01T00:00:00Z' }
  const dashed = { namespace: 'ml', name: 'a-b', creationTimestamp: '2026-01-02T00:00:00Z' }

  test('the younger one is refused and names the older', () => {
    expect(collidesWith(dashed, [dotted, dashed])).toBe('a.b')
    expect(collidesWith(dotted, [dotted, dashed])).toBeUndefined()
  })

  test('of two made in the same second one wins, the same for every agent', () => {
    const twin = { ...dashed, creationTimestamp: dotted.creationTimestamp }
    expect([collidesWith(twin, [dotted, twin]), collidesWith(dotted, [twin, dotted])]).toEqual([undefined, 'a-b'])
  })

  test('another namespace is no obstacle', () => {
    expect(collidesWith(dashed, [{ ...dotted, namespace: 'other' }])).toBeUndefined()
  })
})
