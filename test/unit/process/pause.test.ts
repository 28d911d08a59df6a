import { expect, test } from 'vitest'
import { pauseUntilBeat, untilBeatMs } from '../../../src/agent-core/process/pause.ts'

test('a beat is the same for all who wait for it, whenever they began, and never now', () => {
  const begun = [0, 1, 4_999.5, 9_999, 10_000]
  expect(begun.map((at) => untilBeatMs(10_000, at))).toEqual([10_000, 9_999, 5_001, 1, 10_000])
})

test('a wait for a beat ends with its signal', async () => {
  const waiting = new AbortController()
  const wait = pauseUntilBeat(60_000, waiting.signal)
  waiting.abort()
  expect(await wait).toBe(false)
})
