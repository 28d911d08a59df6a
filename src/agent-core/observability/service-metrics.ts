import type { AgentSnapshot } from '../../contract/snapshot.ts'
import { keyOf } from '../support/object-key.ts'
import type { AgentMetrics } from './metrics.ts'

/** Keeps the per-service figures in step with what snapshots say; call it before they are read. */
export function serviceMetricsFeed(metrics: AgentMetrics): (snapshot: AgentSnapshot) => void {
  let before: AgentSnapshot['services'] = []
  return ({ services }) => {
    if (services === before) return
    const known = new Map(before.map((service) => [keyOf(service.namespace, service.name), service]))
    for (const service of services) {
      const key = keyOf(service.namespace, service.name)
      const earlier = known.get(key)
      known.delete(key)
      if (earlier === service) continue
      metrics.setHealthy(service, service.state === 'ready')
      const need = service.memory?.needBytes
      if (need !== undefined) metrics.setMemoryEstimate(service, need)
      const restarts = Math.max(0, service.restarts - (earlier?.restarts ?? 0))
      for (let count = 0; count < restarts; count += 1) metrics.countRestart(service)
    }
    for (const gone of known.values()) metrics.removeService(gone)
    metrics.setManagedProcesses(services.filter(({ pid }) => pid !== undefined).length)
    before = services
  }
}
