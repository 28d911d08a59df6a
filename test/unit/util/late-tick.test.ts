import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { watchLateTicks } from '../../../src/agent-core/util/late-tick.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test.for<[string, { steady?: number; wall?: number }, number[]]>([
  ['a machine that is awake', {}, []],
  ['a busy one', { steady: 9_000, wall: 9_000 }, []],
  ['one that slept, on a clock that counts sleep', { steady: 3_600_000, wall: 3_600_000 }, [3_600_000]],
  ['one that slept, on a clock that stands still meanwhile', { wall: 3_600_000 }, [3_600_000]],
  ['a clock that was set back', { wall: -3_600_000 }, []],
])('%s is told so', ([, { steady = 0, wall = 0 }, told]) => {
  const shift = { steady: 0, wall: 0 }
  const late: number[] = []
  const clocks = [() => Date.now() + shift.wall, () => Date.now() + shift.steady]
  using _ = watchLateTicks({ onLate: (ms) => late.push(ms), clocks })
  vi.advanceTimersByTime(12_000)
  Object.assign(shift, { steady, wall })
  vi.advanceTimersByTime(20_000)
  expect(late).toEqual(told)
})
