import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Energy } from '../../../src/agent-core/power/energy.ts'
import type { WorkTotals } from '../../../src/agent-core/power/energy-account.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }))
afterEach(() => vi.useRealTimers())

/** An energy room with power, work and a clock as the test states them. */
function trial() {
  const state = {
    totals: new Map<string, WorkTotals>(),
    seconds: 0,
    counted: 0,
    joules: 0,
    shares: new Map<string, number>(),
  }
  const energy: Energy = new Energy({
    totals: () => state.totals,
    countWork: () => {
      state.counted += 1
      energy.workCounted()
      return Promise.resolve()
    },
    onSpending: ({ measured, services }) => {
      state.joules += measured.joules
      for (const [key, joules] of services) state.shares.set(key, (state.shares.get(key) ?? 0) + joules)
    },
    now: () => state.seconds * 1_000,
  })
  return {
    energy,
    state,
    /** Seconds of so many watts. */
    draw: (watts: number, seconds: number) => {
      for (let n = 0; n < seconds; n += 1) {
        state.seconds += 1
        energy.powerChanged({ combinedWatts: watts }, 1_000)
      }
    },
    [Symbol.dispose]: () => energy[Symbol.dispose](),
  }
}

test('energy of the machine is counted, and that of a service while it works', () => {
  using it = trial()
  it.draw(10, 2)
  it.draw(5, 10)
  it.energy.workCounted()
  it.draw(100, 36)
  it.state.totals.set('a/chat', { promptTokens: 100, generatedTokens: 900 })
  it.energy.workCounted()
  expect([it.state.joules, it.state.shares.get('a/chat')]).toEqual([3_660, 3_600])
})

test('the share of the power now is said while it is known, and not when it is old or nothing is measured', () => {
  using it = trial()
  it.state.totals.set('a/one', { generatedTokens: 0 })
  it.draw(30, 1)
  expect(it.energy.shareWatts('a/one')).toBeUndefined()
  it.draw(30, 2)
  it.state.totals
    .set('a/one', { generatedTokens: 20 })
    .set('a/two', { generatedTokens: 10 })
    .set('a/idle', { generatedTokens: 0 })
  it.energy.workCounted()
  const shares = () => ['a/one', 'a/two', 'a/idle', 'a/unknown'].map((key) => it.energy.shareWatts(key))
  expect(shares()).toEqual([20, 10, 0, undefined])
  it.state.seconds += 16
  expect(shares()).toEqual([undefined, undefined, undefined, undefined])
  it.draw(30, 2)
  it.energy.workCounted()
  it.energy.powerChanged(undefined, undefined)
  expect(shares()).toEqual([undefined, undefined, undefined, undefined])
})

test('what was done before anything was measured gets no energy', () => {
  using it = trial()
  it.state.seconds = 3_600
  it.state.totals.set('a/chat', { generatedTokens: 1_000 })
  it.draw(30, 10)
  it.energy.workCounted()
  expect([it.state.joules, it.state.shares.get('a/chat')]).toEqual([270, 0])
})

test.each([500, 2_000, 5_000, 10_000])(
  'work gets the same energy however seldom power is sampled beside looks: every %d ms',
  (intervalMs) => {
    using it = trial()
    const figures = { combinedWatts: 20 }
    const watts = new Set<number | undefined>()
    for (let ms = 0; ms <= 120_000; ms += 500) {
      it.state.seconds = ms / 1_000
      it.state.totals.set('a/chat', { generatedTokens: ms / 100 })
      if (ms % intervalMs === 0) it.energy.powerChanged(figures, intervalMs)
      if (ms % 2_000 === 0) it.energy.workCounted({ isComplete: true })
      if (ms > 2 * intervalMs + 2_000) watts.add(it.energy.shareWatts('a/chat'))
    }
    expect(it.state.shares.get('a/chat')).toBe(2_400)
    expect([...watts]).toEqual([20])
    it.energy.powerChanged(figures, intervalMs)
    it.energy.powerChanged(undefined, undefined)
    expect(it.energy.shareWatts('a/chat')).toBeUndefined()
  },
)

test('what is drawn while a server is too busy to answer is given to its work, and not taken for what the machine draws alone', () => {
  using it = trial()
  it.draw(5, 11)
  it.energy.workCounted({ isComplete: true })
  for (let look = 0; look < 5; look += 1) {
    it.draw(40, 2)
    it.energy.workCounted({ isComplete: false })
  }
  it.state.totals.set('a/chat', { promptTokens: 8_000, generatedTokens: 10 })
  it.energy.workCounted({ isComplete: true })
  it.draw(5, 2)
  it.draw(40, 2)
  it.state.totals.set('a/chat', { promptTokens: 8_000, generatedTokens: 20 })
  it.energy.workCounted({ isComplete: true })
  expect([it.state.joules, it.state.shares.get('a/chat')]).toEqual([540, 480])
})

test('a server that never answers keeps the others from their shares for a minute at most', () => {
  using it = trial()
  it.draw(20, 1)
  it.state.totals.set('a/chat', { generatedTokens: 50 })
  const shares = []
  for (const seconds of [30, 29, 1, 1]) {
    it.draw(20, seconds)
    it.energy.workCounted({ isComplete: false })
    shares.push(it.energy.shareWatts('a/chat'))
  }
  expect(shares).toEqual([undefined, undefined, 20, 20])
})

test('while power is measured, work is counted every minute though nobody looks', () => {
  using it = trial()
  const minutes = (count: number) => void vi.advanceTimersByTime(count * 60_000)
  const inMinutes = (count: number) => {
    const before = it.state.counted
    minutes(count)
    return it.state.counted - before
  }
  const before = inMinutes(3)
  it.draw(20, 1)
  const during = inMinutes(3)
  it.energy.powerChanged(undefined, undefined)
  expect([before, during, inMinutes(3)]).toEqual([0, 3, 0])
})
