import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { awakeTimeout } from '../../../src/agent-core/util/awake-timeout.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** A clock that goes on while timers stand still, as that of a machine that sleeps. */
function sleepyClock() {
  let sleptMs = 0
  return { now: () => performance.now() + sleptMs, sleep: (ms: number) => (sleptMs += ms) }
}

test('it is due after so long awake', () => {
  const onDue = vi.fn<() => void>()
  awakeTimeout(onDue, 10_000)
  vi.advanceTimersByTime(9_999)
  expect(onDue).not.toHaveBeenCalled()
  vi.advanceTimersByTime(1)
  expect(onDue).toHaveBeenCalledOnce()
})

test('a sleep does not count, however short the rest is that was left', () => {
  const onDue = vi.fn<() => void>()
  const { now, sleep } = sleepyClock()
  const timeout = awakeTimeout(onDue, 2_500, { now })
  vi.advanceTimersByTime(2_000)
  sleep(3_600_000)
  vi.advanceTimersByTime(500)
  expect(onDue).not.toHaveBeenCalled()
  expect(timeout.leftMs).toBe(500)
  vi.advanceTimersByTime(500)
  expect(onDue).toHaveBeenCalledOnce()
})

test('a machine that is busy is not taken for one that slept', () => {
  const onDue = vi.fn<() => void>()
  const { now, sleep } = sleepyClock()
  awakeTimeout(onDue, 5_000, { now })
  sleep(3_000)
  vi.advanceTimersByTime(2_000)
  expect(onDue).toHaveBeenCalledOnce()
})

test('a machine that stands still again and again puts it off for a while only', () => {
  const onDue = vi.fn<() => void>()
  const { now, sleep } = sleepyClock()
  awakeTimeout(onDue, 10_000, { now })
  for (let step = 0; step < 12; step++) {
    sleep(6_000)
    vi.advanceTimersByTime(1_000)
  }
  expect(onDue).toHaveBeenCalledOnce()
})

test('it can be cleared', () => {
  const onDue = vi.fn<() => void>()
  const timeout = awakeTimeout(onDue, 5_000)
  vi.advanceTimersByTime(3_000)
  timeout.clear()
  vi.advanceTimersByTime(60_000)
  expect(onDue).not.toHaveBeenCalled()
})
