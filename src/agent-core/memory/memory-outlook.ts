import type { BookOutlook, MemoryBook } from './book.ts'
import type { Budget } from './budget.ts'

/** See `Memory.outlook`. */
export interface MemoryOutlook extends Omit<BookOutlook, 'evicted'> {
  readonly budget: Budget
  readonly evicted: readonly (BookOutlook['evicted'][number] & { readonly bytes: number })[]
}

/** What the book foresees, with what the servers that give way have. */
export function memoryOutlook(
  outlook: BookOutlook,
  holders: ReturnType<MemoryBook['held']>,
  budget: Budget,
): MemoryOutlook {
  const held = Map.groupBy(holders, ({ key }) => key)
  const bytesOf = (key: string) => (held.get(key) ?? []).reduce((sum, one) => sum + one.committedBytes, 0)
  const evicted = outlook.evicted.map((one) => ({ ...one, bytes: bytesOf(one.key) }))
  const unfit = outlook.unfit.filter(({ key }) => !evicted.some((one) => one.key === key))
  return { ...outlook, budget, unfit, evicted }
}
