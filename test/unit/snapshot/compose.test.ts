import { expect, test } from 'vitest'
import { agentSnapshot } from '../../../src/contract/snapshot.ts'
import { composeSnapshot, type SnapshotParts } from '../../../src/agent-core/snapshot/compose.ts'
import { sampleService, sampleSnapshot } from '../../support/sample-snapshot.ts'

type Service = SnapshotParts['services'][number]

const now = Date.UTC(2026, 10, 21)

function parts(services: readonly Service[]): SnapshotParts {
  const { bootId, version, host, cluster } = sampleSnapshot()
  return { bootId, version, host, cluster, startedAt: now, now, services, notices: ['One notice.'] }
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

test('where no service changed even the list is the same', () => {
  const first = composeSnapshot(undefined, parts([service('a')]))
  const second = composeSnapshot(first, parts([service('a')]))
  expect(second.services).toBe(first.services)
  expect(second.revision).toBe(first.revision + 1)
})

test('progress alone is news without a new revision', () => {
  const progress = (doneBytes: number) => ({ progress: { doneBytes, totalBytes: 10, bytesPerSecond: 1 } })
  const first = composeSnapshot(undefined, parts([service('a', progress(1))]))
  const second = composeSnapshot(first, parts([service('a', progress(2))]))
  expect(second.services[0]).not.toBe(first.services[0])
  expect(second.services[0]).toEqual({ ...first.services[0], ...progress(2) })
})

test('thirty services fit into 64 KiB', () => {
  const many = Array.from({ length: 30 }, (_, index) => service(`a-service-with-a-rather-long-name-${index}`))
  expect(JSON.stringify(composeSnapshot(undefined, parts(many))).length).toBeLessThan(64 * 1024)
})
