import { expect, test } from 'vitest'
import { agentSnapshot, type AgentSnapshot, mirrored } from '../../../src/contract/snapshot.ts'
import { composeSnapshot, type SnapshotParts } from '../../../src/agent-core/agent/snapshot.ts'
import { sampleService, sampleSnapshot } from '../../support/sample-snapshot.ts'

type Service = SnapshotParts['services'][number]

const now = Date.UTC(2026, 10, 21)

function parts(services: readonly Service[], figures: SnapshotParts['figures'] = {}): SnapshotParts {
  const { bootId, version, host, cluster } = sampleSnapshot()
  const unsaid = { memory: undefined, memoryFigures: undefined, power: undefined, powerFigures: undefined }
  const rest = { ...unsaid, downloads: [], newestHistoryId: 0 }
  return { bootId, version, host, cluster, startedAt: now, now, services, figures, ...rest, notices: ['One notice.'] }
}

const service = (name: string, extra: Partial<Service> = {}): Service => {
  const { revision: _revision, ...rest } = sampleService()
  return { ...rest, name, uid: name, ...extra }
}

test('a snapshot is what its schema says, with its services in order', () => {
  const snapshot = composeSnapshot(undefined, parts([service('b'), service('a'), service('c', { namespace: '0' })]))
  expect(agentSnapshot.parse(snapshot).services.map(({ name }) => name)).toEqual(['c', 'a', 'b'])
})

test('what did not change is the same object, and only what changed has a new revision', () => {
  const first = composeSnapshot(undefined, parts([service('a'), service('b')]))
  const second = composeSnapshot(first, parts([service('a'), service('b', { message: 'Something else.' })]))
  expect(second.services[0]).toBe(first.services[0])
  expect(second.host).toBe(first.host)
  expect(second.services.map(({ revision }) => revision)).toEqual([1, 2])
})

test('a service that left and came back is shown as it is now, also to who did not see it leave', () => {
  const first = composeSnapshot(undefined, parts([service('a')]))
  const without = composeSnapshot(first, parts([]))
  const back = composeSnapshot(without, parts([service('a', { message: 'Another has the name.' })]))
  expect(mirrored(first, back).services).toEqual(back.services)
})

test('over a connection, what did not change is the same object again, until another agent answers', () => {
  const sent = (snapshot: AgentSnapshot) => agentSnapshot.parse(JSON.parse(JSON.stringify(snapshot)))
  const first = composeSnapshot(undefined, parts([service('a'), service('b')]))
  const second = composeSnapshot(first, parts([service('a'), service('b', { message: 'Something else.' })]))
  const shown = mirrored(undefined, sent(first))
  const next = mirrored(shown, sent(second))
  expect(next).toEqual(second)
  expect(next.services.map((one, index) => one === shown.services[index])).toEqual([true, false])
  const other = mirrored(next, sent({ ...second, bootId: 'another' }))
  expect(other.services.map((one, index) => one === next.services[index])).toEqual([false, false])
})

/** With all that a refusal says. */
const memory: NonNullable<Service['memory']> = {
  needBytes: 44_123_456_789,
  items: { weights: 40e9, kv: 2_512_345_678, compute: 512_345_678, promptCache: 536_870_912, mmproj: 0, overhead: 3e8 },
  priority: 'normal',
  isProtected: false,
  place: 12,
  waysToFit: [
    { kind: 'change', sentence: 'Use a context of 8192 tokens: needs 41.2 GB' },
    { kind: 'change', sentence: 'Use a q8_0 KV cache: needs 42.1 GB' },
    { kind: 'evict', sentence: 'Evict a-service-with-a-rather-long-name-1: frees 40.0 GB', evict: ['default/another'] },
    { kind: 'budget', sentence: 'Raise the memory budget to 98.0 GB' },
  ],
}

/** With all that a crash says. */
const crash: NonNullable<Service['crash']> = {
  at: '2026-11-21T00:00:00.000Z',
  failures: 3,
  message: 'The server ended by itself with exit code 1 while it loaded.',
  exitCode: 1,
  firstError: 'ggml_metal_buffer_init: error: failed to allocate buffer, size = 42013.52 MiB',
}

/** With all that a runtime says, and more than that of its slowness. */
const runtime: NonNullable<AgentSnapshot['figures'][string]['runtime']> = {
  state: 'reported',
  promptTokensPerSecond: 1234.5,
  generatedTokensPerSecond: 123.4,
  requestsRunning: 12,
  requestsWaiting: 34,
  kvUse: 0.987,
  lastRequestAt: '2026-11-21T00:00:00.000Z',
  slow: 'Generates 12.3 tokens/s, 47 % below the 23.4 that it reached before: the machine may be hot.',
}

test('thirty services fit into 64 KiB, all of them with what memory, a crash and a download say of them', () => {
  const many = Array.from({ length: 30 }, (_, index) =>
    service(`a-service-with-a-rather-long-name-${index + 10}`, { memory, crash }),
  )
  const progress = { doneBytes: 12_345_678_901, totalBytes: 44_123_456_789, bytesPerSecond: 61_234_567 }
  const figures = Object.fromEntries(
    many.map(({ uid }) => [uid, { progress, footprintBytes: 41_234_567_890, runtime }]),
  )
  const text = JSON.stringify(composeSnapshot(undefined, parts(many, figures)))
  const read = agentSnapshot.parse(JSON.parse(text))
  expect([read.services, read.figures]).toEqual([many.map((one) => ({ ...one, revision: 1 })), figures])
  expect(Buffer.byteLength(text)).toBeLessThan(64 * 1024)
})
