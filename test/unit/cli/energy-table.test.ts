import { afterEach, expect, test, vi } from 'vitest'
import { parseSince, renderEnergy } from '../../../src/cli/story-verbs.ts'
import { formatEnergy } from '../../../src/contract/format.ts'
import type { EnergyView } from '../../../src/contract/power.ts'

afterEach(() => vi.unstubAllEnvs())

const until = '2026-11-02T10:00:00.000Z'
const view: EnergyView = {
  ...{ from: '2026-11-01T10:00:00.000Z', until, measuredMs: 12_000_000, joules: 3_600_000, ownJoules: 360_000 },
  ...{ cost: 0.32, currency: 'EUR', message: 'Power is measured all the time.' },
  services: [
    {
      ...{ namespace: 'a', name: 'chat', joules: 3_240_000, promptTokens: 12_000, generatedTokens: 400_000 },
      ...{ joulesPerGeneratedToken: 8.123, cost: 0.288 },
    },
    { namespace: '', name: '', joules: 18, requests: 3, cost: 0.0000016 },
  ],
}

test('energy is a table with units, shares are called estimates, and what is not known is not reported', () => {
  const lines = renderEnergy(view).split('\n')
  expect(lines[0]).toBe('Machine  1.00 kWh (CPU, GPU and ANE), 0.32 EUR, 100 Wh of it while no service worked')
  expect(lines[1]).toMatch(/^Time {5}since 2026-11-01 \d\d:\d\d\. Measured for 3 h 20 min of 24 h\.$/)
  expect(lines[2]).toMatch(/^Note {5}The shares of services are estimates/)
  expect(lines.slice(3)).toEqual([
    '         Power is measured all the time.',
    '',
    'NAME            NAMESPACE  ENERGY     J/TOKEN  PROMPT        GENERATED     REQUESTS      COST',
    'chat            a          ~900 Wh    ~8.1     12,000        400,000       not reported  0.29 EUR',
    'other services  -          ~<0.01 Wh  -        not reported  not reported  3             <0.01 EUR',
    '',
  ])
})

test('requests have a column only where a runtime counts them', () => {
  const services = view.services.map((service) => ({ ...service, requests: undefined }))
  expect(renderEnergy({ ...view, services })).not.toMatch(/REQUESTS/)
})

test('without any figure there is a sentence that says what to turn on', () => {
  const message = 'Power is not measured: …'
  expect(renderEnergy({ until, measuredMs: 0, services: [], message })).toBe(
    `Machine  not measured\nTime     No figures are kept for this time.\n         ${message}\n`,
  )
})

test.each([
  [0, '0.00 Wh'],
  [20, '<0.01 Wh'],
  [900, '0.25 Wh'],
  [148_680, '41.3 Wh'],
  [3_598_000, '999 Wh'],
  [3_599_000, '1.00 kWh'],
  [4_320_000_000, '1,200 kWh'],
])('%d J read %s', (joules, text) => {
  expect(formatEnergy(joules)).toBe(text)
})

const now = new Date('2026-11-02T10:00:00.000Z')

test.each([
  ['24h', '2026-11-01T10:00:00.000Z'],
  ['7d', '2026-10-26T10:00:00.000Z'],
  ['2w', '2026-10-19T10:00:00.000Z'],
  ['2026-11-01', new Date(2026, 10, 1).toISOString()],
  ['2026-11-01T08:00:00+02:00', '2026-11-01T06:00:00.000Z'],
])('--since %s is %s', (text, expected) => {
  expect(parseSince(text, now).toISOString()).toBe(expected)
})

test('--since a day begins at midnight of the clock here', () => {
  vi.stubEnv('TZ', 'America/New_York')
  expect(parseSince('2026-11-02', now).toISOString()).toBe('2026-11-02T05:00:00.000Z')
})

test.each([
  '',
  'yesterday',
  '24',
  '-1h',
  '999999999w',
  '2026-02-30',
  '2026-13-01',
  '2026-11-01T25:00Z',
  '1e3h',
  '2026-11-01 08:00',
])('--since %j is refused with what it takes', (text) => {
  expect(() => parseSince(text, now)).toThrow(/^--since must be a time such as 24h, 7d, 2026-11-01 or /)
})

test('--since a time to come is refused', () => {
  expect(() => parseSince('2026-12-01', now)).toThrow(
    '--since 2026-12-01 lies in the future: nothing has been counted yet.',
  )
})
