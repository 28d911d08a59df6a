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

test.each<[string, RuntimeCounters, boolean]>([
  ['two at once are not one', { ...ended, decodes: 5_100, slotsPerDecode: 5_180 / 5_100 }, false],
  ['two that run at the end are not one', { ...ended, requestsRunning: 2 }, false],
  ['a server that does not tell its slots proves nothing', { generatedTokens: 5_100, generationSeconds: 502 }, false],
])('%s', (_, counters, isOne) => {
  expect(readings(idle, counters).last?.isOneRequest).toBe(isOne)
})
