import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  EnergyAccount,
  EnergyMeter,
  sharesOf,
  weightOf,
  type PowerReading,
  type WorkTotals,
} from '../../../src/agent-core/power/energy-account.ts'

const totals = (promptTokens: number, generatedTokens: number, more: Partial<WorkTotals> = {}): WorkTotals => ({
  ...{ promptTokens, generatedTokens },
  ...more,
})
const services = (of: Record<string, WorkTotals>) => new Map(Object.entries(of))

describe('joules of samples', () => {
  /** Samples as powermetrics takes them: the mean of each interval, in whole milliwatts, read a little late. */
  function trace(watts: (second: number) => number, lengthsMs: readonly number[]): PowerReading[] {
    const steps = 200
    let from = 0
    return lengthsMs.map((length, index) => {
      const at = (step: number) => watts((from + (length * (step + 0.5)) / steps) / 1_000)
      const mean = Array.from({ length: steps }, (_, step) => at(step)).reduce((sum, one) => sum + one, 0) / steps
      from += length
      return { watts: Math.round(mean * 1_000) / 1_000, atMs: from + (index % 7), intervalMs: 1_000 }
    })
  }
  const joulesOf = (readings: readonly PowerReading[]): number => {
    const meter = new EnergyMeter()
    return readings.reduce((sum, reading) => sum + meter.add(reading).joules, 0)
  }
  const seconds = 600
  const jittered = Array.from({ length: seconds }, (_, index) => 1_000 + (index % 2 === 0 ? 18 : -18))

  test.each<[string, (second: number) => number, joules: number]>([
    ['a constant', () => 12.5, 12.5 * (seconds - 1)],
    // Faster than the samples, so that a look at single instants would miss it.
    ['a fast sine', (s) => 20 + 15 * Math.sin(2 * Math.PI * 1.7 * s), 20 * (seconds - 1)],
    ['a slow sine', (s) => 20 + 15 * Math.sin((2 * Math.PI * s) / 60), 20 * (seconds - 1)],
    ['steps', (s) => (s % 10 < 5 ? 60 : 5), 32.5 * seconds - 60],
    ['a ramp', (s) => s / 10, seconds ** 2 / 20],
  ])('%s is its integral within half a percent', (_, watts, joules) => {
    expect(Math.abs(joulesOf(trace(watts, jittered)) / joules - 1)).toBeLessThan(0.005)
  })

  test('samples that are missing, late or impossible cost their own time and nothing more', () => {
    const meter = new EnergyMeter()
    const at = (second: number, watts?: number) => meter.add({ watts, atMs: second * 1_000, intervalMs: 1_000 })
    expect(at(0, 10)).toEqual({ joules: 0, ms: 0 })
    expect(at(1, 10)).toEqual({ joules: 10, ms: 1_000 })
    expect([at(2), at(3, NaN), at(4, -5), at(5, Infinity)]).toEqual(Array(4).fill({ joules: 0, ms: 0 }))
    expect(at(6, 10)).toEqual({ joules: 10, ms: 1_000 })
    expect(at(3_600, 10)).toEqual({ joules: 0, ms: 0 })
    expect(at(3_601, 10)).toEqual({ joules: 10, ms: 1_000 })
    meter.stop()
    expect(at(3_602, 10)).toEqual({ joules: 0, ms: 0 })
  })

  test('whatever the clock does, there is no negative energy, and no more than the watts in the time', () => {
    const reading = fc.record({
      watts: fc.option(fc.double(), { nil: undefined }),
      atMs: fc.double({ noNaN: true, min: -1e6, max: 1e6 }),
      intervalMs: fc.constantFrom(500, 10_000),
    })
    fc.assert(
      fc.property(fc.array(reading), (readings) => {
        const meter = new EnergyMeter()
        for (const one of readings) {
          const { joules, ms } = meter.add(one)
          expect(ms).toBeGreaterThanOrEqual(0)
          expect(ms).toBeLessThanOrEqual(3 * one.intervalMs)
          expect(joules).toBe(ms === 0 ? 0 : ((one.watts ?? 0) * ms) / 1_000)
        }
      }),
    )
  })
})

