import type { ServerRole, ServerState } from '../../servers/server-state.ts'
import { splitKey } from '../../util/object-key.ts'
import type { AgentMetrics } from './agent-metrics.ts'

/** Measures each start until the server is ready; one that was found running is none. */
export function startMetricsFeed(metrics: AgentMetrics): (key: string, state: ServerState, role: ServerRole) => void {
  /** By role and key; a process that was ready once starts no more. */
  const starts = new Map<string, { readonly pid: number | undefined; readonly since: number | undefined }>()
  return (key, state, role) => {
    const slot = `${role} ${key}`
    if (state.kind !== 'starting' && state.kind !== 'loading' && state.kind !== 'ready') {
      starts.delete(slot)
      return
    }
    const known = starts.get(slot)
    // Before there is a process it has no pid.
    const isKnown = known && state.pid !== undefined && (known.pid === undefined || known.pid === state.pid)
    if (state.kind !== 'ready') {
      const isFound = state.kind === 'starting' && state.unasked === true
      const begun = isFound ? undefined : state.since
      starts.set(slot, { pid: state.pid, since: isKnown ? known.since : begun })
      return
    }
    if (isKnown && known.since !== undefined) {
      metrics.observe('server_start_duration_seconds', Math.max(0, state.since - known.since) / 1_000, splitKey(key))
    }
    starts.set(slot, { pid: state.pid, since: undefined })
  }
}

/** Which transitions take a model out of memory without a person, and why. */
const unloads = { evicted: 'pressure', displaced: 'displaced', idle: 'idle' } as const

export function countUnload(metrics: AgentMetrics, { kind }: { readonly kind: string }): void {
  if (kind === 'evicted' || kind === 'displaced' || kind === 'idle') {
    metrics.add('unloads_total', 1, { reason: unloads[kind] })
  }
}
