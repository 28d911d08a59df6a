import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  afterCrash,
  crashBackOff,
  noCrashes,
  retryDelayMs,
  stableAfterMs,
} from '../../../src/agent-core/process/back-off.ts'
import { backOffCeilingMs } from '../../../src/agent-core/support/back-off.ts'

test('the wait doubles from one second and stays at five minutes', () => {
  const bounds = Array.from({ length: 11 }, (_, failures) => backOffCeilingMs(crashBackOff, failures) / 1000)
  expect(bounds).toEqual([0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300])
})

test('jitter is full: anything from nothing to the bound', () => {
  const crashes = { failures: 4 }
  expect([0, 0.25, 0.999999].map((value) => retryDelayMs(crashes, () => value))).toEqual([0, 2000, 8000])
  fc.assert(
    fc.property(fc.nat(5_000), fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), (failures, value) => {
      const delay = retryDelayMs({ failures }, () => value)
      return delay >= 0 && delay <= 300_000
    }),
  )
})

test('a crash after ten minutes of serving counts as the first', () => {
  const five = Array.from({ length: 5 }).reduce<typeof noCrashes>((crashes) => afterCrash(crashes, 1_000), noCrashes)
  expect([five, afterCrash(five, stableAfterMs - 1), afterCrash(five, stableAfterMs)]).toEqual([
    { failures: 5 },
    { failures: 6 },
    { failures: 1 },
  ])
})
