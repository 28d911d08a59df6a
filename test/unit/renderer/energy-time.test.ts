import { expect, test } from 'vitest'
import { energyBars, energyQuery } from '../../../src/renderer/energy-time.ts'
import type { EnergySpan } from '../../../src/contract/power.ts'

const at = (time: string) => Date.parse(`2026-01-02T${time}Z`)

test.each([
  ['day', '03:04:05', 60, '2026-01-01T04:00:00.000Z', 'hour'],
  ['week', '03:04:05', 0, '2025-12-27T00:00:00.000Z', 'day'],
  ['week', '23:30:00', 60, '2025-12-27T23:00:00.000Z', 'day'],
  ['month', '03:04:05', -480, '2025-12-03T08:00:00.000Z', 'day'],
] as const)('the last %s at %s, %d minutes ahead of UTC, begins at %s', (time, clock, utcOffsetMinutes, since, per) => {
  expect(energyQuery(time, { now: at(clock), utcOffsetMinutes })).toMatchObject({ since, per, utcOffsetMinutes })
})

test('the question stays the same within an hour, so that only what is new is asked for', () => {
  const look = { utcOffsetMinutes: 0 }
  expect(energyQuery('day', { ...look, now: at('03:00:00') })).toEqual(
    energyQuery('day', { ...look, now: at('03:59:59') }),
  )
})

const span = (joules: number | undefined, ...shares: number[]): EnergySpan => ({
  ...{ from: '2026-01-01T00:00:00.000Z', measuredMs: 1 },
  ...(joules !== undefined && { joules }),
  services: shares.map((share, index) => ({ namespace: 'a', name: `s${index}`, joules: share })),
})

test('bars are parts of the largest, and what was not measured has none', () => {
  const spans = [span(200, 60, 40), span(undefined), span(50, 50), span(0)]
  const shown = (name?: string) =>
    energyBars(spans, name === undefined ? undefined : { namespace: 'a', name }).map(({ all, part }) => [all, part])
  expect(shown()).toEqual([
    [1, 0.5],
    [undefined, 0],
    [0.25, 0.25],
    [0, 0],
  ])
  expect(shown('s1').map(([, part]) => part)).toEqual([0.2, 0, 0, 0])
  expect(energyBars([span(0, 0)], undefined)).toMatchObject([{ all: 0, part: 0 }])
})
