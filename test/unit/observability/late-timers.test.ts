import { expect, test } from 'vitest'
import { LateTimers } from '../../../src/agent-core/observability/late-timers.ts'

const after = (ticks: readonly number[]): LateTimers => {
  const timers = new LateTimers()
  for (const byMs of ticks) timers.tick(byMs)
  return timers
}

const onTime = (count: number): number[] => Array.from({ length: count }, () => 20)

test.each<[string, number[], boolean]>([
  ['on time are no news', onTime(100), false],
  ['late for a moment are none', [...onTime(5), 3_000, 3_000, 3_000], false],
  ['late four times within a minute are told', [3_000, ...onTime(4), 3_000, 3_000, ...onTime(4), 3_000], true],
  ['late four times over a longer time are none', [3_000, ...onTime(5), 3_000, 3_000, ...onTime(5), 3_000], false],
  [
    'late before, and on time for a minute, are told no more',
    [...Array.from({ length: 9 }, () => 3_000), ...onTime(12)],
    false,
  ],
])('timers that are %s', (_what, ticks, isTold) => {
  expect(after(ticks).notice !== undefined).toBe(isTold)
})

test('a tick is late by more than a second', () => {
  const timers = new LateTimers()
  expect([timers.tick(1_000), timers.tick(1_001)]).toEqual([false, true])
})
