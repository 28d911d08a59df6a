import type { MetricRow } from './metric-row.ts'

/** Before every name of the table. */
export const metricPrefix = 'llmkube_metal_agent_'

/** Why nothing is evicted at critical pressure, in the Go agent's words. */
const evictionSkipReasons = [
  'disabled',
  'below_guard',
  'floor',
  'all_protected',
  'runtime_ineligible',
  'empty',
] as const

const pressureLevels = ['normal', 'warning', 'critical', 'unknown'] as const

/**
 * Everything that the agent exports besides the figures of its own process. `AgentMetrics`, docs/metrics.md and the tests of both and of
 * the board for Grafana come from it.
 */
export const metricTable = {
  managed_processes: { type: 'gauge', origin: 'go', help: 'Model server processes that the agent manages' },
  process_healthy: {
    type: 'gauge',
    origin: 'go',
    perService: true,
    help: 'Whether the model server of a service answers (1) or not (0)',
  },
  process_restarts_total: {
    type: 'counter',
    origin: 'go',
    perService: true,
    help: 'Restarts of a model server after it ended or stopped answering',
  },
  health_check_duration_seconds: {
    type: 'histogram',
    origin: 'go',
    unit: 'seconds',
    perService: true,
    help: 'Time a health check of a model server took',
  },
  memory_budget_bytes: {
    type: 'gauge',
    origin: 'go',
    unit: 'bytes',
    help: 'Memory that models may have together',
  },
  memory_estimated_bytes: {
    type: 'gauge',
    origin: 'go',
    unit: 'bytes',
    perService: true,
    help: 'Memory that the model of a service is expected to need',
  },
  system_memory_available_bytes: {
    type: 'gauge',
    origin: 'go',
    unit: 'bytes',
    help: 'Memory that a new process could take',
  },
  system_memory_wired_bytes: {
    type: 'gauge',
    origin: 'go',
    unit: 'bytes',
    help: 'Memory that can neither be compressed nor swapped',
  },
  process_rss_bytes: {
    type: 'gauge',
    origin: 'go',
    unit: 'bytes',
    perService: true,
    help: 'Memory of the processes of a service: physical footprint on macOS, proportional set size on Linux',
  },
  memory_pressure_level: {
    type: 'gauge',
    origin: 'go',
    help: 'Memory pressure: 0 normal, 1 warning, 2 critical; absent while unknown',
  },
  evictions_total: { type: 'counter', origin: 'go', help: 'Models evicted for want of memory' },
  evictions_skipped_total: {
    type: 'counter',
    origin: 'go',
    labels: { reason: evictionSkipReasons },
    help: 'Looks at critically short memory after which nothing was evicted',
  },
  watch_consecutive_failures: {
    type: 'gauge',
    origin: 'go',
    help: 'Failures of watching the cluster since it last succeeded',
  },
  fatal_exits_total: {
    type: 'counter',
    origin: 'go',
    labels: { subsystem: ['watcher', 'health-server'] },
    help: 'Ends of a subsystem that ended the agent; ours end nothing, so that it stays at 0',
  },
  apple_power_combined_watts: {
    type: 'gauge',
    origin: 'go',
    unit: 'watts',
    help: 'Power of CPU, GPU and ANE together',
  },
  apple_power_gpu_watts: { type: 'gauge', origin: 'go', unit: 'watts', help: 'Power of the GPU' },
  apple_power_cpu_watts: { type: 'gauge', origin: 'go', unit: 'watts', help: 'Power of the CPU' },
  apple_power_ane_watts: { type: 'gauge', origin: 'go', unit: 'watts', help: 'Power of the Apple Neural Engine' },

  memory_pressure_transitions_total: {
    type: 'counter',
    origin: 'ours',
    labels: { to: pressureLevels },
    help: 'Changes of the memory pressure level, by the new level',
  },
  metrics_services_left_out: {
    type: 'gauge',
    origin: 'ours',
    help: 'Services without series of their own, because there are more than the agent keeps series for',
  },
} as const satisfies Readonly<Record<string, MetricRow>>

type Table = typeof metricTable
export type MetricName = keyof Table
export type MetricNameOf<T extends MetricRow['type']> = {
  [N in MetricName]: Table[N] extends { readonly type: T } ? N : never
}[MetricName]

export interface ServiceKey {
  readonly namespace: string
  readonly name: string
}

type BoundedLabels<R> = R extends { readonly labels: infer L }
  ? { readonly [K in keyof L]: L[K] extends readonly (infer V)[] ? V : never }
  : object
type Labels<R> = BoundedLabels<R> & (R extends { readonly perService: true } ? ServiceKey : object)

/** What has to be said besides the figure: the service, and the table's labels. */
export type LabelsOf<N extends MetricName> = Table[N] extends
  { readonly labels: object } | { readonly perService: true }
  ? [labels: Labels<Table[N]>]
  : []
