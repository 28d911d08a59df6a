import { splitKey } from '../../util/object-key.ts'
import type { AgentMetrics } from './agent-metrics.ts'

interface Sampled {
  readonly level: 'normal' | 'warning' | 'critical' | 'unknown'
  readonly figures?: { readonly availableBytes: number; readonly wiredBytes?: number }
  /** By key; a second server of a service has one of its own, with a space in it. */
  readonly footprints: ReadonlyMap<string, number>
}

/** Keeps the figures about memory in step with what is seen of it. */
export function memoryMetricsFeed(
  metrics: AgentMetrics,
  memory: { readonly budget: { readonly bytes: number } | undefined },
): {
  onSample: (view: Sampled) => void
  onFootprints: (view: Sampled) => void
  onPressure: (change: { readonly to: Sampled['level'] }) => void
} {
  let measured = new Set<string>()
  const onFootprints = ({ footprints }: Sampled) => {
    const bytes = new Map<string, number>()
    for (const [id, size] of footprints) {
      const key = id.split(' ')[0] ?? id
      bytes.set(key, (bytes.get(key) ?? 0) + size)
    }
    for (const key of measured) if (!bytes.has(key)) metrics.set('process_rss_bytes', undefined, splitKey(key))
    for (const [key, size] of bytes) metrics.set('process_rss_bytes', size, splitKey(key))
    measured = new Set(bytes.keys())
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
    onPressure: ({ to }) => metrics.add('memory_pressure_transitions_total', 1, { to }),
  }
}

const pressureNumbers = { normal: 0, warning: 1, critical: 2 }
