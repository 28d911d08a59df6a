import { expect, test } from 'vitest'
import {
  energyViewOf,
  hourMs,
  nothingKept,
  withSpending,
  type EnergyQuestion,
  type KeptEnergy,
} from '../../../src/agent-core/power/kept-energy.ts'

const now = Date.parse('2026-11-09T10:20:00Z')

/** So many joules at each of these times, half of them of one service. */
const keptOf = (spent: readonly (readonly [at: string, joules: number])[]): KeptEnergy =>
  spent.reduce((kept, [at, joules]) => {
    const services = new Map([['a/chat', { joules: joules / 2, generatedTokens: 10, measuredTokens: 10 }]])
    return withSpending(kept, { measured: { joules, ms: 1_000 }, services }, Date.parse(at))
  }, nothingKept)

const asked = (kept: KeptEnergy, question: EnergyQuestion) =>
  energyViewOf(kept, question, { price: { perKwh: 0.36 }, message: '', now })

const joulesBy = (kept: KeptEnergy, question: EnergyQuestion) =>
  asked(kept, question).spans?.map(({ from, joules }) => [from.slice(0, 16), joules])

test('each hour of a time is answered, also one of which nothing is kept', () => {
  const kept = keptOf([
    ['2026-11-09T08:59:59Z', 10],
    ['2026-11-09T10:00:00Z', 20],
  ])
  expect(joulesBy(kept, { since: '2026-11-09T08:00:00Z', per: 'hour' })).toEqual([
    ['2026-11-09T08:00', 10],
    ['2026-11-09T09:00', undefined],
    ['2026-11-09T10:00', 20],
  ])
})

test('a day is one of the clock of the person who asks', () => {
  const kept = keptOf([
    ['2026-11-08T22:30:00Z', 10],
    ['2026-11-08T23:30:00Z', 20],
    ['2026-11-09T09:00:00Z', 40],
  ])
  expect(joulesBy(kept, { since: '2026-11-07T23:00:00Z', per: 'day', utcOffsetMinutes: 60 })).toEqual([
    ['2026-11-07T23:00', 10],
    ['2026-11-08T23:00', 60],
  ])
  expect(joulesBy(kept, { since: '2026-11-07T23:00:00Z', per: 'day', utcOffsetMinutes: -480 })).toEqual([
    ['2026-11-07T08:00', undefined],
    ['2026-11-08T08:00', 30],
    ['2026-11-09T08:00', 40],
  ])
})

test('a service has its part, its tokens and its costs in each span, and a time without power has no joules', () => {
  const unmeasured = withSpending(
    keptOf([['2026-11-09T09:00:00Z', 3_600_000]]),
    { measured: { joules: 0, ms: 0 }, services: new Map([['a/chat', { joules: 0, generatedTokens: 7 }]]) },
    now,
  )
  const [first, second] = asked(unmeasured, { since: '2026-11-09T09:00:00Z', per: 'hour' }).spans ?? []
  expect(first).toMatchObject({ joules: 3_600_000, cost: 0.36, services: [{ joules: 1_800_000, cost: 0.18 }] })
  expect(second).toEqual({
    from: '2026-11-09T10:00:00.000Z',
    measuredMs: 0,
    services: [{ namespace: 'a', name: 'chat', joules: 0, generatedTokens: 7 }],
  })
})

test('what the spans say is the whole, also of days long ago, and only so many are answered', () => {
  let kept = nothingKept
  for (let hour = 0; hour < 500; hour += 1) {
    const at = now - hour * hourMs
    kept = withSpending(kept, { measured: { joules: 1, ms: 1_000 }, services: new Map() }, at)
  }
  for (const utcOffsetMinutes of [0, 345, -720, 840]) {
    const month = asked(kept, { since: new Date(now - 30 * 24 * hourMs).toISOString(), per: 'day', utcOffsetMinutes })
    const sum = month.spans?.reduce((total, { joules = 0 }) => total + joules, 0)
    expect([sum, month.joules]).toEqual([500, 500])
  }
  expect(asked(kept, { since: '1970-01-01T00:00:00Z', per: 'hour' }).spans).toHaveLength(400)
  expect(asked(kept, { since: '2030-01-01T00:00:00Z', per: 'hour' }).spans).toEqual([])
  expect(asked(nothingKept, { per: 'day' }).spans).toEqual([])
  expect(asked(kept, {}).spans).toBeUndefined()
})

const spent = (
  services: Readonly<Record<string, { joules: number; generatedTokens?: number; measuredTokens?: number }>>,
) =>
  withSpending(nothingKept, { measured: { joules: 100, ms: 1_000 }, services: new Map(Object.entries(services)) }, now)

test('the largest share comes first, then the most tokens, and a service that did nothing is not there', () => {
  const { services } = asked(
    spent({
      'a/idle': { joules: 0, generatedTokens: 0 },
      'a/few': { joules: 10, generatedTokens: 1 },
      'a/many': { joules: 10, generatedTokens: 9 },
      'a/large': { joules: 50 },
    }),
    {},
  )
  expect(services.map(({ name }) => name)).toEqual(['large', 'many', 'few'])
})

test('a token costs what was measured while it was generated', () => {
  const [service] = asked(spent({ 'a/chat': { joules: 50, generatedTokens: 20, measuredTokens: 10 } }), {}).services
  expect(service?.joulesPerGeneratedToken).toBe(5)
})

test('an hour that reaches into the time counts as a whole, for the day that its middle lies in', () => {
  const kept = keptOf([['2026-11-08T18:00:00Z', 10]])
  expect(asked(kept, { since: '2026-11-08T18:40:00Z' }).joules).toBe(10)
  expect(asked(kept, { since: '2026-11-08T19:00:00Z' }).joules).toBeUndefined()
  expect(joulesBy(kept, { since: '2026-11-07T18:15:00Z', per: 'day', utcOffsetMinutes: 345 })).toEqual([
    ['2026-11-07T18:15', undefined],
    ['2026-11-08T18:15', 10],
  ])
})

test('nothing begins in the future, and a currency without a price says nothing', () => {
  const ahead = keptOf([['2026-11-09T15:00:00Z', 10]])
  const { from, joules } = asked(ahead, {})
  expect([from, joules]).toEqual([new Date(now).toISOString(), 10])
  const { currency } = energyViewOf(ahead, {}, { price: { currency: 'EUR' }, message: '', now })
  expect(currency).toBeUndefined()
})
