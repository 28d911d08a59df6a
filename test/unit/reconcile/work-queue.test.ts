import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { WorkQueue } from '../../../src/agent-core/reconcile/work-queue.ts'
import { steadyNow } from '../../../src/agent-core/util/steady-clock.ts'
import { eventually } from '../../support/eventually.ts'
import { silentLog } from '../../support/silent-log.ts'

beforeEach(() => vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

test('additions during one turn become one pass', async () => {
  const passes: string[] = []
  const queue = new WorkQueue({ reconcile: (key) => note(passes, key), log: silentLog })
  queue.add('a/1')
  queue.add('a/1')
  queue.add('a/2')
  await vi.runAllTimersAsync()
  expect(passes).toEqual(['a/1', 'a/2'])
})

test('a key added while it is worked on gets one more pass, however often it was added', async () => {
  const passes: string[] = []
  const { promise: firstPass, resolve: endFirstPass } = Promise.withResolvers<undefined>()
  const queue = new WorkQueue({
    reconcile: async (key) => {
      passes.push(key)
      return passes.length === 1 ? firstPass : undefined
    },
    log: silentLog,
  })
  queue.add('a/1')
  await vi.advanceTimersByTimeAsync(0)
  queue.add('a/1')
  queue.add('a/1')
  endFirstPass(undefined)
  await vi.runAllTimersAsync()
  expect(passes).toEqual(['a/1', 'a/1'])
})

test('a key that takes long does not hold up another', async () => {
  const passes: string[] = []
  const never = new Promise<undefined>(() => undefined)
  const queue = new WorkQueue({
    reconcile: (key) => {
      passes.push(key)
      return key === 'a/slow' ? never : Promise.resolve(undefined)
    },
    log: silentLog,
  })
  queue.add('a/slow')
  queue.add('a/quick')
  await vi.advanceTimersByTimeAsync(0)
  expect(passes).toEqual(['a/slow', 'a/quick'])
})

test('the passes of many keys that are added at once leave turns of the event loop to others, and each gets its pass', async () => {
  vi.useRealTimers()
  const passes = new Set<string>()
  const queue = new WorkQueue({
    reconcile: async (key) => {
      const until = performance.now() + 1
      while (performance.now() < until) passes.add(key)
      return Promise.resolve(undefined)
    },
    log: silentLog,
  })
  const keys = Array.from({ length: 200 }, (_, at) => `a/${at}`)
  const turns: number[] = []
  const untilAllPassed = async (): Promise<void> => {
    while (passes.size < keys.length) {
      await nextTurn()
      turns.push(passes.size)
    }
  }
  const passed = untilAllPassed()
  for (const key of keys) queue.add(key)
  await passed
  const begunInOneTurn = turns.map((begun, at) => begun - (turns[at - 1] ?? 0))
  expect(Math.max(...begunInOneTurn)).toBeLessThan(keys.length / 4)
  const begun = passes.size
  passes.clear()
  for (const key of keys) queue.add(key)
  await queue.stop()
  expect(passes.size).toBeLessThan(begun)
})

test('a pass that fails is repeated with a growing, jittered wait that a success resets', async () => {
  const startedAt = Date.now()
  const passes: number[] = []
  const outcomes = ['fail', 'fail', 'fail', 'succeed', 'fail', 'succeed']
  const queue = new WorkQueue({
    reconcile: () => {
      passes.push(Date.now() - startedAt)
      return outcomes[passes.length - 1] === 'fail' ? Promise.reject(new Error('no')) : Promise.resolve(undefined)
    },
    log: silentLog,
    random: () => 1,
  })
  queue.add('a/1')
  await vi.runAllTimersAsync()
  expect(passes).toEqual([0, 500, 1_500, 3_500])
  queue.add('a/1')
  await vi.runAllTimersAsync()
  expect(passes.slice(4)).toEqual([3_500, 4_000])
})

test('a pass that names a time is repeated then, and an addition before it takes its place', async () => {
  const startedAt = Date.now()
  const passes: number[] = []
  const queue = new WorkQueue({
    reconcile: () => {
      passes.push(Date.now() - startedAt)
      return Promise.resolve(passes.length < 3 ? Date.now() + 1_000 : undefined)
    },
    log: silentLog,
  })
  queue.add('a/1')
  await vi.advanceTimersByTimeAsync(400)
  queue.add('a/1')
  await vi.runAllTimersAsync()
  expect(passes).toEqual([0, 400, 1_400])
})

test('stopping waits for the pass under way and starts no other', async () => {
  const passes: string[] = []
  const { promise, resolve } = Promise.withResolvers<undefined>()
  const queue = new WorkQueue({
    reconcile: (key) => {
      passes.push(key)
      return promise
    },
    log: silentLog,
  })
  queue.add('a/1')
  await vi.advanceTimersByTimeAsync(0)
  let stopped = false
  const stopping = queue.stop().then(() => (stopped = true))
  queue.add('a/1')
  queue.add('a/2')
  await vi.advanceTimersByTimeAsync(60_000)
  expect(stopped).toBe(false)
  resolve(undefined)
  await stopping
  expect(passes).toEqual(['a/1'])
})

test('whatever is added when, one pass of a key starts after the last addition, and never two at once', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ key: fc.constantFrom('a', 'b', 'c'), afterMs: fc.nat(30), takesMs: fc.nat(40) })),
      async (script) => {
        const lastAdded = new Map<string, number>()
        const lastStarted = new Map<string, number>()
        const working = new Set<string>()
        let turn = 0
        let overlaps = 0
        const queue = new WorkQueue({
          reconcile: async (key) => {
            if (working.has(key)) overlaps += 1
            working.add(key)
            lastStarted.set(key, ++turn)
            await new Promise((resolve) => setTimeout(resolve, script[turn % script.length]?.takesMs ?? 1))
            working.delete(key)
            return undefined
          },
          log: silentLog,
        })
        for (const { key, afterMs } of script) {
          await vi.advanceTimersByTimeAsync(afterMs)
          lastAdded.set(key, ++turn)
          queue.add(key)
        }
        await vi.runAllTimersAsync()
        const missed = [...lastAdded].filter(([key, added]) => (lastStarted.get(key) ?? 0) < added)
        expect({ missed, overlaps }).toEqual({ missed: [], overlaps: 0 })
      },
    ),
    { numRuns: 60 },
  )
})

async function note(passes: string[], key: string): Promise<undefined> {
  passes.push(key)
  return Promise.resolve(undefined)
}

test('a wall clock that is set back holds up no pass', async () => {
  vi.useRealTimers()
  const wall = Date.now()
  const clock = vi.spyOn(Date, 'now').mockImplementation(() => wall - 3_600_000)
  let passes = 0
  const again = new WorkQueue({
    reconcile: () => Promise.resolve((passes += 1) === 1 ? steadyNow() + 20 : undefined),
    log: silentLog,
  })
  try {
    again.add('ns/a')
    await eventually(() => passes === 2)
  } finally {
    clock.mockRestore()
    await again.stop()
  }
})
