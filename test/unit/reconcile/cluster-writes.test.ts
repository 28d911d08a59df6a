import { expect, test } from 'vitest'
import { ApiError } from '../../../src/agent-core/kube/api-error.ts'
import { ClusterWrites } from '../../../src/agent-core/reconcile/cluster-writes.ts'
import type { PublicationView } from '../../../src/agent-core/reconcile/plan/observation.ts'
import { Recorder } from '../../support/running-agent.ts'

const target = { namespace: 'ns', name: 'a', uid: 'u', endpointPort: undefined }
const publication: PublicationView = {
  claim: 'ours',
  message: '',
  retryAt: undefined,
  service: 'absent',
  serviceMessage: '',
  shown: undefined,
  complete: true,
  present: true,
}

test('what misleads pods is tried again within a second of its last try, and not before the time that the cluster asks for', async () => {
  let [now, retryAfterSeconds] = [1_000, 0]
  const publisher = { withdraw: () => Promise.reject(new ApiError('no', { code: 429, retryAfterSeconds })) }
  const rooms = { publisher, narrator: {}, log: new Recorder(), now: () => now, random: () => 0.5 }
  const writes = new ClusterWrites('ns/a', rooms as unknown as ConstructorParameters<typeof ClusterWrites>[1])
  const waits = async () => {
    await writes.perform({ do: 'withdraw' }, target, publication)
    const before = writes.retry?.at ?? 0
    const hasHurried = writes.hurry()
    return [before - now, hasHurried, (writes.retry?.at ?? 0) - now, writes.hurry()]
  }
  expect(await waits()).toEqual([250, false, 250, false])
  for (let failures = 2; failures < 10; failures += 1) await waits()
  expect(await waits()).toEqual([15_000, true, 750, false])
  retryAfterSeconds = 5
  now += 750
  expect(await waits()).toEqual([15_000, true, 5_000, false])
  writes.retryNow()
  expect(writes.hurry()).toBe(false)
})

test('the Service waits ever longer by itself, whatever becomes of other writes, and each trouble is told once', async () => {
  const log = new Recorder()
  const answers = { ensureService: true, withdraw: false }
  const answer = (isRefused: boolean) =>
    isRefused ? Promise.reject(new ApiError('no', { code: 503 })) : Promise.resolve({ kind: 'done' })
  const publisher = {
    ensureService: () => answer(answers.ensureService),
    withdraw: () => answer(answers.withdraw),
  }
  const rooms = { publisher, narrator: {}, log, now: () => 1_000, random: () => 1 }
  const writes = new ClusterWrites('ns/a', rooms as unknown as ConstructorParameters<typeof ClusterWrites>[1])
  const perform = (step: 'ensureService' | 'withdraw') => writes.perform({ do: step }, target, publication)

  for (const waitMs of [500, 1_000, 2_000]) {
    await perform('ensureService')
    await perform('withdraw')
    expect([writes.serviceRetry?.at, writes.retry]).toEqual([1_000 + waitMs, undefined])
  }
  answers.withdraw = true
  await perform('withdraw')
  expect([writes.serviceRetry?.failures, writes.retry?.failures]).toEqual([3, 1])
  expect(log.warnings.map(({ message }) => message)).toEqual(['cluster write failed', 'cluster write failed'])
  answers.ensureService = false
  await perform('ensureService')
  expect([writes.serviceRetry, writes.retry?.failures]).toEqual([undefined, 1])
})
