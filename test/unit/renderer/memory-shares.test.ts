import { expect, test } from 'vitest'
import type { MemoryStateView } from '../../../src/contract/memory.ts'
import type { ServiceView } from '../../../src/contract/service.ts'
import { memoryShares } from '../../../src/renderer/gauges.ts'
import { memoryWords, workWords } from '../../../src/renderer/words/services.ts'
import { sampleService } from '../../support/sample-snapshot.ts'

const memory: MemoryStateView = {
  totalBytes: 100,
  modelsBytes: 0,
  reservedBytes: 0,
  pressure: 'normal',
  pressureSince: '2026-01-02T03:04:05.000Z',
  evictionEnabled: false,
  eviction: '',
  waiting: [],
}
const service = (state: ServiceView['state'], pid: number | undefined, needBytes = 0) => {
  const need = { needBytes, priority: 'normal', isProtected: false } as const
  return sampleService({ uid: 'a', name: 'a', state, memory: need, ...(pid !== undefined && { pid }) })
}
const shares = (one: ServiceView, footprintBytes?: number) =>
  memoryShares(
    memory,
    { availableBytes: 50 },
    { services: [one], figures: footprintBytes === undefined ? {} : { a: { footprintBytes } } },
  )

test('what models do not hold and is not available is held by others', () => {
  expect(shares(service('ready', 1), 20)).toMatchObject({ otherBytes: 30 })
  expect(shares(service('ready', 1), 70)).toMatchObject({ otherBytes: 0 })
})

test('what a starting model will still take is told beside what it holds', () => {
  expect(shares(service('starting', 1, 30), 20)).toMatchObject({
    models: [{ bytes: 20, promisedBytes: 10 }],
  })
})

test('what a starting model holds before it is measured is not reported, and not nothing', () => {
  const starting = shares(service('starting', 1, 30))
  expect(starting).toMatchObject({
    models: [{ bytes: undefined, isMeasured: false, promisedBytes: 30 }],
  })
  expect(starting?.models.map((share) => memoryWords.segment(share))).toEqual([
    'a, Starting, memory not reported, 30 B more to come',
  ])
})

test('a running model counts by its estimate until it is measured, and one without a process does not count', () => {
  expect(shares(service('ready', 1, 30))?.models).toMatchObject([{ bytes: 30, isMeasured: false }])
  expect(shares(service('stopped', undefined, 30))?.models).toEqual([])
})

test('a model whose weights were not measured has the share that it counts by, and words say that it is an estimate', () => {
  const figures = { a: { footprintBytes: 2, heldBytes: 30 } }
  const mapped = memoryShares(memory, { availableBytes: 50 }, { services: [service('ready', 1, 30)], figures })
  expect(mapped).toMatchObject({ models: [{ bytes: 30, isMeasured: false }], otherBytes: 20 })
  expect(mapped?.models.map((share) => memoryWords.segment(share))).toEqual([
    'a, Ready, 30 B of memory by its estimate',
  ])
  expect(workWords.row(figures.a)).toBe('30 B')
})

test('what the system does not say stays unknown', () => {
  const { totalBytes: _total, ...unknown } = memory
  expect(memoryShares(unknown, undefined, { services: [], figures: {} })).toBeUndefined()
  expect(memoryShares(memory, undefined, { services: [], figures: {} })).toEqual({ totalBytes: 100, models: [] })
})
