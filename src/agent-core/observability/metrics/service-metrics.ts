import type { ServiceState } from '../../../contract/service.ts'
import type { AgentSnapshot } from '../../../contract/snapshot.ts'
import { refKey } from '../../util/object-key.ts'
import type { AgentMetrics } from './agent-metrics.ts'

/** Keeps the per-service figures in step with what snapshots say; call it before they are read. */
export function serviceMetricsFeed(metrics: AgentMetrics): (snapshot: AgentSnapshot) => void {
  let restarts = new Map<string, number>()
  return ({ services, now }) => {
    metrics.keepServices(services)
    for (const service of services) {
      const more = service.restarts - (restarts.get(refKey(service)) ?? 0)
      metrics.add('process_restarts_total', Math.max(0, more), service)
      metrics.set('process_healthy', health(service), service)
      metrics.set('memory_estimated_bytes', service.memory?.needBytes, service)
      metrics.set('server_failures_in_a_row', service.crash?.failures ?? 0, service)
      metrics.set('service_retry_seconds', secondsUntil(service.retryAt, now), service)
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

const secondsUntil = (time: string | undefined, now: string): number | undefined =>
  time === undefined ? undefined : Math.max(0, Date.parse(time) - Date.parse(now)) / 1_000

/** Undefined while there is nothing that the cluster could agree with. */
function agreement({ steps, reason }: AgentSnapshot['services'][number]): number | undefined {
  if (reason === 'ClusterDisagrees' || steps.clusterAgrees.status === 'failed') return 0
  return steps.clusterAgrees.status === 'done' ? 1 : undefined
}
