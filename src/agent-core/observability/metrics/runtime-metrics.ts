import type { RuntimeFigures as RuntimeView } from '../../../contract/service.ts'
import { refKey } from '../../util/object-key.ts'
import type { AgentMetrics } from './agent-metrics.ts'
import type { ServiceKey } from './metric-table.ts'

/** What is read of the room that asks the runtimes. */
export interface MeasuredRuntimes {
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
