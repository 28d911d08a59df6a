import { codeClasses, durationBounds, ingressCodes, proxyOutcomes, requestReasons } from '../../contract/gateway.ts'

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

/** The plurals of what is watched. */
const watchedKinds = ['inferenceservices', 'models', 'services', 'endpointslices'] as const

const tokenKinds = ['prompt', 'generated'] as const

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
    help: 'Memory that models may hold together',
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
  evictions_total: { type: 'counter', origin: 'go', help: 'Models evicted to free memory' },
  evictions_skipped_total: {
    type: 'counter',
    origin: 'go',
    labels: { reason: evictionSkipReasons },
    help: 'Checks of critically short memory that evicted nothing',
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
    help: 'Subsystem failures that ended the agent; always 0, because no such failure ends this agent',
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

  client_proxy_requests_total: {
    type: 'counter',
    origin: 'go',
    labels: { outcome: proxyOutcomes },
    help: 'Requests to the client proxy, by the class of the answer or the reason why no engine was asked',
  },
  ingress_requests_total: {
    type: 'counter',
    origin: 'go',
    labels: { code: ingressCodes },
    help: 'Requests to the relay ingress, readiness probes included, by the status of the answer; 499 = the relay left before there was one',
  },

  watch_live: {
    type: 'gauge',
    origin: 'ours',
    labels: { kind: watchedKinds },
    help: 'Whether the watch of a kind of object delivers every change (1) or not (0)',
  },
  api_requests_total: {
    type: 'counter',
    origin: 'ours',
    labels: { code: ['2xx', '3xx', '4xx', '5xx', 'none'] },
    help: 'Requests to the API server, by the class of the answer; none = there was no answer',
  },
  heartbeat_age_seconds: {
    type: 'gauge',
    origin: 'ours',
    unit: 'seconds',
    help: 'Age of the oldest heartbeat among the services; at 180 s the cluster counts this agent as gone',
  },
  reconcile_duration_seconds: {
    type: 'histogram',
    origin: 'ours',
    unit: 'seconds',
    help: 'Time of one pass over a service',
  },
  server_start_duration_seconds: {
    type: 'histogram',
    origin: 'ours',
    unit: 'seconds',
    perService: true,
    buckets: [0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600],
    help: 'Time from the start of a model server until it was ready',
  },
  cluster_agrees: {
    type: 'gauge',
    origin: 'ours',
    perService: true,
    help: 'Whether the cluster says of a service what this agent says (1) or something else (0)',
  },
  download_bytes_total: {
    type: 'counter',
    origin: 'ours',
    unit: 'bytes',
    help: 'Bytes of models that were received',
  },
  tokens_total: {
    type: 'counter',
    origin: 'ours',
    perService: true,
    labels: { kind: tokenKinds },
    startsAbsent: true,
    help: 'Prompt tokens that the servers of a service have read, and tokens that they have generated',
  },
  tokens_per_second: {
    type: 'gauge',
    origin: 'ours',
    perService: true,
    labels: { kind: tokenKinds },
    help: 'Rate at which the server of a service reads prompts and generates, as it reports',
  },
  requests_running: {
    type: 'gauge',
    origin: 'ours',
    perService: true,
    help: 'Requests that the server of a service works on',
  },
  requests_waiting: {
    type: 'gauge',
    origin: 'ours',
    perService: true,
    help: 'Requests that wait in the server of a service',
  },
  kv_cache_used_ratio: {
    type: 'gauge',
    origin: 'ours',
    unit: 'ratio',
    perService: true,
    help: 'Share of the context memory of a server that is in use',
  },
  energy_joules_total: {
    type: 'counter',
    origin: 'ours',
    unit: 'joules',
    startsAbsent: true,
    help: 'Energy that the CPU, GPU and ANE of this machine drew while their power was measured',
  },
  service_energy_joules_total: {
    type: 'counter',
    origin: 'ours',
    unit: 'joules',
    perService: true,
    startsAbsent: true,
    help: 'Estimated part of a service in the energy of this machine',
  },
  gateway_requests_total: {
    type: 'counter',
    origin: 'ours',
    perService: true,
    labels: { code: codeClasses, reason: requestReasons },
    startsAbsent: true,
    help: "Requests for a service through the gateway, by the class of the answer and what came of them; answered = the engine's own answer",
  },
  gateway_requests_in_flight: {
    type: 'gauge',
    origin: 'ours',
    perService: true,
    labels: { phase: ['waiting', 'streaming'] },
    help: 'Requests in the gateway: before the first byte of their answer, and after it',
  },
  gateway_time_to_first_byte_seconds: {
    type: 'histogram',
    origin: 'ours',
    unit: 'seconds',
    perService: true,
    buckets: durationBounds,
    isCountedElsewhere: true,
    help: "Time from a request to the gateway to the first byte of the engine's answer",
  },
  gateway_request_duration_seconds: {
    type: 'histogram',
    origin: 'ours',
    unit: 'seconds',
    perService: true,
    buckets: durationBounds,
    isCountedElsewhere: true,
    help: "Time from a request to the gateway to the end of the engine's answer",
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
type OpenLabels<R> = R extends { readonly openLabels: readonly (infer L extends string)[] }
  ? Readonly<Record<L, string>>
  : object
type Labels<R> = BoundedLabels<R> & OpenLabels<R> & (R extends { readonly perService: true } ? ServiceKey : object)

/** What has to be said besides the figure: the service, and the table's labels. */
export type LabelsOf<N extends MetricName> = Table[N] extends
  { readonly labels: object } | { readonly perService: true }
  ? [labels: Labels<Table[N]>]
  : []

export interface MetricRow {
  readonly type: 'gauge' | 'counter' | 'histogram'
  readonly help: string
  /** What the name ends with, before the `_total` of a counter. */
  readonly unit?: 'bytes' | 'seconds' | 'watts' | 'joules' | 'ratio'
  /**
   * `go`: the Go agent's own, whose name, type and labels dashboards have and which therefore never change.
   */
  readonly origin: 'go' | 'ours'
  /** It has the labels `name` and `namespace`, and its series go with the service. */
  readonly perService?: true
  /** Every value that a label may have, so that there is an end to the number of series. */
  readonly labels?: Readonly<Record<string, readonly string[]>>
  /** Labels with values from outside: whoever sets another value takes the series of the one before away. */
  readonly openLabels?: readonly string[]
  /** Bucket bounds of a histogram, in its unit; absent = the Go agent's, 5 ms to 10 s. */
  readonly buckets?: readonly number[]
  /** It is counted in another process, and known here as a whole. */
  readonly isCountedElsewhere?: true
  /** A counter that not every machine or service has: it begins with its first figure rather than at 0. */
  readonly startsAbsent?: true
}

/** Every combination of the values that the labels of a metric may have; one without labels has one, the empty. */
export function labelCombinations({ labels = {} }: MetricRow): Readonly<Record<string, string>>[] {
  return Object.entries(labels).reduce<Readonly<Record<string, string>>[]>(
    (combinations, [label, values]) =>
      combinations.flatMap((combination) => values.map((value) => ({ ...combination, [label]: value }))),
    [{}],
  )
}

/** In the order in which they are shown. */
export const labelNames = ({ perService, labels = {}, openLabels = [] }: MetricRow): string[] => [
  ...(perService ? ['name', 'namespace'] : []),
  ...Object.keys(labels),
  ...openLabels,
]
