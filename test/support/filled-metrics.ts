import type { HistogramCounts } from '../../src/contract/gateway.ts'
import type { AgentMetrics } from '../../src/agent-core/observability/agent-metrics.ts'
import {
  labelCombinations,
  type MetricRow,
  metricTable,
  type ServiceKey,
} from '../../src/agent-core/observability/metric-table.ts'

type Say = (name: string, value: number, labels: object) => void

/** Gives every metric of the table a figure for each of its label values, and for each of the services. */
export function fillMetrics(metrics: AgentMetrics, services: readonly ServiceKey[]): void {
  const say = {
    gauge: metrics.set.bind(metrics) as Say,
    counter: metrics.add.bind(metrics) as Say,
    histogram: metrics.observe.bind(metrics) as Say,
  }
  const setWhole = metrics.setHistogram.bind(metrics) as (name: string, whole: HistogramCounts, labels: object) => void
  metrics.keepServices(services)
  for (const [name, row] of Object.entries<MetricRow>(metricTable)) {
    for (const service of row.perService ? services : [{}]) {
      for (const labels of labelCombinations(row)) {
        const all = { ...labels, ...service }
        if (row.isCountedElsewhere) setWhole(name, { counts: [...(row.buckets ?? []), 0].map(() => 1), sum: 1.5 }, all)
        else say[row.type](name, 1.5, all)
      }
    }
  }
}
