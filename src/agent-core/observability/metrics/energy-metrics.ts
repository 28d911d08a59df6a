import { refKey } from '../../util/object-key.ts'
import type { AgentMetrics } from './agent-metrics.ts'
import type { ServiceKey } from './metric-table.ts'

/** What was drawn in a span of time, and what services had of it. */
interface Spent {
  readonly measured: { readonly joules: number; readonly ms: number }
  /** All that have ever worked. */
  readonly services: ReadonlyMap<string, { readonly joules: number; readonly measuredTokens?: number | undefined }>
}

interface Totals {
  readonly joules: number
  /** Only of the spans whose tokens were counted: the others would make them look dear. */
  readonly counted?: { readonly joules: number; readonly tokens: number } | undefined
}

/** What was spent since the agent began. Where nothing was measured there is no energy, not energy of 0. */
export class SpendingMetrics {
  readonly #metrics: AgentMetrics
  #totals: ReadonlyMap<string, Totals> = new Map()

  constructor(metrics: AgentMetrics) {
    this.#metrics = metrics
  }

  count({ measured, services }: Spent): void {
    if (measured.ms <= 0) return
    this.#metrics.add('energy_joules_total', measured.joules)
    this.#totals = new Map([...services].map(([key, spent]) => [key, plus(this.#totals.get(key), spent)]))
  }

  /** Writes the series of the services that exist. Those of deleted services are forgotten, so that a scrape does not bring them back. */
  show(present: readonly ServiceKey[]): void {
    const kept = new Map<string, Totals>()
    for (const service of present) {
      const key = refKey(service)
      const totals = this.#totals.get(key)
      if (totals) kept.set(key, totals)
      const { joules = 0, tokens = 0 } = totals?.counted ?? {}
      this.#metrics.setTotal('service_energy_joules_total', totals?.joules, service)
      this.#metrics.setTotal('measured_tokens_total', totals?.counted?.tokens, service)
      this.#metrics.set('joules_per_generated_token', tokens > 0 ? joules / tokens : undefined, service)
    }
    this.#totals = kept
  }
}

function plus(
  before: Totals = { joules: 0 },
  { joules, measuredTokens }: { joules: number; measuredTokens?: number | undefined },
): Totals {
  const { counted } = before
  const next =
    measuredTokens === undefined
      ? counted
      : { joules: (counted?.joules ?? 0) + joules, tokens: (counted?.tokens ?? 0) + measuredTokens }
  return { joules: before.joules + joules, counted: next }
}
