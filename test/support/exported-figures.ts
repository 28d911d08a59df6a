import type { AgentMetrics } from '../../src/agent-core/observability/agent-metrics.ts'
import { metricPrefix } from '../../src/agent-core/observability/metric-table.ts'
import { parsePrometheusText, seriesName } from './prometheus-text.ts'

/** The figures of the agent as a scrape has them: series without the prefix → value; of histograms, sum and count. */
export async function exportedFigures(metrics: AgentMetrics, pattern = /./): Promise<Record<string, number>> {
  const { body } = await metrics.render()
  const samples = [...parsePrometheusText(body).values()].flatMap((family) => family.samples)
  const ours = samples.filter(({ name, labels }) => name.startsWith(metricPrefix) && !('le' in labels))
  const named = ours.map((sample) => [seriesName(sample).replace(metricPrefix, ''), sample.value] as const)
  return Object.fromEntries(named.filter(([series]) => pattern.test(series)))
}
