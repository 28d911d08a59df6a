import { risingCounters, type Stretch } from './run-counts.ts'

/** What all servers of a service have counted since the agent began; only ever rises. What none of them counts is absent. */
export interface RuntimeTotals {
  readonly promptTokens?: number
  readonly promptSeconds?: number
  readonly cachedTokens?: number
  /** Counted when a request ends. */
  readonly generatedTokens?: number
  readonly generationSeconds?: number
  /** Calls of llama_decode; rises during a request. */
  readonly decodes?: number
}

export function addTo(totals: RuntimeTotals, more: RuntimeTotals | Stretch): RuntimeTotals {
  const sums = risingCounters.flatMap((name) => {
    const [known, added] = [totals[name], more[name]]
    return known === undefined && added === undefined ? [] : [[name, (known ?? 0) + (added ?? 0)] as const]
  })
  return Object.fromEntries(sums)
}
