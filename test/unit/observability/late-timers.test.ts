import { expect, test } from 'vitest'
import { LateTimers } from '../../../src/agent-core/observability/late-timers.ts'

const after = (ticks: readonly number[]): LateTimers => {
  const timers = new LateTimers('darwin')
  for (const byMs of ticks) timers.tick(byMs)
  return timers
}

const onTime = (count: number): number[] => Array.from({ length: count }, () => 20)

test.each<[string, number[], boolean]>([
  ['on time are no news', onTime(100), false],
  ['late for a moment are none', [...onTime(5), 3_000, 3_000, 3_000], false],
  ['late four of twelve times are told', [3_000, ...onTime(4), 3_000, 3_000, ...onTime(4), 3_000], true],
  ['late four of thirteen times and more are none', [3_000, ...onTime(5), 3_000, 3_000, ...onTime(5), 3_000], false],
  ['late by very much are told', [15_000, 30_000, 15_000, 59_000], true],
  ['late before a sleep are forgotten', [3_000, 3_000, 3_000, 3_600_000, 3_000], false],
  [
    'late before, and on time since, are told no more',
    [...Array.from({ length: 9 }, () => 3_000), ...onTime(12)],
    false,
  ],
])('timers that are %s', (_what, ticks, isTold) => {
  expect(after(ticks).notice !== undefined).toBe(isTold)
})

test('a tick is late by more than a second', () => {
  const timers = new LateTimers('darwin')
  expect([timers.tick(1_000), timers.tick(1_001)]).toEqual([false, true])
})

test('a sleep that is announced forgets what was before it', () => {
  const timers = after([3_000, 3_000, 3_000])
  timers.slept()
  timers.tick(3_000)
  expect(timers.notice).toBeUndefined()
})

test('it says how often, and speaks of App Nap on macOS only', () => {
  const noticeOn = (system: 'darwin' | 'linux') => {
    const timers = new LateTimers(system)
    for (const byMs of [3_000, 20, 3_000, 3_000, 3_000]) timers.tick(byMs)
    return timers.notice
  }
  expect(noticeOn('darwin')).toContain(
    'late 4 of the last 5 times: macOS slows an app that it believes to be idle (App Nap)',
  )
  expect(noticeOn('linux')).toContain('late 4 of the last 5 times: this machine is overloaded.')
})
