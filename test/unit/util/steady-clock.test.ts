import { afterEach, expect, test, vi } from 'vitest'
import { steadyNow, wallTimeOf } from '../../../src/agent-core/util/steady-clock.ts'

afterEach(() => vi.restoreAllMocks())

test('a wall clock that is set back neither stops the steady one nor what people are told', () => {
  let runsMs = 5_000
  let setByMs = 0
  vi.spyOn(performance, 'now').mockImplementation(() => runsMs)
  vi.spyOn(Date, 'now').mockImplementation(() => Math.floor(performance.timeOrigin) + runsMs + setByMs)
  const before = steadyNow()
  expect(wallTimeOf(before).getTime()).toBe(before)

  runsMs += 10
  setByMs = -3_600_000
  expect([steadyNow(), wallTimeOf(before).getTime()]).toEqual([before + 10, before - 3_600_000])
})
