import { expect, test } from 'vitest'
import { trailLines, trailMs, withPower, type PowerSample } from '../../../src/renderer/gauges.ts'

const begin = Date.parse('2026-01-02T03:04:05.000Z')
const at = (seconds: number, combinedWatts?: number) => ({
  now: new Date(begin + seconds * 1_000).toISOString(),
  powerFigures: combinedWatts === undefined ? undefined : { combinedWatts },
})
const seen = (...snapshots: ReturnType<typeof at>[]) =>
  snapshots.reduce<readonly PowerSample[]>((trail, snapshot) => withPower(trail, snapshot), [])

test('one sample a second is kept for two minutes', () => {
  const trail = seen(...Array.from({ length: 600 }, (_, index) => at(index / 4, index)))
  const last = trail.at(-1)
  expect({ samples: trail.length, watts: last?.watts, oldest: (last?.at ?? 0) - (trail[0]?.at ?? 0) }).toEqual({
    samples: 121,
    watts: 599,
    oldest: trailMs,
  })
})

test('nothing is remembered of a power that was never measured, or longer ago than two minutes', () => {
  expect([seen(at(0), at(1)), seen(at(0, 40), at(1), at(200))]).toEqual([[], []])
})

test('a clock that was set back begins the trail anew', () => {
  expect(seen(at(50, 10), at(51, 11), at(3, 12)).map(({ watts }) => watts)).toEqual([12])
})

test('a time without figures is a gap, and an idle machine is drawn low', () => {
  const trail = seen(at(0, 5), at(10, 5), at(14), at(18, 2), at(24, 1))
  expect(trailLines(trail, { width: 120, height: 20 })).toEqual(['96.0,10.0 106.0,10.0', '114.0,16.0 120.0,18.0'])
})

test('a time in which nobody looked is a gap and no straight line', () => {
  const trail = seen(at(0, 5), at(2, 5), at(80, 2), at(82, 1))
  expect(trailLines(trail, { width: 120, height: 20 })).toEqual(['38.0,10.0 40.0,10.0', '118.0,16.0 120.0,18.0'])
})
