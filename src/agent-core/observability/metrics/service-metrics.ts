import type { AgentSnapshot } from '../../../contract/snapshot.ts'
import { refKey } from '../../support/object-key.ts'
import type { AgentMetrics } from './agent-metrics.ts'

/** Keeps the per-service figures in step with what snapshots say; call it before they are read. */
export function serviceMetricsFeed(metrics: AgentMetrics): (snapshot: AgentSnapshot) => void {
  let before: AgentSnapshot['services'] = []
  return ({ services }) => {
    metrics.keepServices(services)
    if (services === before) return
    const known = new Map(before.map((service) => [refKey(service), service]))
    for (const service of services) {
      const earlier = known.get(refKey(service))
      if (earlier === service) continue
      metrics.set('process_healthy', service.state === 'ready' ? 1 : 0, service)
      metrics.set('memory_estimated_bytes', service.memory?.needBytes, service)
      metrics.add('process_restarts_total', Math.max(0, service.restarts - (earlier?.restarts ?? 0)), service)
    }
    metrics.set('managed_processes', services.filter(({ pid }) => pid !== undefined).length)
    before = services
  }
}
