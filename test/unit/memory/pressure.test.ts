import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  thresholds,
  hysteresis,
  nextPressure,
  type MemorySample,
  type Pressure,
  type PressureLevel,
} from '../../../src/agent-core/memory/watchdog.ts'

const total = 64 * 1024 ** 3
const stepMs = 10_000

type Step = MemorySample | undefined

const available = (fraction: number, kernelLevel?: PressureLevel): Step => ({
  totalBytes: total,
  availableBytes: fraction * total,
  kernelLevel,
})

const compressed = (fraction: number, kernelLevel?: PressureLevel): Step => ({
  totalBytes: total,
  availableBytes: fraction * total,
  kernelLevel,
  isCompressed: true,
})

/** The pressure after every step of a trace, one step every ten seconds. */
function follow(steps: readonly Step[]): Pressure[] {
  let pressure: Pressure | undefined
  return steps.map((step, index) => (pressure = nextPressure(pressure, step, index * stepMs)))
}

const levels = (steps: readonly Step[]) => follow(steps).map(({ level }) => level)
const times = (count: number, step: Step): Step[] => Array.from({ length: count }, () => step)

describe('the level', () => {
  test.each<[string, Step, Pressure['level']]>([
    ['plenty', available(0.5), 'normal'],
    ['exactly the warning threshold', available(0.2), 'normal'],
    ['less than the warning threshold', available(0.199), 'warning'],
    ['exactly the critical threshold', available(0.1), 'warning'],
    ['less than the critical threshold', available(0.099), 'critical'],
    ['a kernel that warns while there is plenty', available(0.5, 'warning'), 'warning'],
    ['a kernel in need while there is plenty', available(0.5, 'critical'), 'critical'],
    ['a content kernel while there is little', available(0.05, 'normal'), 'critical'],
    ['a content kernel that compresses while there is little', compressed(0.05, 'normal'), 'warning'],
    ['a content kernel that compresses below the warning threshold', compressed(0.15, 'normal'), 'normal'],
    ['a kernel that compresses and warns while there is little', compressed(0.05, 'warning'), 'critical'],
    ['a kernel that compresses and says nothing while there is little', compressed(0.05), 'critical'],
    ['a sample that could not be read', undefined, 'unknown'],
  ])('of %s', (_, step, level) => {
    expect(levels([step])).toEqual([level])
  })

  test('rises at once, and falls after thirty seconds of clearly better samples', () => {
    expect(levels([available(0.5), available(0.05), ...times(5, available(0.5))])).toEqual([
      'normal',
      ...Array.from({ length: 4 }, () => 'critical'),
      'normal',
      'normal',
    ])
  })

  test('falls to the worst that was seen while it waited, and from there on waits again', () => {
    const trace = [available(0.05), available(0.5), available(0.15), ...times(6, available(0.5))]
    expect(levels(trace)).toEqual([
      ...Array.from({ length: 4 }, () => 'critical'),
      ...Array.from({ length: 4 }, () => 'warning'),
      'normal',
    ])
  })

  test('waits anew after one bad sample', () => {
    const trace = [available(0.15), ...times(3, available(0.5)), available(0.15), ...times(4, available(0.5))]
    expect(levels(trace)).toEqual([...Array.from({ length: 8 }, () => 'warning'), 'normal'])
  })

  test('just above the threshold, is left only after five minutes', () => {
    const changes = levels([available(0.15), ...times(40, available(0.21))])
    expect(changes.indexOf('normal') - 1).toBe(hysteresis.longWaitMs / stepMs)
  })
})

describe('a sample that could not be read', () => {
  test('changes nothing for a minute, and then the level is unknown, not critical and not normal', () => {
    for (const [start, level] of [
      [0.5, 'normal'],
      [0.05, 'critical'],
    ] as const) {
      expect(levels([available(start), ...times(7, undefined)])).toEqual([
        ...Array.from({ length: 6 }, () => level),
        'unknown',
        'unknown',
      ])
    }
  })

  test('is no sign of calm', () => {
    const trace = [available(0.05), available(0.5), available(0.5), undefined, ...times(4, available(0.5))]
    expect(levels(trace)).toEqual([...Array.from({ length: 7 }, () => 'critical'), 'normal'])
  })

  test('after an unknown level the next sample says what it is', () => {
    expect(levels([undefined, undefined, available(0.15)])).toEqual(['unknown', 'unknown', 'warning'])
  })
})

