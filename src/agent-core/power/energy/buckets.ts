import { z } from 'zod'
import { keyOf, splitKey } from '../../util/object-key.ts'
import type { ServiceSpending, Spending } from './energy-account.ts'

export const hourMs = 3_600_000
export const dayMs = 24 * hourMs

/**
 * How much is kept: hours for eight days of work around the clock, then days for more than a year. Counted, not by age, so that a clock
 * that is set years ahead and back again costs nothing. The rows bound the file to about a megabyte.
 */
const limits = { hours: 192, days: 400, rows: 4_000, services: 64 }
/** Of what is read: a later version may keep more. */
const readable = { buckets: 10_000, services: 1_000, text: 300 }

/** What a sum stops at, since no more is read: whatever a server says it counted must not have the rest set aside. */
const most = 1e15
const amount = z.number().nonnegative().max(most)
const added = (first: number, second: number): number => Math.min(most, first + second)
const serviceSums = z.object({
  /** Empty together: the services of this time that had no row of their own any more. */
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
  /** Its beginning by the wall clock, in milliseconds since 1970: a label, nothing is computed from it. */
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

/** Counts what was spent to the hour of `now`, whichever hours are there already. */
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

/** Those that reach into the time from `from` to `until`, in milliseconds since 1970; a bucket counts as a whole. */
export const bucketsBetween = (kept: KeptEnergy, from: number, until: number): Bucket[] =>
  timedBetween(kept, from, until).map(({ bucket: one }) => one)

/** The sum of each span, by its beginning; a bucket belongs to the span that its middle lies in. */
export function sumsBySpan(
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

/** The oldest hours become days, and the oldest days are forgotten. */
export function bounded(kept: KeptEnergy): KeptEnergy {
  let { hours, days } = kept
  const rows = () => [...hours, ...days].reduce((count, { services }) => count + 1 + services.length, 0)
  while (hours.length > limits.hours || (hours.length > 1 && rows() > limits.rows)) {
    const [oldest, ...rest] = hours
    if (!oldest) break
    hours = rest
    days = withBucket(days, { ...oldest, at: Math.floor(oldest.at / dayMs) * dayMs })
  }
  while (days.length > limits.days || (days.length > 0 && rows() > limits.rows)) days = days.slice(1)
  return hours === kept.hours && days === kept.days ? kept : { ...kept, hours, days }
}
