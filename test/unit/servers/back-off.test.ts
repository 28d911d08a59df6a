import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  afterCrash,
  crashBackOff,
  noCrashes,
  retryDelayMs,
  stableAfterMs,
} from '../../../src/agent-core/servers/back-off.ts'
import { backOffCeilingMs } from '../../../src/agent-core/util/back-off.ts'

test('the wait doubles from one second and stays at five minutes', () => {
  const bounds = Array.from({ length: 11 }, (_, failures) => backOffCeilingMs(crashBackOff, failures) / 1000)
  expect(bounds).toEqual([0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300])
})

test('jitter is full: anything from nothing to the bound', () => {
  const crashes = { failures: 4 }
  expect([0, 0.25, 0.999999].map((value) => retryDelayMs(crashes, 0, () => value))).toEqual([0, 2000, 8000])
  fc.assert(
    fc.property(fc.nat(5_000), fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), (failures, value) => {
      const delay = retryDelayMs({ failures }, 0, () => value)
      return delay >= 0 && delay <= 300_000
    }),
  )
})

test('only the first crash of a server that served is restarted at once', () => {
  const longest = () => 0.999999
  const delays = [
    { crash: 'the first, after serving', failures: 1, servedMs: 1 },
    { crash: 'the first, of a start', failures: 1, servedMs: 0 },
    { crash: 'the second, after serving', failures: 2, servedMs: 60_000 },
  ].map(({ crash, failures, servedMs }) => [crash, retryDelayMs({ failures }, servedMs, longest)])
  expect(delays).toEqual([
    ['the first, after serving', 0],
    ['the first, of a start', 1_000],
    ['the second, after serving', 2_000],
  ])
})

test('a crash after ten minutes of serving counts as the first', () => {
  const five = Array.from({ length: 5 }).reduce<typeof noCrashes>((crashes) => afterCrash(crashes, 1_000), noCrashes)
  expect([five, afterCrash(five, stableAfterMs - 1), afterCrash(five, stableAfterMs)]).toEqual([
    { failures: 5 },
    { failures: 6 },
    { failures: 1 },
  ])
})
