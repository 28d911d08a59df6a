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
