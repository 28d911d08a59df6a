import { afterEach, expect, test, vi } from 'vitest'
import { steadyNow, wallTimeOf } from '../../../src/agent-core/util/steady-clock.ts'

afterEach(() => vi.restoreAllMocks())

test('a wall clock that is set back neither stops the steady one nor what people are told', () => {
  const before = steadyNow()
  const wall = Date.now()
  expect(Math.abs(wallTimeOf(before).getTime() - wall)).toBeLessThan(2_000)

  vi.spyOn(Date, 'now').mockImplementation(() => wall - 3_600_000)
  expect(steadyNow()).toBeGreaterThanOrEqual(before)
  expect(steadyNow() - before).toBeLessThan(60_000)
  expect(Math.abs(wallTimeOf(before).getTime() - (wall - 3_600_000))).toBeLessThan(60_000)
})
