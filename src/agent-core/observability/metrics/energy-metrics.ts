import { splitKey } from '../../support/object-key.ts'
import type { AgentMetrics } from './agent-metrics.ts'

/** What was drawn in a span of time, and what services had of it. */
interface Spent {
  readonly measured: { readonly joules: number; readonly ms: number }
  /** All that have ever worked. */
  readonly services: ReadonlyMap<string, { readonly joules: number; readonly measuredTokens?: number | undefined }>
}

/** Where nothing was measured there is no energy, not energy of 0. */
export function spendingMetricsFeed(metrics: AgentMetrics): (spent: Spent) => void {
  /** What tokens cost of each service since the agent began. Spans without a count of tokens would make them look dear. */
  let counted: ReadonlyMap<string, { readonly joules: number; readonly tokens: number }> = new Map()
  return ({ measured, services }) => {
    if (measured.ms <= 0) return
    metrics.add('energy_joules_total', measured.joules)
    const next = new Map([...counted].filter(([key]) => services.has(key)))
    for (const [key, { joules, measuredTokens }] of services) {
      const service = splitKey(key)
      metrics.add('service_energy_joules_total', joules, service)
      if (measuredTokens === undefined) continue
      metrics.add('measured_tokens_total', measuredTokens, service)
      const before = counted.get(key) ?? { joules: 0, tokens: 0 }
      const total = { joules: before.joules + joules, tokens: before.tokens + measuredTokens }
      next.set(key, total)
      const perToken = total.tokens > 0 ? total.joules / total.tokens : undefined
      metrics.set('joules_per_generated_token', perToken, service)
    }
    counted = next
  }
}
