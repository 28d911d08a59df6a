import type { HistoryEntry } from '../contract/queries.ts'
import { activityWords } from './words/activity.ts'

const problems: ReadonlySet<HistoryEntry['kind']> = new Set(['crashed', 'evicted', 'refused'])

export const isProblem = ({ kind }: HistoryEntry): boolean => problems.has(kind)

/** Whether every word of the filter stands somewhere in what is shown of the entry. */
export function matches(entry: HistoryEntry, filter: string): boolean {
  const { kind, service } = entry
  const shown = [activityWords.kinds[kind], service?.namespace ?? '', service?.name ?? '', activityWords.message(entry)]
    .join(' ')
    .toLowerCase()
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every((word) => shown.includes(word))
}

/** Entries by the day on which they happened, in their order. */
export function daysOf(
  entries: readonly HistoryEntry[],
): { readonly day: string; readonly entries: readonly HistoryEntry[] }[] {
  const days = Map.groupBy(entries, ({ at }) => activityWords.day(at))
  return [...days].map(([day, ofDay]) => ({ day, entries: ofDay }))
}