const rank = { normal: 0, warning: 1, critical: 2 }
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 9,
    arbitrary: fc.tuple(fc.double({ min: 0, max: 0.4, noNaN: true }), kernelLevels()).map(([f, k]) => available(f, k)),
  },
  { weight: 1, arbitrary: fc.constant(undefined) },
)

function kernelLevels() {
  return fc.constantFrom<(PressureLevel | undefined)[]>(
    undefined,
    undefined,
    undefined,
    'normal',
    'warning',
    'critical',
  )
}

/** Swings around a threshold with every sample, as a Mac does that compresses and swaps. */
const nervous = fc
  .tuple(fc.constantFrom(0.1, 0.2), fc.array(fc.double({ min: -0.025, max: 0.025, noNaN: true }), { maxLength: 200 }))
  .map(([threshold, swings]) => swings.map((swing) => available(threshold + swing)))

const traces = fc.oneof(fc.array(anyStep, { maxLength: 200 }), nervous)

function falls(trace: readonly Step[]): { at: number; to: PressureLevel; from: PressureLevel }[] {
  return follow(trace).flatMap(({ level: to }, index, all) => {
    const from = all[index - 1]?.level ?? 'unknown'
    return from !== 'unknown' && to !== 'unknown' && rank[to] < rank[from] ? [{ at: index * stepMs, to, from }] : []
  })
}

describe('whatever memory does', () => {
  test('the level never falls twice within the wait, and so never flaps faster than that', () => {
    fc.assert(
      fc.property(traces, (trace) => {
        const gaps = falls(trace).map(({ at }, index, all) => at - (all[index - 1]?.at ?? -Infinity))
        return gaps.every((gap) => gap > hysteresis.waitMs)
      }),
      { numRuns: 1_000 },
    )
  })

  test('it is never better than what the latest sample says', () => {
    fc.assert(
      fc.property(traces, (trace) =>
        follow(trace).every(({ level }, index) => {
          const sample = trace[index]
          if (sample === undefined) return true
          const [said] = levels([sample])
          return said !== undefined && said !== 'unknown' && level !== 'unknown' && rank[level] >= rank[said]
        }),
      ),
    )
  })

  test('a sample that could not be read makes nothing better or worse', () => {
    fc.assert(
      fc.property(traces, (trace) => {
        const all = levels(trace)
        return all.every(
          (level, index) => trace[index] !== undefined || level === 'unknown' || level === all[index - 1],
        )
      }),
    )
  })

  test('it returns to normal when samples stay normal, however little above the threshold', () => {
    const end = fc.double({ min: thresholds.warning, max: 1, noNaN: true })
    fc.assert(
      fc.property(traces, end, (trace, fraction) => {
        const calm = times((hysteresis.waitMs + hysteresis.longWaitMs) / stepMs + 2, available(fraction))
        return levels([...trace, ...calm]).at(-1) === 'normal'
      }),
      { numRuns: 1_000 },
    )
  })

  /** Available percent every ten seconds, as `memory_pressure` shows it while a model of half the memory loads and is stopped. */
  test('a load and a stop are two rises and one way back', () => {
    const loading = [62, 48, 31, 22, 18, 12, 9, 11, 8, 13, 12, 14, 9, 15, 24, 41, 61, 61, 62, 62, 61, 62, 62, 62]
    const seen = levels(loading.map((percent) => available(percent / 100)))
    expect(seen.filter((level, index) => level !== seen[index - 1])).toEqual([
      'normal',
      'warning',
      'critical',
      'warning',
      'normal',
    ])
  })
})
