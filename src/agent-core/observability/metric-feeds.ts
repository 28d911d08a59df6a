import type { AgentMetrics } from './agent-metrics.ts'
import { metricTable, type ServiceKey } from './metric-table.ts'
import { lifeOf, type ServerState } from '../servers/server-state.ts'
import { refKey, splitKey } from '../util/object-key.ts'
import {
  codeClasses,
  ingressCodes,
  proxyOutcomes,
  requestReasons,
  type GatewayCounts,
  type ServiceCounts,
} from '../../contract/gateway.ts'
import type { PowerFigures } from '../../contract/power.ts'
import type { RuntimeFigures as RuntimeView, ServiceState } from '../../contract/service.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'

/** Keeps the per-service figures in step with what snapshots say; call it before they are read. */
export function serviceMetricsFeed(metrics: AgentMetrics): (snapshot: AgentSnapshot) => void {
  let restarts = new Map<string, number>()
  return ({ services }) => {
    metrics.keepServices(services)
    for (const service of services) {
      const more = service.restarts - (restarts.get(refKey(service)) ?? 0)
      metrics.add('process_restarts_total', Math.max(0, more), service)
      metrics.set('process_healthy', health(service), service)
      metrics.set('memory_estimated_bytes', service.memory?.needBytes, service)
      metrics.set('cluster_agrees', agreement(service), service)
    }
    metrics.set('managed_processes', services.filter(({ pid }) => pid !== undefined).length)
    restarts = new Map(services.map((service) => [refKey(service), service.restarts]))
  }
}

/** Undefined where no server is to run, so that what is stopped on purpose does not count as down. */
const health = ({ state }: AgentSnapshot['services'][number]): number | undefined =>
  state === 'ready' ? 1 : withServer.has(state) ? 0 : undefined

const withServer: ReadonlySet<ServiceState> = new Set(['starting', 'unready', 'crash-looping', 'stopping'])

/** Undefined while there is nothing that the cluster could agree with. */
function agreement({ steps, reason }: AgentSnapshot['services'][number]): number | undefined {
  if (reason === 'ClusterDisagrees' || steps.clusterAgrees.status === 'failed') return 0
  return steps.clusterAgrees.status === 'done' ? 1 : undefined
}

/** Measures each start until the server is ready; one that was found running is none. */
export function startMetricsFeed(metrics: AgentMetrics): (key: string, state: ServerState) => void {
  /** By key; a process that was ready once starts no more. */
  const starts = new Map<string, { readonly life: number | undefined; readonly since: number | undefined }>()
  return (key, state) => {
    if (state.kind !== 'starting' && state.kind !== 'loading' && state.kind !== 'ready') {
      starts.delete(key)
      return
    }
    const known = starts.get(key)
    // Before there is a process it has none.
    const life = lifeOf(state)
    const isKnown = known && life !== undefined && (known.life === undefined || known.life === life)
    if (state.kind !== 'ready') {
      const isFound = state.kind === 'starting' && state.unasked === true
      const begun = isFound ? undefined : state.since
      starts.set(key, { life, since: isKnown ? known.since : begun })
      return
    }
    if (isKnown && known.since !== undefined) {
      metrics.observe('server_start_duration_seconds', Math.max(0, state.since - known.since) / 1_000, splitKey(key))
    }
    starts.set(key, { life, since: undefined })
  }
}

/** What is read of a session with a cluster. */
export interface MeasuredSession {
  readonly cluster: {
    watchStates(): readonly {
      readonly kind: string
      readonly state: { readonly state: string }
    }[]
  }
  readonly publisher: { heartbeatAgesMs(): readonly number[] }
}

/** Figures of the session as they are when they are read; without a session there are none. */
export function sessionMetricsFeed(metrics: AgentMetrics, session: () => MeasuredSession | undefined): () => void {
  return () => {
    const { cluster, publisher } = session() ?? {}
    const states = new Map(cluster?.watchStates().map(({ kind, state }) => [kind, state]))
    for (const kind of metricTable.watch_live.labels.kind) {
      const watch = states.get(kind)
      metrics.set('watch_live', watch && (watch.state === 'live' ? 1 : 0), { kind })
    }
    const ages = publisher?.heartbeatAgesMs() ?? []
    metrics.set('heartbeat_age_seconds', ages.length === 0 ? undefined : Math.max(...ages) / 1_000)
  }
}

/** What a session says of its work while it does it. */
export const sessionCounters = (metrics: AgentMetrics) => ({
  onPass: (seconds: number) => metrics.observe('reconcile_duration_seconds', seconds),
  onApiAnswer: (statusCode: number | undefined) =>
    metrics.add('api_requests_total', 1, { code: statusCode === undefined ? 'none' : codeClass(statusCode) }),
})

const codeClass = (statusCode: number) =>
  statusCode < 300 ? '2xx' : statusCode < 400 ? '3xx' : statusCode < 500 ? '4xx' : '5xx'

/** What is read of the room that asks the runtimes. */
interface MeasuredRuntimes {
  refresh(): Promise<void>
  totals(): ReadonlyMap<string, { readonly promptTokens?: number; readonly generatedTokens?: number }>
  view(key: string): RuntimeView | undefined
}

