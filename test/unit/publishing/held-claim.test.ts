import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { HeartbeatPulse } from '../../../src/agent-core/publishing/heartbeat.ts'
import { HeldClaim } from '../../../src/agent-core/publishing/held-claim.ts'
import type { Publishing } from '../../../src/agent-core/publishing/publishing.ts'
import { done, type WriteResult } from '../../../src/agent-core/publishing/writes.ts'
import { silentLog } from '../../support/silent-log.ts'
import { target } from './examples.ts'

beforeEach(() => void vi.useFakeTimers({ now: 0 }))
afterEach(() => void vi.useRealTimers())

const dropped: WriteResult = { kind: 'dropped', message: 'Out of date.' }

type Renewal = () => Promise<WriteResult | undefined>

/** Just renewed; `renew` answers as the cluster does, and undefined where the claim was let go. */
function held(renew: Renewal, random: () => number, pulse = new HeartbeatPulse({ random })) {
  const shared = { random, pulse, log: silentLog, onChange: () => undefined, monotonicNow: () => Date.now() }
  const claim: HeldClaim = new HeldClaim(target, 1, {
    ...{ key: 'ml/llama', publishing: shared as Partial<Publishing> as Publishing, isDoubtful: () => false },
    renew: async () => {
      const result = await renew()
      if (result?.kind === 'done') claim.renewed(target, 1)
      return result
    },
  })
  claim.renewed(target, 1)
  return claim
}

function heldWith(answers: (WriteResult | undefined)[], random: () => number, pulse?: HeartbeatPulse) {
  const beatsAt: number[] = []
  const renew = () => {
    beatsAt.push(Date.now())
    return Promise.resolve(answers.length > 0 ? answers.shift() : done)
  }
  return { claim: held(renew, random, pulse), beatsAt }
}

test.each([
  ['earliest', 0, [40_500, 81_000, 121_500]],
  ['middle', 0.5, [45_000, 90_000, 135_000]],
  ['latest', 1, [49_500, 99_000, 148_500]],
])('a claim is renewed every 45 s give or take a tenth: %s', async (_, random, expected) => {
  const { claim, beatsAt } = heldWith([], () => random)
  await vi.advanceTimersByTimeAsync(150_000)
  claim[Symbol.dispose]()
  expect(beatsAt).toEqual(expected)
})

test('failed renewals are repeated with growing pauses of at most 15 s, success ends them', async () => {
  const failures = Array.from({ length: 6 }, () => dropped)
  const { claim, beatsAt } = heldWith([...failures, done, dropped], () => 1)
  await vi.advanceTimersByTimeAsync(150_000)
  claim[Symbol.dispose]()
  const pauses = beatsAt.map((at, index) => at - (beatsAt[index - 1] ?? 0))
  expect(pauses).toEqual([49_500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 49_500, 1_000])
})

test('another write puts the next renewal off, a gap brings it forward', async () => {
  const { claim, beatsAt } = heldWith([], () => 0.5)
  await vi.advanceTimersByTimeAsync(30_000)
  claim.renewed(target, 1)
  await vi.advanceTimersByTimeAsync(40_000)
  claim.renewSoon()
  await vi.advanceTimersByTimeAsync(10_000)
  claim[Symbol.dispose]()
  expect(beatsAt).toEqual([71_000])
})

test('it ends when there is nothing left to renew, or when disposed', async () => {
  const { claim, beatsAt } = heldWith([undefined], () => 0.5)
  await vi.advanceTimersByTimeAsync(200_000)
  claim.renewed(target, 1)
  const disposed = heldWith([], () => 0.5)
  disposed.claim[Symbol.dispose]()
  await vi.advanceTimersByTimeAsync(200_000)
  expect([beatsAt, disposed.beatsAt, vi.getTimerCount()]).toEqual([[45_000], [], 0])
})

test('ten claims that were written at different times are renewed in one wake of the process, in time each', async () => {
  const pulse = new HeartbeatPulse({ random: Math.random })
  const claims: ReturnType<typeof heldWith>[] = []
  for (let index = 0; index < 10; index++) {
    claims.push(heldWith([], Math.random, pulse))
    await vi.advanceTimersByTimeAsync(3_000)
  }
  expect(vi.getTimerCount()).toBe(1)
  await vi.advanceTimersByTimeAsync(200_000)
  const [first = [], ...others] = claims.map(({ beatsAt }) => beatsAt)
  const pauses = first.map((at, index) => at - (first[index - 1] ?? 0))
  expect(Math.max(...pauses)).toBeLessThanOrEqual(49_500)
  expect(Math.min(...pauses)).toBeGreaterThanOrEqual(40_500)
  expect(others).toEqual(others.map(() => first))
  for (const { claim } of claims) claim[Symbol.dispose]()
  expect(vi.getTimerCount()).toBe(0)
})

test('four claims are renewed at once, and one that was let go before its turn is not', async () => {
  const pulse = new HeartbeatPulse({ random: () => 0.5 })
  const begun: number[] = []
  const answer = Promise.withResolvers<undefined>()
  const claims = Array.from({ length: 6 }, (_, index) =>
    held(
      () => (begun.push(index), answer.promise),
      () => 0.5,
      pulse,
    ),
  )
  await vi.advanceTimersByTimeAsync(45_000)
  const atOnce = [...begun]
  claims[5]?.[Symbol.dispose]()
  answer.resolve(undefined)
  await vi.advanceTimersByTimeAsync(0)
  expect([atOnce, begun]).toEqual([
    [0, 1, 2, 3],
    [0, 1, 2, 3, 4],
  ])
})

test('renewals that hang from beats before take no turn from those that are due', async () => {
  const pulse = new HeartbeatPulse({ random: () => 0.5 })
  const begun: number[] = []
  const hanging = (index: number) => () => (begun.push(index), new Promise<WriteResult>(() => undefined))
  const claimed = (index: number) => held(hanging(index), () => 0.5, pulse)
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
  const claims = Array.from({ length: 50 }, () => {
    let begunBefore = 0
    const renew = async (): Promise<WriteResult> => {
      const begun = Date.now()
      await new Promise((resolve) => setTimeout(resolve, 15_000))
      gaps.push(Date.now() - begunBefore)
      begunBefore = begun
      return done
    }
    return held(renew, Math.random, pulse)
  })
  await vi.advanceTimersByTimeAsync(600_000)
  for (const claim of claims) claim[Symbol.dispose]()
  expect(Math.max(...gaps)).toBeLessThanOrEqual(49_500 + 4 * 15_000)
  expect(gaps.length).toBeGreaterThanOrEqual(50 * 4)
})
