import { expect, test } from 'vitest'
import type { RuntimeCounters } from '../../../../src/agent-core/servers/probe.ts'
import { RunCounts } from '../../../../src/agent-core/servers/figures/run-counts.ts'

function readingsEvery(ms: number, ...told: readonly RuntimeCounters[]) {
  const counts = new RunCounts()
  const stretches = told.map((counters, index) => counts.add({ counters, askedAt: index * ms, at: index * ms }))
  const now = (told.length - 1) * ms
  return { counts, last: stretches.at(-1), rates: counts.rates(now), now }
}

const readings = (...told: readonly RuntimeCounters[]) => readingsEvery(2_000, ...told)

const idle: RuntimeCounters = {
  ...{ promptTokens: 1_000, promptSeconds: 10, cachedTokens: 0, generatedTokens: 5_000, generationSeconds: 500 },
  ...{ decodes: 5_000, slotsPerDecode: 1, requestsRunning: 0 },
}
const ended: RuntimeCounters = {
  ...{ promptTokens: 1_300, promptSeconds: 11, cachedTokens: 20, generatedTokens: 5_100, generationSeconds: 502 },
  ...{ decodes: 5_101, slotsPerDecode: 1, requestsRunning: 0 },
}

test('rates are those of what was counted last, not of the whole life', () => {
  const { rates, last, counts } = readings(idle, ended)
  expect([rates, last?.contextTokens, last?.isOneRequest, counts.movedAt]).toEqual([
    { prompt: 300, generation: 50 },
    420,
    true,
    2_000,
  ])
})

test('without work there is no rate, half a minute after it no more, and over hours none at all', () => {
  const { counts, rates, now } = readings(idle, ended)
  const late = new RunCounts()
  late.add({ counters: idle, askedAt: 0, at: 0 })
  late.add({ counters: ended, askedAt: 300_001, at: 300_001 })
  expect([
    readings(idle, idle).rates,
    counts.rates(now + 30_000),
    counts.rates(now + 30_001),
    late.rates(300_001),
  ]).toEqual([{}, rates, {}, {}])
})

test('a counter that goes back began anew, and one that is missing stays missing', () => {
  const { last } = readings(idle, { promptTokens: 40, generatedTokens: 5_100, generationSeconds: 502 })
  expect(last).toMatchObject({ promptTokens: 40, generatedTokens: 100, generationSeconds: 2 })
  expect(last).not.toHaveProperty('promptSeconds')
})

test.each<[string, RuntimeCounters]>([
  ['no seconds', { promptTokens: 1_400 }],
  ['no tokens', { promptSeconds: 12 }],
  ['seconds in which nothing was read', { promptTokens: 1_000, promptSeconds: 12 }],
  ['tokens in no time', { promptTokens: 1_400, promptSeconds: 10 }],
])('of %s there is no rate', (_, counters) => {
  expect(readings(idle, counters).rates).toEqual({})
})

test('an answer that was asked for before the last one came is not read', () => {
  const { counts } = readings(idle, ended)
  expect(counts.add({ counters: idle, askedAt: 1_999, at: 2_500 })).toBeUndefined()
  expect(counts.last?.counters).toEqual(ended)
})

test('during a long answer its decodes tell how fast it is, once its prompt is read', () => {
  const running = { ...idle, requestsRunning: 1 }
  const read = { ...running, promptTokens: 1_400, promptSeconds: 12, decodes: 5_010 }
  const reading = (decodes: number) => readings(idle, running, { ...running, decodes }).rates.generation
  const writing = (decodes: number, changes: RuntimeCounters = {}) =>
    readings(idle, running, read, { ...read, decodes, ...changes }).rates.generation
  expect([reading(5_060), writing(5_110), writing(5_018), writing(5_017)]).toEqual([undefined, 50, 4, undefined])
  const writingFor = (ms: number) =>
    readingsEvery(ms, idle, running, read, { ...read, decodes: 5_018 }).rates.generation
  expect([writingFor(1_000), writingFor(999)]).toEqual([8, undefined])
  expect(writing(5_110, { requestsRunning: 2 })).toBeUndefined()
  expect(writing(5_110, { draftedTokens: 400 })).toBeUndefined()
  const two = { ...read, requestsRunning: 2, decodes: 5_020 }
  const [alone, later] = [5_030, 5_130].map((decodes) => ({ ...read, decodes }))
  expect(readings(idle, running, read, two, alone ?? read, later ?? read).rates.generation).toBeUndefined()
})

test.each<[string, RuntimeCounters, boolean]>([
  ['two at once are not one', { ...ended, decodes: 5_100, slotsPerDecode: 5_180 / 5_100 }, false],
  ['two that run at the end are not one', { ...ended, requestsRunning: 2 }, false],
  ['a server that does not tell its slots proves nothing', { generatedTokens: 5_100, generationSeconds: 502 }, false],
])('%s', (_, counters, isOne) => {
  expect(readings(idle, counters).last?.isOneRequest).toBe(isOne)
})