/** A scrape looks, so the runtimes are asked for it; what one does not report has no series. Never rejects. */
export function runtimeMetricsFeed(
  metrics: AgentMetrics,
  runtimes: MeasuredRuntimes,
): (services: readonly ServiceKey[]) => Promise<void> {
  return async (services) => {
    await runtimes.refresh()
    const totals = runtimes.totals()
    for (const service of services) {
      const key = refKey(service)
      const { promptTokens, generatedTokens } = totals.get(key) ?? {}
      metrics.setTotal('tokens_total', promptTokens, { ...service, kind: 'prompt' })
      metrics.setTotal('tokens_total', generatedTokens, { ...service, kind: 'generated' })
      const view = runtimes.view(key)
      const now = view?.state === 'reported' ? view : undefined
      metrics.set('tokens_per_second', now?.promptTokensPerSecond, { ...service, kind: 'prompt' })
      metrics.set('tokens_per_second', now?.generatedTokensPerSecond, { ...service, kind: 'generated' })
      metrics.set('requests_running', now?.requestsRunning, service)
      metrics.set('requests_waiting', now?.requestsWaiting, service)
      metrics.set('kv_cache_used_ratio', now?.kvUse, service)
    }
  }
}

/** A scrape asks the gateway; one that does not answer leaves what it said last. Never rejects. */
export function gatewayMetricsFeed(
  metrics: AgentMetrics,
  gateway: () => { counts(): Promise<GatewayCounts | undefined> } | undefined,
): (services: readonly ServiceKey[]) => Promise<void> {
  return async (present) => {
    const counts = await gateway()?.counts()
    if (!counts) return
    for (const outcome of proxyOutcomes)
      metrics.setTotal('client_proxy_requests_total', counts.requests[outcome] ?? 0, { outcome })
    for (const code of ingressCodes) metrics.setTotal('ingress_requests_total', counts.ingress?.[code], { code })
    const known = new Map(counts.services.map((service) => [refKey(service), service]))
    for (const service of present) setGatewayCounts(metrics, service, known.get(refKey(service)))
  }
}

/** Without counts: those of a gateway before this one are forgotten. */
function setGatewayCounts(metrics: AgentMetrics, service: ServiceKey, counts: ServiceCounts | undefined): void {
  const requests = new Map(counts?.requests.map(({ code, reason, count }) => [`${code} ${reason}`, count]))
  for (const code of codeClasses) {
    for (const reason of requestReasons)
      metrics.setTotal('gateway_requests_total', requests.get(`${code} ${reason}`), { ...service, code, reason })
  }
  metrics.set('gateway_requests_in_flight', counts?.waiting, { ...service, phase: 'waiting' })
  metrics.set('gateway_requests_in_flight', counts?.streaming, { ...service, phase: 'streaming' })
  metrics.setHistogram('gateway_time_to_first_byte_seconds', counts?.firstByte, service)
  metrics.setHistogram('gateway_request_duration_seconds', counts?.inTotal, service)
}

interface Sampled {
  readonly level: 'normal' | 'warning' | 'critical' | 'unknown'
  readonly figures?: { readonly availableBytes: number; readonly wiredBytes?: number }
  /** By key. */
  readonly footprints: ReadonlyMap<string, number>
}

/** Keeps the figures about memory in step with what is seen of it. */
export function memoryMetricsFeed(
  metrics: AgentMetrics,
  memory: { readonly budget: { readonly bytes: number } | undefined },
): {
  onSample: (view: Sampled) => void
  onFootprints: (view: Sampled) => void
} {
  let measured = new Set<string>()
  const onFootprints = ({ footprints }: Sampled) => {
    for (const key of measured) if (!footprints.has(key)) metrics.set('process_rss_bytes', undefined, splitKey(key))
    for (const [key, size] of footprints) metrics.set('process_rss_bytes', size, splitKey(key))
    measured = new Set(footprints.keys())
  }
  return {
    onFootprints,
    onSample: (view) => {
      const { level, figures } = view
      if (memory.budget) metrics.set('memory_budget_bytes', memory.budget.bytes)
      // Where memory cannot be read there are no figures, rather than old ones.
      metrics.set('system_memory_available_bytes', figures?.availableBytes)
      metrics.set('system_memory_wired_bytes', figures?.wiredBytes)
      metrics.set('memory_pressure_level', level === 'unknown' ? undefined : pressureNumbers[level])
      onFootprints(view)
    },
  }
}

const pressureNumbers = { normal: 0, warning: 1, critical: 2 }

/** What is not reported has no figure; undefined: nothing is measured now. */
export function setPower(metrics: AgentMetrics, figures: PowerFigures | undefined): void {
  metrics.set('apple_power_combined_watts', figures?.combinedWatts)
  metrics.set('apple_power_gpu_watts', figures?.gpuWatts)
  metrics.set('apple_power_cpu_watts', figures?.cpuWatts)
  metrics.set('apple_power_ane_watts', figures?.aneWatts)
}

/** What was drawn in a span of time, and the services' shares in joules, by key. */
interface Spent {
  readonly measured: { readonly joules: number }
  readonly services: ReadonlyMap<string, number>
}

/** A service without a share gets no series, so that one that is gone does not come back. */
export function countEnergy(metrics: AgentMetrics, { measured, services }: Spent): void {
  metrics.add('energy_joules_total', measured.joules)
  for (const [key, joules] of services) {
    if (joules > 0) metrics.add('service_energy_joules_total', joules, splitKey(key))
  }
}
