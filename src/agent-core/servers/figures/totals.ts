import { risingCounters, type RisingCounts } from './rising-counters.ts'

/** What all servers of a service have counted since the agent began; only ever rises. */
export type RuntimeTotals = RisingCounts

export function addTo(totals: RuntimeTotals, more: RisingCounts): RuntimeTotals {
  const sums = risingCounters.flatMap((name) => {
    const [known, added] = [totals[name], more[name]]
    return known === undefined && added === undefined ? [] : [[name, (known ?? 0) + (added ?? 0)] as const]
  })
  return Object.fromEntries(sums)
}
