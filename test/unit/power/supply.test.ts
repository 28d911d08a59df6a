import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { PowerSupply } from '../../../src/agent-core/platform/power-supply.ts'
import { Supply, type SupplyOptions } from '../../../src/agent-core/power/supply.ts'
import { Recorder } from '../../support/running-agent.ts'
import { silentLog } from '../../support/silent-log.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const onMains: PowerSupply = { source: 'mains', charge: 0.8, lowPowerMode: false }

/** On a Mac where no model runs. */
const supplyOf = (
  powerSupply: () => Promise<PowerSupply | undefined>,
  options: Partial<Omit<SupplyOptions, 'platform'>> = {},
): Supply =>
  new Supply({
    platform: {
      name: 'darwin',
      powerSupply,
      awakeProgram: () => undefined,
      processGroup: () => Promise.resolve([]),
    },
    servers: { state: () => new Map(), counted: () => [], onChange: () => () => undefined },
    settings: () => ({ sleepPolicy: 'while-serving', awakeOnBattery: false }),
    hasReaders: () => false,
    log: silentLog,
    onChange: () => undefined,
    ...options,
  })

/** Looks every second; `found` is what each look finds. */
async function watched(found: readonly (PowerSupply | Error)[]) {
  let told = 0
  let looks = 0
  const powerSupply = () => {
    const one = found[Math.min(looks++, found.length - 1)]
    return one instanceof Error ? Promise.reject(one) : Promise.resolve(one)
  }
  const log = new Recorder()
  await using supply = supplyOf(powerSupply, { onChange: () => void (told += 1), everyMs: 1_000, log })
  await supply.look()
  await vi.advanceTimersByTimeAsync(1_000 * (found.length - 1))
  return { told, view: supply.view, warnings: log.warnings.length }
}

test('what was known counts for two looks that fail, and no more after the third', async () => {
  const broken = new Error('pmset')
  expect(await watched([onMains, broken, broken])).toMatchObject({ told: 1, view: onMains })
  const after = await watched([onMains, broken, broken, broken])
  expect(after).toEqual({ told: 2, view: undefined, warnings: 1 })
  expect((await watched([broken, onMains, broken])).warnings).toBe(2)
})

test('a charge that changes is told, and so is another source', async () => {
  const { told } = await watched([onMains, { ...onMains, charge: 0.7 }, { ...onMains, source: 'battery' }])
  expect(told).toBe(3)
})

test('a battery is looked at every quarter of a minute while that is needed, at once when it becomes so, and else seldom', async () => {
  let looks = 0
  let isNeeded = false
  await using watch = supplyOf(() => Promise.resolve(((looks += 1), onMains)), { hasReaders: () => isNeeded })
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

test('a change that the system tells of in the middle of a look is looked at again', async () => {
  const answers: PromiseWithResolvers<PowerSupply>[] = []
  await using watch = supplyOf(() => {
    const answer = Promise.withResolvers<PowerSupply>()
    answers.push(answer)
    return answer.promise
  })
  const first = watch.look()
  const changed = watch.changed()
  answers[0]?.resolve(onMains)
  await first
  await vi.waitFor(() => expect(answers).toHaveLength(2))
  answers[1]?.resolve({ ...onMains, source: 'battery' })
  await changed
  expect(watch.view?.source).toBe('battery')
})
