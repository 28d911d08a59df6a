import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Bandwidth } from '../../../../src/agent-core/models/download/limits.ts'

beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => vi.useRealTimers())

const staying = new AbortController().signal

/** Bytes that two downloads get in so many ms, each taking pieces of 1,000. */
async function transferred(bandwidth: Bandwidth, ms: number): Promise<[number, number]> {
  const leaving = new AbortController()
  const taken: [number, number] = [0, 0]
  const take = async (index: 0 | 1): Promise<void> => {
    while (!leaving.signal.aborted) {
      await bandwidth.take(1000, leaving.signal)
      taken[index] += 1000
    }
  }
  const both = Promise.allSettled([take(0), take(1)])
  await vi.advanceTimersByTimeAsync(ms)
  leaving.abort(new Error('enough'))
  await both
  return taken
}

test('all downloads together keep to the limit, and share it', async () => {
  const [one, other] = await transferred(new Bandwidth(100_000), 10_000)
  expect({ together: Math.round((one + other) / 100_000), apart: Math.abs(one - other) <= 25_000 }).toEqual({
    together: 10,
    apart: true,
  })
})

test('without a limit nobody waits', async () => {
  const bandwidth = new Bandwidth()
  await bandwidth.take(1e12, staying)
  expect(bandwidth.takenBytes).toBe(1e12)
})

test('a changed limit holds within a moment, also for who waits already', async () => {
  const bandwidth = new Bandwidth(1)
  let served = false
  void bandwidth.take(1000, staying).then(() => {
    served = true
  })
  await vi.advanceTimersByTimeAsync(10_000)
  const before = served
  bandwidth.limit(0)
  await vi.advanceTimersByTimeAsync(250)
  expect([before, served]).toEqual([false, true])
})

test('who is aborted waits no longer', async () => {
  const bandwidth = new Bandwidth(1)
  const leaving = new AbortController()
  const waiting = bandwidth.take(1000, leaving.signal)
  leaving.abort(new Error('gone'))
  await expect(waiting).rejects.toThrow('gone')
})
