import type { MemoryFiguresView, MemoryStateView } from '../../../contract/memory.ts'
import type { Memory } from '../../memory/memory.ts'
import type { MemoryView } from '../../memory/watchdog.ts'

export interface EvictionOutlook {
  readonly evictionEnabled: boolean
  readonly next: { readonly key?: string; readonly sentence: string }
}

/** Figures of the view change by steps that a person can tell apart, so that it stays the same while nothing happens. */
const step = 16 * 1024 ** 2
const rounded = (bytes: number): number => Math.round(bytes / step) * step

/** Absent before the first look. */
export function memoryViewOf(
  { view, budget, problem, book, levelSince = Date.now() }: Memory,
  { evictionEnabled, next }: EvictionOutlook,
): MemoryStateView | undefined {
  if (!view) return undefined
  const { committedBytes, promisedBytes, waiting } = book.state()
  return {
    ...(view.figures && { totalBytes: view.figures.totalBytes }),
    ...(budget && { budgetBytes: budget.bytes, budgetHow: budget.how }),
    ...(budget?.gpuLimitBytes !== undefined && { gpuLimitBytes: budget.gpuLimitBytes }),
    ...(budget?.raiseCommand !== undefined && { raiseCommand: budget.raiseCommand }),
    ...((view.problem ?? problem) !== undefined && { problem: view.problem ?? problem }),
    modelsBytes: rounded(committedBytes),
    reservedBytes: rounded(promisedBytes),
    pressure: view.level,
    pressureSince: new Date(levelSince).toISOString(),
    evictionEnabled,
    eviction: next.sentence,
    ...(next.key !== undefined && { nextEviction: next.key }),
    waiting: waiting.map(({ key }) => key),
  }
}

export function memoryFiguresOf(view: MemoryView | undefined): MemoryFiguresView | undefined {
  if (!view) return undefined
  const { figures, applications } = view
  return {
    ...(figures && { availableBytes: figures.availableBytes }),
    ...(figures?.wiredBytes !== undefined && { wiredBytes: figures.wiredBytes }),
    ...(applications && { applications: applications.map(({ name, bytes }) => ({ name, bytes })) }),
  }
}
