import type { EnergyView, ServiceEnergy } from '../../contract/energy.ts'
import type { PowerView } from '../../contract/power.ts'
import { bucketsBetween, sumOf, type KeptEnergy, type ServiceSums } from './buckets.ts'

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
}

const joulesPerKwh = 3_600_000
/** Fewer tokens say more of chance than of the model. */
const leastTokens = 1

/** What was kept of the time that is asked about. Energy counted while the clock was ahead shows only where no end is asked for. */
export function energyViewOf(
  kept: KeptEnergy,
  { since, until }: EnergyQuestion,
  { price, message, now }: { readonly price: EnergyPrice; readonly message: string; readonly now: number },
): EnergyView {
  const end = until === undefined ? (since === undefined ? Infinity : now) : Date.parse(until)
  const from = since === undefined ? -Infinity : Date.parse(since)
  const sum = sumOf(bucketsBetween(kept, from, end))
  const { perKwh, currency } = price
  const costOf = (joules: number) => (perKwh === undefined ? {} : { cost: (joules / joulesPerKwh) * perKwh })
  const measuredMs = sum?.measuredMs ?? 0
  const shared = sum?.services.reduce((total, { joules }) => total + joules, 0) ?? 0
  return {
    ...(sum && { from: new Date(Math.min(sum.at, now)).toISOString() }),
    until: new Date(Math.min(end, now)).toISOString(),
    measuredMs,
    ...(sum && measuredMs > 0 && { joules: sum.joules, ownJoules: Math.max(0, sum.joules - shared) }),
    ...(sum && measuredMs > 0 && costOf(sum.joules)),
    ...(perKwh !== undefined && currency !== undefined && { currency }),
    services: (sum?.services ?? [])
      .map((row): ServiceEnergy => ({ ...shown(row), ...costOf(row.joules) }))
      .sort((a, b) => b.joules - a.joules || (b.generatedTokens ?? 0) - (a.generatedTokens ?? 0)),
    message,
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
