import type { EnergySpan } from '../contract/power.ts'
import type { QueryInput } from '../contract/queries.ts'

/** How far back a person looks. */
export const energyTimes = ['day', 'week', 'month'] as const
export type EnergyTime = (typeof energyTimes)[number]

const hourMs = 3_600_000

interface Look {
  /** The agent's time, in milliseconds. */
  readonly now: number
  /** What the clock here is ahead of UTC. */
  readonly utcOffsetMinutes: number
}

/** The last 24 hours by the hour, or whole days of this computer's calendar, today included. The same all the hour. */
export function energyQuery(
  time: EnergyTime,
  { now, utcOffsetMinutes }: Look,
): Extract<QueryInput, { name: 'energy' }> {
  if (time === 'day') {
    const since = (Math.floor(now / hourMs) - 23) * hourMs
    return { name: 'energy', since: new Date(since).toISOString(), per: 'hour', utcOffsetMinutes }
  }
  const ahead = utcOffsetMinutes * 60_000
  const [day, days] = [24 * hourMs, time === 'week' ? 7 : 30]
  const since = (Math.floor((now + ahead) / day) - (days - 1)) * day - ahead
  return { name: 'energy', since: new Date(since).toISOString(), per: 'day', utcOffsetMinutes }
}

/** One bar, in fractions of the largest. */
interface EnergyBar {
  readonly span: EnergySpan
  /** Absent where nothing was measured. */
  readonly all: number | undefined
  /** The share of all services, or of the chosen one, in `all`. */
  readonly part: number
}

export interface ServiceName {
  readonly namespace: string
  readonly name: string
}

export const isSame = (one: ServiceName, other: ServiceName | undefined): boolean =>
  one.namespace === other?.namespace && one.name === other.name

export function energyBars(spans: readonly EnergySpan[], chosen: ServiceName | undefined): EnergyBar[] {
  const most = Math.max(...spans.map(({ joules = 0 }) => joules))
  return spans.map((span) => {
    const counted = chosen === undefined ? span.services : span.services.filter((service) => isSame(service, chosen))
    const joules = counted.reduce((sum, service) => sum + service.joules, 0)
    const of = (amount: number) => (most === 0 ? 0 : Math.min(1, amount / most))
    return { span, all: span.joules === undefined ? undefined : of(span.joules), part: of(joules) }
  })
}
