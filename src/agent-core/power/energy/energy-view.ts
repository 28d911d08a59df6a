import type { EnergySpan, EnergyView, PowerView, ServiceEnergy } from '../../../contract/power.ts'
import {
  bucketsBetween,
  dayMs,
  hourMs,
  sumOf,
  sumsBySpan,
  type Bucket,
  type KeptEnergy,
  type ServiceSums,
} from './buckets.ts'

export interface EnergyPrice {
  /** Of a kilowatt-hour. */
  readonly perKwh?: number | undefined
  readonly currency?: string | undefined
}

export interface EnergyQuestion {
  /** Absent = from the first that is kept. */
  readonly since?: string | undefined
  /** Absent = now. */
  readonly until?: string | undefined
  readonly per?: 'hour' | 'day' | undefined
  readonly utcOffsetMinutes?: number | undefined
}

const joulesPerKwh = 3_600_000
/** Fewer tokens say more of chance than of the model. */
const leastTokens = 1
/** Of what is answered: the latest. */
const maxSpans = 400

/** What was kept of the time that is asked about. Energy counted while the clock was ahead shows only where no end is asked for. */
export function energyViewOf(
  kept: KeptEnergy,
  question: EnergyQuestion,
  { price, message, now }: { readonly price: EnergyPrice; readonly message: string; readonly now: number },
): EnergyView {
  const { since, until } = question
  const end = until === undefined ? (since === undefined ? Infinity : now) : Date.parse(until)
  const from = since === undefined ? -Infinity : Date.parse(since)
  const sum = sumOf(bucketsBetween(kept, from, end))
  const { perKwh, currency } = price
  const shared = sum?.services.reduce((total, { joules }) => total + joules, 0) ?? 0
  const whole = figuresOf(sum, perKwh)
  const last = Math.min(end, now)
  const spans = spansOf(kept, { from: since === undefined ? (sum?.at ?? last) : from, until: last }, question)
  return {
    ...(sum && { from: new Date(Math.min(sum.at, now)).toISOString() }),
    until: new Date(last).toISOString(),
    ...whole,
    ...(whole.joules !== undefined && { ownJoules: Math.max(0, whole.joules - shared) }),
    ...(perKwh !== undefined && currency !== undefined && { currency }),
    ...(spans && {
      spans: spans.map(({ at, sum: one }) => ({ from: new Date(at).toISOString(), ...figuresOf(one, perKwh) })),
    }),
    message,
  }
}

/** All hours or days of a time in the time zone of the query, each with what is kept of it; undefined where the query wants none. */
function spansOf(
  kept: KeptEnergy,
  { from, until }: { readonly from: number; readonly until: number },
  { per, utcOffsetMinutes = 0 }: EnergyQuestion,
): { readonly at: number; readonly sum: Bucket | undefined }[] | undefined {
  if (per === undefined) return undefined
  if (from >= until) return []
  const [ms, ahead] = [per === 'hour' ? hourMs : dayMs, utcOffsetMinutes * 60_000]
  const beginningOf = (at: number) => Math.floor((at + ahead) / ms) * ms - ahead
  const last = beginningOf(until - 1)
  const first = Math.max(beginningOf(from), last - (maxSpans - 1) * ms)
  const sums = sumsBySpan(kept, { from: Math.max(from, first), until }, beginningOf)
  return Array.from({ length: 1 + (last - first) / ms }, (_, index) => {
    const at = first + index * ms
    return { at, sum: sums.get(at) }
  })
}

/** Services with the largest share first. */
function figuresOf(sum: Bucket | undefined, perKwh: number | undefined): Omit<EnergySpan, 'from'> {
  const isMeasured = sum !== undefined && sum.measuredMs > 0
  const costOf = (joules: number) =>
    isMeasured && perKwh !== undefined ? { cost: (joules / joulesPerKwh) * perKwh } : {}
  return {
    measuredMs: sum?.measuredMs ?? 0,
    ...(isMeasured && { joules: sum.joules, ...costOf(sum.joules) }),
    services: (sum?.services ?? [])
      .map((row): ServiceEnergy => ({ ...shown(row), ...costOf(row.joules) }))
      .sort((a, b) => b.joules - a.joules || (b.generatedTokens ?? 0) - (a.generatedTokens ?? 0)),
  }
}

function shown({ measuredTokens = 0, ...row }: ServiceSums): ServiceEnergy {
  const perToken = measuredTokens >= leastTokens ? { joulesPerGeneratedToken: row.joules / measuredTokens } : {}
  return { ...row, ...perToken }
}

/** One sentence: whether energy is counted, and what to turn on. */
export function howMeasured(power: PowerView | undefined, isKept: boolean): string {
  if (!power)
    return `Power is not measured: ${turnOn('apple-power-enabled')} measures it while somebody looks, with ${turnOn('energy-ledger')} all the time.`
  if (power.state === 'unavailable' || power.state === 'failed') return power.message
  return isKept
    ? 'Power is measured all the time.'
    : `Power is measured only while somebody looks: ${turnOn('energy-ledger')} measures it all the time.`
}

const turnOn = (setting: string): string => `\`metal-agent settings set ${setting} on\``
