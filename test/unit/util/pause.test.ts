import { expect, test } from 'vitest'
import { pauseUntilNext, untilNextMs } from '../../../src/agent-core/util/pause.ts'

test('waits of one interval end together, whenever they began, and never at once', () => {
  const begun = [0, 1, 4_999.5, 9_999, 10_000]
  expect(begun.map((at) => untilNextMs(10_000, at))).toEqual([10_000, 9_999, 5_001, 1, 10_000])
})

test('a wait for the next interval ends with its signal', async () => {
  const waiting = new AbortController()
  const wait = pauseUntilNext(60_000, waiting.signal)
  waiting.abort()
  expect(await wait).toBe(false)
})
