import type { ServiceView } from '../../src/contract/service.ts'
import type { AgentSnapshot } from '../../src/contract/snapshot.ts'

export function sampleService(changes: Partial<ServiceView> = {}): ServiceView {
  const done = { status: 'done' } as const
  return {
    namespace: 'default',
    name: 'qwen',
    uid: '7c0a4f0e-1111-4222-8333-444455556666',
    revision: 1,
    state: 'ready',
    reason: 'Serving',
    message: 'Serves requests.',
    steps: { fetched: done, started: done, healthy: done, published: done, clusterAgrees: done },
    since: '2026-01-02T03:01:05.000Z',
    model: 'qwen-small',
    runtime: 'llama-server',
    runtimeFrom: 'the format gguf of its Model',
    restarts: 0,
    ...changes,
  }
}

export function sampleSnapshot(changes: Partial<AgentSnapshot> = {}): AgentSnapshot {
  return {
    protocol: 1,
    bootId: 'boot-1',
    revision: 1,
    now: '2026-01-02T03:04:05.000Z',
    version: '1.2.3',
    startedAt: '2026-01-02T01:04:05.000Z',
    host: {
      nodeId: '3f2a0000-0000-4000-8000-000000000001',
      displayName: 'studio',
      platform: 'darwin',
      address: '192.168.1.20',
      message: 'Published as 192.168.1.20 (en0).',
      paused: false,
    },
    cluster: {
      context: 'lab',
      server: 'https://10.0.0.1:6443',
      namespace: 'default',
      state: 'live',
      message: 'Watching namespace default.',
      since: '2026-01-02T02:04:05.000Z',
    },
    services: [sampleService()],
    figures: {},
    downloads: [],
    newestHistoryId: 0,
    notices: [],
    ...changes,
  }
}
