import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { mayKeepAwake } from '../../../src/agent-core/awake/awake-rule.ts'
import { SupplyWatch } from '../../../src/agent-core/awake/supply-watch.ts'
import type { PowerSupply } from '../../../src/agent-core/platform/power-supply.ts'
import { silentLog } from '../../support/silent-log.ts'

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

test('a supply that is not known keeps nothing awake where only mains count', () => {
  expect([mayKeepAwake('on-mains', undefined), mayKeepAwake('while-serving', undefined)]).toEqual([false, true])
})
