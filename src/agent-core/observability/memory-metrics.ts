import { splitKey } from '../support/object-key.ts'
import type { AgentMetrics } from './metrics.ts'

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
    for (const key of measured) if (!bytes.has(key)) metrics.setProcessMemory(splitKey(key), undefined)
    for (const [key, size] of bytes) metrics.setProcessMemory(splitKey(key), size)
    measured = new Set(bytes.keys())
  }
  return {
    onFootprints,
    onSample: (view) => {
      if (memory.budget) metrics.setMemoryBudget(memory.budget.bytes)
      metrics.setSystemMemory(view.figures)
      metrics.setPressureLevel(view.level)
      onFootprints(view)
    },
    onPressure: ({ to }) => metrics.countPressureChange(to),
  }
}
