import type { AgentMetrics } from './agent-metrics.ts'
import { metricTable } from './metric-table.ts'

/** What is read of a session with a cluster. */
export interface MeasuredSession {
  readonly cluster: {
    watchStates(): readonly {
      readonly kind: string
      readonly state: { readonly state: string; readonly since: number; readonly lastListAt: number | undefined }
    }[]
  }
  readonly publisher: { heartbeatAgesMs(): readonly number[] }
  readonly reconciler: { readonly depth: number }
}

/** Figures of the session as they are when they are read; without a session there are none. */
export function sessionMetricsFeed(metrics: AgentMetrics, session: () => MeasuredSession | undefined): () => void {
  return () => {
    const { cluster, publisher, reconciler } = session() ?? {}
    const states = new Map(cluster?.watchStates().map(({ kind, state }) => [kind, state]))
    for (const kind of metricTable.watch_live.labels.kind) {
      const watch = states.get(kind)
      metrics.set('watch_live', watch && (watch.state === 'live' ? 1 : 0), { kind })
      metrics.set('watch_stale_seconds', watch && staleSeconds(watch), { kind })
    }
    const ages = publisher?.heartbeatAgesMs() ?? []
    metrics.set('heartbeat_age_seconds', ages.length === 0 ? undefined : Math.max(...ages) / 1_000)
    metrics.set('reconcile_queue_depth', reconciler?.depth)
  }
}

/** Undefined where nothing has been listed yet, so that nothing can be old. */
function staleSeconds(
  watch: ReturnType<MeasuredSession['cluster']['watchStates']>[number]['state'],
): number | undefined {
  if (watch.lastListAt === undefined) return undefined
  return watch.state === 'live' ? 0 : Math.max(0, Date.now() - watch.since) / 1_000
}

/** What a session says of its work while it does it. */
export const sessionCounters = (metrics: AgentMetrics) => ({
  onPass: ({ seconds, waitedSeconds }: { readonly seconds: number; readonly waitedSeconds: number }) => {
    metrics.observe('reconcile_duration_seconds', seconds)
    metrics.observe('reconcile_queue_wait_seconds', waitedSeconds)
  },
  onAdmission: (outcome: (typeof metricTable.admission_decisions_total.labels.outcome)[number]) =>
    metrics.add('admission_decisions_total', 1, { outcome }),
  onApiAnswer: (statusCode: number | undefined) =>
    metrics.add('api_requests_total', 1, { code: statusCode === undefined ? 'none' : codeClass(statusCode) }),
})

const codeClass = (statusCode: number) =>
  statusCode < 300 ? '2xx' : statusCode < 400 ? '3xx' : statusCode < 500 ? '4xx' : '5xx'
