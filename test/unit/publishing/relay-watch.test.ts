import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { ApiError } from '../../../src/agent-core/kube/api-error.ts'
import type { KubeApi } from '../../../src/agent-core/kube/kube-api.ts'
import { RelayWatch } from '../../../src/agent-core/publishing/relay.ts'
import { silentLog } from '../../support/silent-log.ts'

const target = { namespace: 'ns', name: 'a.b', uid: 'u', endpointPort: undefined }
const busy = () => Promise.reject(new ApiError('busy', { code: 503 }))
const serviceWith = (selector: object) => () =>
  Promise.resolve({
    metadata: { namespace: 'ns', name: 'a-b', uid: 's', resourceVersion: '1' },
    spec: { selector, ports: [] },
  })
let generation: number
let relayed: (typeof target)[]
let service: () => Promise<unknown>
let told: string[]
let watch: RelayWatch

beforeEach(() => {
  vi.useFakeTimers()
  generation = 1
  relayed = [target]
  service = () => Promise.reject(new ApiError('not found', { code: 404 }))
  told = []
  watch = new RelayWatch({
    api: { schemaOf: busy, get: () => service() } as unknown as KubeApi,
    ...{ relayed: () => relayed, generationOf: () => generation, log: silentLog, onSupport: () => undefined },
    ...{ onNotAdopted: (key, message) => told.push(`${key} ${message}`), monotonicNow: () => Date.now() },
  })
  watch.look()
})
afterEach(() => {
  watch[Symbol.dispose]()
  vi.useRealTimers()
})

const minutes = (count: number) => vi.advanceTimersByTimeAsync(count * 60_000)

test('a service that no relay takes up is told after five minutes, once, and again with its next generation', async () => {
  await minutes(4)
  expect(told).toEqual([])
  await minutes(2)
  expect(told).toEqual([expect.stringMatching(/^ns\/a\.b LLMKube's controller routes Service a-b to no relay, /)])
  await minutes(60)
  expect(told).toHaveLength(1)
  generation = 2
  await minutes(1)
  expect(told).toHaveLength(2)
})

test('one that a relay has taken up is not told, nor one of which the cluster does not say', async () => {
  service = serviceWith({ 'inference.llmkube.dev/metal-relay': 'a.b' })
  await minutes(10)
  service = busy
  await minutes(10)
  expect(told).toEqual([])
})

test('the five minutes begin again where it was published otherwise meanwhile', async () => {
  service = serviceWith({ app: 'another' })
  await minutes(4)
  relayed = []
  await minutes(1)
  relayed = [target]
  await minutes(4)
  expect(told).toEqual([])
  await minutes(2)
  expect(told).toHaveLength(1)
})