describe('the share of each service', () => {
  const count = fc.integer({ min: 0, max: 1_000_000 })
  const work = fc.record({ promptTokens: count, generatedTokens: count })

  test('the shares are the whole, in proportion to the work, and none goes to who did nothing', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1e9, noNaN: true }), fc.dictionary(fc.string(), work), (joules, of) => {
        const shares = sharesOf(joules, services(of))
        const sum = [...shares.values()].reduce((total, share) => total + share, 0)
        const isWorked = Object.values(of).some((one) => weightOf(one) > 0)
        expect(sum).toBeCloseTo(isWorked ? joules : 0, 3)
        for (const [key, done] of Object.entries(of)) expect(shares.has(key)).toBe(weightOf(done) > 0)
      }),
    )
  })

  test('a generated token weighs as much as ten of a prompt', () => {
    const shares = sharesOf(30, services({ writes: totals(0, 100), reads: totals(500, 0) }))
    expect([...shares]).toEqual([
      ['writes', 20],
      ['reads', 10],
    ])
  })
})

describe('between two looks', () => {
  const drew = (watts: number, seconds = 1) => ({ joules: watts * seconds, ms: seconds * 1_000 })

  test('energy is shared by who worked; where nobody did, it is the machine’s own', () => {
    const account = new EnergyAccount(0)
    account.add(drew(30))
    const busy = account.close(services({ 'a/one': totals(0, 20), 'a/two': totals(0, 10) }), 1_000)
    account.add(drew(5))
    const quiet = account.close(services({ 'a/one': totals(0, 20), 'a/two': totals(0, 10) }), 2_000)
    expect([busy.measured, busy.services.get('a/one'), busy.services.get('a/two')]).toEqual([...[drew(30), 20, 10]])
    expect([quiet.measured, [...quiet.services.values()]]).toEqual([drew(5), [0, 0]])
  })

  test('what is drawn while a server does not answer says nothing of what the machine draws alone', () => {
    const account = new EnergyAccount(0)
    account.add(drew(40, 60))
    account.close(services({ 'a/one': totals(0, 0) }), 60_000, false)
    for (const watts of [5, 41]) account.add(drew(watts, 10))
    const { services: of } = account.close(services({ 'a/one': totals(0, 50) }), 80_000)
    expect(of.get('a/one')).toBeCloseTo(460)
  })

  test('work that does not show in the power has its share of all of it', () => {
    const account = new EnergyAccount(0)
    account.add(drew(5, 60))
    account.close(services({ 'a/one': totals(0, 0) }), 60_000)
    account.add(drew(5, 10))
    expect(account.close(services({ 'a/one': totals(0, 1) }), 70_000).services.get('a/one')).toBe(50)
  })

  test('totals count from the beginning, and those that fell have begun anew', () => {
    const account = new EnergyAccount(0)
    account.add(drew(30))
    const first = account.close(services({ 'a/one': totals(0, 60) }), 1_000).services.get('a/one')
    account.add(drew(30))
    const anew = account.close(services({ 'a/one': totals(0, 5) }), 2_000).services.get('a/one')
    expect([first, anew]).toEqual([30, 30])
  })

  test('what a runtime does not count is absent, and its service has no share', () => {
    const account = new EnergyAccount(0)
    account.add(drew(30))
    const of = account.close(services({ 'a/mute': {}, 'a/one': { generatedTokens: 3 } }), 1_000).services
    expect([...of.values()]).toEqual([0, 30])
  })

  test('however long no look comes, no energy is lost', () => {
    const account = new EnergyAccount(0)
    for (let second = 0; second < 5_000; second += 1) account.add(drew(10))
    expect(account.close(services({}), 5_000_000).measured).toEqual(drew(10, 5_000))
  })
})
