import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { ApiError } from '../../../src/agent-core/kube/api-error.ts'
import { RelayAdoption } from '../../../src/agent-core/publishing/relay-adoption.ts'
import { silentLog } from '../../support/silent-log.ts'

const target = { namespace: 'ns', name: 'a.b', uid: 'u', endpointPort: undefined }
let generation: number
let relayed: (typeof target)[]
let leads: () => Promise<boolean>
let told: string[]
let adoption: RelayAdoption

beforeEach(() => {
  vi.useFakeTimers()
  generation = 1
  relayed = [target]
  leads = () => Promise.resolve(false)
  told = []
  adoption = new RelayAdoption({
    ...{ relayed: () => relayed, leadsToRelay: () => leads(), generationOf: () => generation, log: silentLog },
    ...{ onNotAdopted: (key, message) => told.push(`${key} ${message}`), monotonicNow: () => Date.now() },
  })
  adoption.watch()
})
afterEach(() => {
  adoption[Symbol.dispose]()
  vi.useRealTimers()
})

const minutes = (count: number) => vi.advanceTimersByTimeAsync(count * 60_000)

test('a service that no relay takes up is told after five minutes, once, and again with its next generation', async () => {
  await minutes(5)
  expect(told).toEqual([])
  await minutes(1)
  expect(told).toEqual([expect.stringMatching(/^ns\/a\.b LLMKube's controller routes Service a-b to no relay, /)])
  await minutes(60)
  expect(told).toHaveLength(1)
  generation = 2
  await minutes(1)
  expect(told).toHaveLength(2)
})

test('one that a relay has taken up is not told, nor one of which the cluster does not say', async () => {
  leads = () => Promise.resolve(true)
  await minutes(10)
  leads = () => Promise.reject(new ApiError('busy', { code: 503 }))
  await minutes(10)
  expect(told).toEqual([])
})

test('the five minutes begin again where it was published otherwise meanwhile, and nothing is looked at while nothing is relayed', async () => {
  await minutes(4)
  relayed = []
  await minutes(1)
  expect(vi.getTimerCount()).toBe(0)
  relayed = [target]
  adoption.watch()
  await minutes(5)
  expect(told).toEqual([])
  await minutes(1)
  expect(told).toHaveLength(1)
})
