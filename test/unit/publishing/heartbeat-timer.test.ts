import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Beat, HeartbeatPulse, HeartbeatTimer } from '../../../src/agent-core/publishing/heartbeat.ts'

beforeEach(() => void vi.useFakeTimers({ now: 0 }))
afterEach(() => void vi.useRealTimers())

function timerWith(answers: Beat[], random: () => number, pulse = new HeartbeatPulse({ random })) {
  const beatsAt: number[] = []
  const timer = new HeartbeatTimer({
    random,
    pulse,
    beat: () => {
      beatsAt.push(Date.now())
      return Promise.resolve(answers.shift() ?? 'renewed')
    },
  })
  return { timer, beatsAt }
}

test.each([
  ['earliest', 0, [40_500, 81_000, 121_500]],
  ['middle', 0.5, [45_000, 90_000, 135_000]],
  ['latest', 1, [49_500, 99_000, 148_500]],
])('a claim is renewed every 45 s give or take a tenth: %s', async (_, random, expected) => {
  const { timer, beatsAt } = timerWith([], () => random)
  timer.renewed()
  await vi.advanceTimersByTimeAsync(150_000)
  timer[Symbol.dispose]()
  expect(beatsAt).toEqual(expected)
})

test('failed renewals are repeated with growing pauses of at most 15 s, success ends them', async () => {
  const failures = Array.from({ length: 6 }, () => 'failed' as const)
  const { timer, beatsAt } = timerWith([...failures, 'renewed', 'failed'], () => 1)
  timer.renewed()
  await vi.advanceTimersByTimeAsync(150_000)
  timer[Symbol.dispose]()
  const pauses = beatsAt.map((at, index) => at - (beatsAt[index - 1] ?? 0))
  expect(pauses).toEqual([49_500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 49_500, 1_000])
})

test('another write puts the next renewal off, a gap brings it forward', async () => {
  const { timer, beatsAt } = timerWith([], () => 0.5)
  timer.renewed()
  await vi.advanceTimersByTimeAsync(30_000)
  timer.renewed()
  await vi.advanceTimersByTimeAsync(40_000)
  timer.soon()
  await vi.advanceTimersByTimeAsync(10_000)
  timer[Symbol.dispose]()
  expect(beatsAt).toEqual([71_000])
})

test('it ends when there is nothing left to renew, or when disposed', async () => {
  const { timer, beatsAt } = timerWith(['ended'], () => 0.5)
  timer.renewed()
  await vi.advanceTimersByTimeAsync(200_000)
  timer.renewed()
  const disposed = timerWith([], () => 0.5)
  disposed.timer.renewed()
  disposed.timer[Symbol.dispose]()
  await vi.advanceTimersByTimeAsync(200_000)
  expect([beatsAt, disposed.beatsAt, vi.getTimerCount()]).toEqual([[45_000], [], 0])
})

test('ten claims that were written at different times are renewed in one wake of the process, in time each', async () => {
  const pulse = new HeartbeatPulse({ random: Math.random })
  const claims: ReturnType<typeof timerWith>[] = []
  for (let index = 0; index < 10; index++) {
    const claim = timerWith([], Math.random, pulse)
    claims.push(claim)
    claim.timer.renewed()
    await vi.advanceTimersByTimeAsync(3_000)
  }
  expect(vi.getTimerCount()).toBe(1)
  await vi.advanceTimersByTimeAsync(200_000)
  const [first = [], ...others] = claims.map(({ beatsAt }) => beatsAt)
  const pauses = first.map((at, index) => at - (first[index - 1] ?? 0))
  expect(Math.max(...pauses)).toBeLessThanOrEqual(49_500)
  expect(Math.min(...pauses)).toBeGreaterThanOrEqual(40_500)
  expect(others).toEqual(others.map(() => first))
  for (const { timer } of claims) timer[Symbol.dispose]()
  expect(vi.getTimerCount()).toBe(0)
})

test('four claims are renewed at once, and one that was let go before its turn is not', async () => {
  const pulse = new HeartbeatPulse({ random: () => 0.5 })
  const begun: number[] = []
  const held = Promise.withResolvers<Beat>()
  const timers = Array.from(
    { length: 6 },
    (_, index) => new HeartbeatTimer({ random: () => 0.5, pulse, beat: () => (begun.push(index), held.promise) }),
  )
  for (const timer of timers) timer.renewed()
  await vi.advanceTimersByTimeAsync(45_000)
  const atOnce = [...begun]
  timers[5]?.[Symbol.dispose]()
  held.resolve('ended')
  await vi.advanceTimersByTimeAsync(0)
  expect([atOnce, begun]).toEqual([
    [0, 1, 2, 3],
    [0, 1, 2, 3, 4],
  ])
})

test('renewals that hang from beats before take no turn from those that are due', async () => {
  const pulse = new HeartbeatPulse({ random: () => 0.5 })
  const begun: number[] = []
  const beat = (index: number) => () => (begun.push(index), new Promise<Beat>(() => undefined))
  const claimed = (index: number) => new HeartbeatTimer({ random: () => 0.5, pulse, beat: beat(index) }).renewed()
  for (let index = 0; index < 12; index++) claimed(index)
  await vi.advanceTimersByTimeAsync(45_000)
  expect(begun).toHaveLength(4)
  // Four hang and eight wait: twelve more are due in six turns of four, or four turns of six.
  for (let index = 12; index < 24; index++) claimed(index)
  await vi.advanceTimersByTimeAsync(45_000)
  expect(begun).toHaveLength(6)
})

test('fifty claims are renewed in time each, also where every write takes 15 s', async () => {
  const pulse = new HeartbeatPulse({ random: Math.random })
  const gaps: number[] = []
  const timers = Array.from({ length: 50 }, () => {
    let begunBefore = 0
    const beat = async (): Promise<Beat> => {
      const begun = Date.now()
      await new Promise((resolve) => setTimeout(resolve, 15_000))
      gaps.push(Date.now() - begunBefore)
      begunBefore = begun
      return 'renewed'
    }
    return new HeartbeatTimer({ random: Math.random, pulse, beat })
  })
  for (const timer of timers) timer.renewed()
  await vi.advanceTimersByTimeAsync(600_000)
  for (const timer of timers) timer[Symbol.dispose]()
  expect(Math.max(...gaps)).toBeLessThanOrEqual(49_500 + 4 * 15_000)
  expect(gaps.length).toBeGreaterThanOrEqual(50 * 4)
})
