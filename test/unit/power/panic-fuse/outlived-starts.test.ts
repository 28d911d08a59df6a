import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { OutlivedStarts } from '../../../../src/agent-core/power/panic-fuse/outlived-starts.ts'

const minuteMs = 60_000

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function outlivedStarts() {
  const onOutlived = vi.fn<(startedAt: number) => void>()
  return { onOutlived, starts: new OutlivedStarts(30 * minuteMs, onOutlived) }
}

test('starts that follow each other keep none from being outlived, and the last is outlived too', () => {
  const { starts, onOutlived } = outlivedStarts()
  const began = Date.now()
  for (let minutes = 0; minutes < 40; minutes += 10) {
    starts.started(Date.now())
    vi.advanceTimersByTime(10 * minuteMs)
  }
  expect(onOutlived.mock.calls).toEqual([[began]])
  vi.advanceTimersByTime(9 * minuteMs)
  expect(onOutlived).toHaveBeenCalledOnce()
  vi.advanceTimersByTime(2 * minuteMs)
  expect(onOutlived.mock.calls.flat()).toEqual([began, began + 20 * minuteMs])
  vi.advanceTimersByTime(60 * minuteMs)
  expect(onOutlived.mock.calls.flat()).toEqual([began, began + 20 * minuteMs, began + 30 * minuteMs])
})

test('a sleep of the machine does not count', () => {
  const { starts, onOutlived } = outlivedStarts()
  const clock = performance.now.bind(performance)
  const wake = vi.spyOn(performance, 'now')
  starts.started(Date.now())
  vi.advanceTimersByTime(minuteMs)
  wake.mockImplementation(() => clock() + 60 * minuteMs)
  vi.advanceTimersByTime(28 * minuteMs)
  expect(onOutlived).not.toHaveBeenCalled()
  vi.advanceTimersByTime(2 * minuteMs)
  expect(onOutlived).toHaveBeenCalledOnce()
  wake.mockRestore()
})

test('what an earlier agent started counts from then, and nothing after the end', () => {
  const { starts, onOutlived } = outlivedStarts()
  starts.started(Date.now() - 25 * minuteMs, 25 * minuteMs)
  vi.advanceTimersByTime(5 * minuteMs)
  expect(onOutlived).toHaveBeenCalledOnce()
  starts.started(Date.now())
  starts[Symbol.dispose]()
  vi.advanceTimersByTime(60 * minuteMs)
  expect(onOutlived).toHaveBeenCalledOnce()
})
