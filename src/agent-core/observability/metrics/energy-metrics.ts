import { splitKey } from '../../support/object-key.ts'
import type { AgentMetrics } from './agent-metrics.ts'

/** What was drawn in a span of time, and what services had of it. */
interface Spent {
  readonly measured: { readonly joules: number; readonly ms: number }
  readonly services: ReadonlyMap<string, { readonly joules: number; readonly measuredTokens?: number | undefined }>
}

/** Where nothing was measured there is no energy, not energy of 0. */
export function countSpending(metrics: AgentMetrics, { measured, services }: Spent): void {
  if (measured.ms <= 0) return
  metrics.add('energy_joules_total', measured.joules)
  for (const [key, { joules, measuredTokens }] of services) {
    metrics.add('service_energy_joules_total', joules, splitKey(key))
    if (measuredTokens !== undefined) metrics.add('measured_tokens_total', measuredTokens, splitKey(key))
  }
}
