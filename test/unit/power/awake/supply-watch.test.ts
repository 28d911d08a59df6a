import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { mayKeepAwake } from '../../../../src/agent-core/power/awake/awake-rule.ts'
import { SupplyWatch } from '../../../../src/agent-core/power/awake/supply-watch.ts'
import type { PowerSupply } from '../../../../src/agent-core/platform/power-supply.ts'
import { supplyLine } from '../../../../src/contract/power.ts'
import { silentLog } from '../../../support/silent-log.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const onMains: PowerSupply = { source: 'mains', charge: 0.8, lowPowerMode: false }

/** Looks every second; `found` is what each look finds. */
async function watched(found: readonly (PowerSupply | Error)[]) {
  const told: boolean[] = []
  let looks = 0
  const powerSupply = () => {
    const one = found[Math.min(looks++, found.length - 1)]
    return one instanceof Error ? Promise.reject(one) : Promise.resolve(one)
  }
  using watch = new SupplyWatch({
    platform: { powerSupply },
    log: silentLog,
    onChange: (isOtherSource) => void told.push(isOtherSource),
    isNeeded: () => true,
    everyMs: 1_000,
  })
  await watch.look()
  await vi.advanceTimersByTimeAsync(1_000 * (found.length - 1))
  return { told, current: watch.current }
}

test('what was known counts for two looks that fail, and no more after the third', async () => {
  const broken = new Error('pmset')
  expect(await watched([onMains, broken, broken])).toEqual({ told: [true], current: onMains })
  expect(await watched([onMains, broken, broken, broken])).toEqual({ told: [true, true], current: undefined })
})

test('a charge that changes is told apart from another source', async () => {
  const { told } = await watched([onMains, { ...onMains, charge: 0.7 }, { ...onMains, source: 'battery' }])
  expect(told).toEqual([true, false, true])
})

test('a battery is looked at every quarter of a minute while that is needed, at once when it becomes so, and else seldom', async () => {
  let looks = 0
  let isNeeded = false
  using watch = new SupplyWatch({
    platform: { powerSupply: () => Promise.resolve(((looks += 1), onMains)) },
    log: silentLog,
    onChange: () => undefined,
    isNeeded: () => isNeeded,
  })
  await watch.look()
  await vi.advanceTimersByTimeAsync(140_000)
  const unneeded = looks
  isNeeded = true
  watch.review()
  const atOnce = looks
  await vi.advanceTimersByTimeAsync(60_000)
  const needed = looks
  isNeeded = false
  watch.review()
  await vi.advanceTimersByTimeAsync(140_000)
  expect([unneeded, atOnce, needed, looks]).toEqual([1, 2, 6, 6])
})

test('one look at what is known is never older than a quarter of a minute', async () => {
  let looks = 0
  using watch = new SupplyWatch({
    platform: { powerSupply: () => Promise.resolve(((looks += 1), onMains)) },
    log: silentLog,
    onChange: () => undefined,
    isNeeded: () => false,
  })
  await watch.look()
  await watch.fresh()
  const before = looks
  await vi.advanceTimersByTimeAsync(20_000)
  await watch.fresh()
  expect([before, looks]).toEqual([1, 2])
})

test('a supply that is not known is not said to be mains', () => {
  expect(supplyLine({ lowPowerMode: false, isPaused: false, isKeptAwake: true })).toBe('kept awake while models work')
})

test('a supply that is not known keeps nothing awake where only mains count', () => {
  expect([mayKeepAwake('on-mains', undefined), mayKeepAwake('while-serving', undefined)]).toEqual([false, true])
})

test('a change that the system tells of in the middle of a look is looked at again', async () => {
  const answers: PromiseWithResolvers<PowerSupply>[] = []
  using watch = new SupplyWatch({
    platform: {
      powerSupply: () => {
        const answer = Promise.withResolvers<PowerSupply>()
        answers.push(answer)
        return answer.promise
      },
    },
    log: silentLog,
    onChange: () => undefined,
    isNeeded: () => true,
  })
  const first = watch.look()
  const changed = watch.changed()
  answers[0]?.resolve(onMains)
  await first
  await vi.waitFor(() => expect(answers).toHaveLength(2))
  answers[1]?.resolve({ ...onMains, source: 'battery' })
  await changed
  expect(watch.current?.source).toBe('battery')
})
