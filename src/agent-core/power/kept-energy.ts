import { z } from 'zod'
import type { EnergySpan, EnergyView, ServiceEnergy } from '../../contract/power.ts'
import { keyOf, splitKey } from '../util/object-key.ts'
import type { ServiceSpending, Spending } from './energy-account.ts'

export const hourMs = 3_600_000
const dayMs = 24 * hourMs

/**
 * How much is kept: eight days of hours, then more than a year of days. By number and not by age, so that a clock that is set years ahead
 * and back again costs nothing. The rows bound the file to about a megabyte.
 */
const limits = { hours: 192, days: 400, rows: 4_000, services: 64 }
/** Bounds of what is read: a later version may keep more. */
const readable = { buckets: 10_000, services: 1_000, text: 300 }

/** Sums stop here, since larger ones are not read: an absurd count of one server must not cost the rest of the file. */
const most = 1e15
const amount = z.number().nonnegative().max(most)
const added = (first: number, second: number): number => Math.min(most, first + second)
const serviceSums = z.object({
  /** Both empty: the services of this time beyond the limit of rows. */
  namespace: z.string().max(readable.text),
  name: z.string().max(readable.text),
  joules: amount,
  promptTokens: amount.optional(),
  generatedTokens: amount.optional(),
  measuredTokens: amount.optional(),
  requests: amount.optional(),
})
export type ServiceSums = z.infer<typeof serviceSums>

const bucket = z.object({
  /** Its beginning by the wall clock, in milliseconds since 1970: a label only. */
  at: z.int().nonnegative().max(8.64e15),
  joules: amount,
  measuredMs: amount,
  services: z.array(serviceSums).max(readable.services),
})
export type Bucket = z.infer<typeof bucket>

const buckets = z.array(bucket).max(readable.buckets)
/** Each list sorted by time. */
export const keptEnergy = z.object({ schema: z.literal(1), hours: buckets, days: buckets })
export type KeptEnergy = z.infer<typeof keptEnergy>

export const nothingKept: KeptEnergy = { schema: 1, hours: [], days: [] }

/** Adds what was spent to the hour of `now`. */
export function withSpending(kept: KeptEnergy, { measured, services }: Spending, now: number): KeptEnergy {
  const spent: Bucket = {
    at: Math.floor(now / hourMs) * hourMs,
    joules: measured.joules,
    measuredMs: measured.ms,
    services: [...services].flatMap(([key, spending]) => rowOf(key, spending) ?? []),
  }
  if (spent.measuredMs === 0 && spent.services.length === 0) return kept
  return bounded({ ...kept, hours: withBucket(kept.hours, spent) })
}

/** A service that did nothing and got nothing has no row. */
function rowOf(key: string, spending: ServiceSpending): ServiceSums | undefined {
  const row = plus({ ...splitKey(key), joules: 0 }, spending)
  return row.joules > 0 || counts.some((name) => (row[name] ?? 0) > 0) ? row : undefined
}

/** All buckets as one; `at` is that of the first. */
export const sumOf = (some: readonly Bucket[]): Bucket | undefined =>
  some.reduce<Bucket | undefined>((total, one) => (total ? joined(total, one, Infinity) : one), undefined)

/** The buckets that reach into the time from `from` to `until`, in milliseconds since 1970; each counts as a whole. */
export const bucketsBetween = (kept: KeptEnergy, from: number, until: number): Bucket[] =>
  timedBetween(kept, from, until).map(({ bucket: one }) => one)

/** The sum of each span, by its beginning; a bucket belongs to the span that its middle lies in. */
function sumsBySpan(
  kept: KeptEnergy,
  { from, until }: { readonly from: number; readonly until: number },
  beginningOf: (at: number) => number,
): ReadonlyMap<number, Bucket | undefined> {
  const middleOf = ({ bucket: { at }, ms }: TimedBucket) => Math.min(until - 1, Math.max(from, at + ms / 2))
  const spans = Map.groupBy(timedBetween(kept, from, until), (one) => beginningOf(middleOf(one)))
  return new Map([...spans].map(([at, some]) => [at, sumOf(some.map(({ bucket: one }) => one))]))
}

interface TimedBucket {
  readonly bucket: Bucket
  readonly ms: number
}

const timedBetween = ({ hours, days }: KeptEnergy, from: number, until: number): TimedBucket[] =>
  [...days.map((one) => ({ bucket: one, ms: dayMs })), ...hours.map((one) => ({ bucket: one, ms: hourMs }))].filter(
    ({ bucket: { at }, ms }) => at + ms > from && at < until,
  )

function withBucket(list: readonly Bucket[], more: Bucket): Bucket[] {
  const same = list.findIndex(({ at }) => at === more.at)
  if (same >= 0) return list.map((one, index) => (index === same ? joined(one, more) : one))
  const next = list.findIndex(({ at }) => at > more.at)
  const empty: Bucket = { at: more.at, joules: 0, measuredMs: 0, services: [] }
  return list.toSpliced(next < 0 ? list.length : next, 0, joined(empty, more))
}

function joined(first: Bucket, second: Bucket, services = limits.services): Bucket {
  const rows = new Map(first.services.map((row) => [keyOf(row.namespace, row.name), row]))
  for (const row of second.services) {
    const key = keyOf(row.namespace, row.name)
    const place = rows.has(key) || rows.size < services ? key : keyOf('', '')
    const before = rows.get(place)
    rows.set(place, before ? plus(before, row) : { ...row, ...splitKey(place) })
  }
  return {
    at: first.at,
    joules: added(first.joules, second.joules),
    measuredMs: added(first.measuredMs, second.measuredMs),
    services: [...rows.values()],
  }
}

const counts = ['promptTokens', 'generatedTokens', 'measuredTokens', 'requests'] as const

function plus({ namespace, name, ...first }: ServiceSums, second: ServiceSpending): ServiceSums {
  const sums = counts.flatMap((count) => {
    const [known, more] = [first[count], second[count]]
    return known === undefined && more === undefined ? [] : [[count, added(known ?? 0, more ?? 0)] as const]
  })
  return { namespace, name, joules: added(first.joules, second.joules), ...Object.fromEntries(sums) }
}

/** Turns the oldest hours into days, and forgets the oldest days. */
export function bounded(kept: KeptEnergy): KeptEnergy {
  let { hours, days } = kept
  const rows = () => [...hours, ...days].reduce((count, { services }) => count + 1 + services.length, 0)
  while (hours.length > limits.hours || (hours.length > 1 && rows() > limits.rows)) {
    const [oldest, ...rest] = hours
    if (!oldest) break
    hours = rest
    days = withBucket(days, { ...oldest, at: Math.floor(oldest.at / dayMs) * dayMs })
  }
  while (days.length > limits.days || rows() > limits.rows) {
    const [oldest, ...rest] = days
    if (!oldest) break
    days = rest
  }
  // An hour that is dropped becomes part of a day.
  return days === kept.days ? kept : { ...kept, hours, days }
}

export interface EnergyPrice {
  /** For a kilowatt-hour. */
  readonly perKwh?: number | undefined
  readonly currency?: string | undefined
}

export interface EnergyQuestion {
  /** Absent = the first that is kept. */
  readonly since?: string | undefined
  /** Absent = now. */
  readonly until?: string | undefined
  readonly per?: 'hour' | 'day' | undefined
  readonly utcOffsetMinutes?: number | undefined
}

const joulesPerKwh = 3_600_000
/** With fewer tokens the figure is chance. */
const leastTokens = 1
/** The latest are answered. */
const maxSpans = 400

/** Answers a question from what is kept. Energy counted while the clock was ahead shows only where no end is asked for. */
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
