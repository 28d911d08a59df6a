import type { EnergySpan, EnergyView, ServiceEnergy } from '../../../src/contract/power.ts'
import { sampleSnapshot } from '../sample-snapshot.ts'
import type { FakeAgent } from './fake-agent.ts'
import { withHistory } from './scene-agents.ts'
import { measuring } from './scene-gauges.ts'

const dayMs = 86_400_000
const until = sampleSnapshot().now
const perKwh = 0.36
const message = 'Power is measured all the time.'

type Sums = Omit<ServiceEnergy, 'cost' | 'joulesPerGeneratedToken'>

const priced = (service: Sums): ServiceEnergy => ({
  ...service,
  cost: (service.joules / 3.6e6) * perKwh,
  ...(service.generatedTokens !== undefined && {
    joulesPerGeneratedToken: service.joules / service.generatedTokens,
  }),
})

const chat = (joules: number): Sums => ({
  ...{ namespace: 'default', name: 'phi-4-mini', joules },
  ...{ promptTokens: joules / 4, generatedTokens: joules / 8.1, requests: Math.round(joules / 4_000) },
})
const large = (joules: number): Sums => ({
  ...{ namespace: 'team-with-a-long-name', name: 'qwen3-30b-a3b-instruct-2507-q4-k-m-with-a-very-long-name', joules },
  generatedTokens: joules / 123,
})
/** Its runtime tells neither tokens nor requests. */
const other = (joules: number): Sums => ({ namespace: 'default', name: 'nomic-embed', joules })

/** Watt-hours of the machine, and of three services, on each day; undefined = not measured. */
const days: readonly (readonly [number, number, number, number] | undefined)[] = [
  [310, 120, 90, 6],
  [520, 260, 110, 8],
  undefined,
  [90, 20, 0, 1],
  [640, 300, 220, 12],
  [450, 210, 160, 9],
  [75, 22, 31, 2],
]

const rowsOf = (some: readonly [number, number, number]): ServiceEnergy[] =>
  [chat, large, other].map((make, index) => priced(make((some[index] ?? 0) * 3_600))).filter(({ joules }) => joules > 0)

export const energyOfWeek: EnergyView = {
  ...{ from: '2025-12-27T00:00:00.000Z', until, measuredMs: 5.1 * dayMs, message, currency: 'EUR' },
  ...{ joules: 2_085 * 3_600, ownJoules: 504 * 3_600, cost: 2.085 * perKwh },
  services: rowsOf([932, 611, 38]),
  spans: days.map((day, index): EnergySpan => {
    const from = new Date(Date.parse('2025-12-27T00:00:00.000Z') + index * dayMs).toISOString()
    if (day === undefined) return { from, measuredMs: 0, services: [] }
    const [all, ...some] = day
    return { from, measuredMs: dayMs, joules: all * 3_600, cost: (all / 1_000) * perKwh, services: rowsOf(some) }
  }),
}

const withEnergy = (energy: EnergyView, snapshot: Parameters<typeof sampleSnapshot>[0]) => (): FakeAgent => {
  const agent = withHistory()
  agent.show(sampleSnapshot({ services: agent.shown.services, ...snapshot }))
  agent.known.energy = energy
  return agent
}

const nothing: EnergyView = { until, measuredMs: 0, services: [], spans: [], message }

export const weekOfEnergy = withEnergy(energyOfWeek, measuring)
export const noEnergyYet = withEnergy(nothing, measuring)
export const energyOff = withEnergy({ ...nothing, message: 'Power is not measured: …' }, {})
/** Tokens were counted, and power never measured. */
export const tokensOnly = withEnergy(
  {
    ...{ from: '2025-12-27T00:00:00.000Z', until, measuredMs: 0, message: 'sudo does not allow it yet.' },
    services: [
      { ...{ namespace: 'default', name: 'phi-4-mini', joules: 0 }, promptTokens: 1_200, generatedTokens: 4_100 },
      { namespace: 'default', name: 'nomic-embed', joules: 0 },
    ],
    spans: [],
  },
  { power: { state: 'failed', message: 'sudo does not allow it yet.' } },
)
