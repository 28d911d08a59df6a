import type { BookOutlook, MemoryBook } from './book.ts'
import type { Budget } from './budget.ts'

/** See `Memory.outlook`. */
export interface MemoryOutlook extends Pick<BookOutlook, 'committedBytes' | 'unfit'> {
  readonly budget: Budget
  readonly starts: readonly { readonly key: string; readonly needBytes: number }[]
  readonly waits: BookOutlook['refused']
  readonly evicted: readonly { readonly key: string; readonly winner: string; readonly bytes: number }[]
}

/** What the book foresees, with the starts that would evict others counted as starts. */
export function memoryOutlook(
  { refused, ...outlook }: BookOutlook,
  holders: ReturnType<MemoryBook['held']>,
  budget: Budget,
): MemoryOutlook {
  const held = Map.groupBy(holders, ({ key }) => key)
  const bytesOf = (key: string) => (held.get(key) ?? []).reduce((sum, one) => sum + one.committedBytes, 0)
  const evicted = new Map(
    refused.flatMap(({ key: winner, evictFirst }) =>
      evictFirst.map((key) => [key, { key, winner, bytes: bytesOf(key) }] as const),
    ),
  )
  const waits = refused.filter(({ evictFirst }) => evictFirst.length === 0)
  const starts = [...outlook.starts, ...refused.filter(({ evictFirst }) => evictFirst.length > 0)]
  const unfit = outlook.unfit.filter(({ key }) => !evicted.has(key))
  return { ...outlook, budget, starts, waits, unfit, evicted: [...evicted.values()] }
}
