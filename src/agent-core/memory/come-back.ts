import { formatSpan } from '../../contract/format.ts'
import { editableRows } from '../../contract/settings-table.ts'
import { backOffCeilingMs } from '../util/back-off.ts'
import { comparePriorities } from './eviction.ts'
import type { Priority } from './priority.ts'
import type { PressureLevel } from './pressure.ts'

/** Of one service; kept in the state folder, so that times are of the wall clock, in milliseconds. */
export interface EvictionRecord {
  /** Evictions in a row, with less than a stable time between coming back and the next. */
  readonly evictions: number
  readonly evictedAt: number
  /** Absent while it is still out. */
  readonly broughtBackAt?: number
}

/** How long pressure must have been normal before an evicted service comes back: longer after each eviction in a row. */
export const comeBackTimes = {
  backOff: { firstMs: editableRows.comeBackMs.default, maxMs: 60 * 60_000 },
  /** A service that stayed for so long starts over with the first wait. */
  stableMs: 60 * 60_000,
  /** Between two that come back, so that the memory of the first shows before the second. */
  betweenMs: 30_000,
}

/** What to remember when a service is evicted. */
export function evictedOnceMore(before: EvictionRecord | undefined, now: number): EvictionRecord {
  const wasStable = before?.broughtBackAt !== undefined && now - before.broughtBackAt >= comeBackTimes.stableMs
  return { evictions: before === undefined || wasStable ? 1 : before.evictions + 1, evictedAt: now }
}

/** How long pressure must have been normal, by the number of evictions in a row: 2, 4, 8 … 60 minutes, or as the first is set. */
export const comeBackWaitMs = (evictions: number, firstMs: number = comeBackTimes.backOff.firstMs): number =>
  backOffCeilingMs({ firstMs, maxMs: Math.max(firstMs, comeBackTimes.backOff.maxMs) }, Math.max(1, evictions))

/**
 * A service that was evicted for want of memory and is still out. A service that a person evicted does not come back by itself, so it is
 * not among them.
 */
export interface EvictedService {
  readonly key: string
  readonly priority: Priority
  readonly record: EvictionRecord
}

export interface ComeBackQuestion {
  readonly evicted: readonly EvictedService[]
  readonly level: PressureLevel | 'unknown'
  readonly levelForMs: number
  /** The service that was brought back and has neither become ready nor failed yet. */
  readonly comingBack?: string
  /** Since the latest came back; absent where none did. */
  readonly sinceComeBackMs?: number
  /** After the first eviction of several. */
  readonly firstWaitMs?: number
}

export type ComeBack =
  | { readonly bringBack: string; readonly sentence: string }
  /** `inMs` is when to ask again at the latest; absent where a change has to come first. */
  | { readonly wait: string; readonly inMs?: number }

/** Which evicted service comes back now: the most important whose wait is over, the longest out first; one at a time. */
export function chooseComeBack(question: ComeBackQuestion): ComeBack | undefined {
  const { evicted, level, levelForMs, comingBack, sinceComeBackMs = Infinity, firstWaitMs } = question
  const waitOf = ({ record }: EvictedService): number => comeBackWaitMs(record.evictions, firstWaitMs)
  const stillToWaitMs = (service: EvictedService): number => Math.max(0, waitOf(service) - levelForMs)
  const [next] = evicted.toSorted((a, b) => stillToWaitMs(a) - stillToWaitMs(b) || byImportance(a, b))
  if (!next) return undefined
  if (level !== 'normal') {
    return { wait: `${next.key} comes back after memory pressure was normal for ${formatSpan(waitOf(next))}.` }
  }
  if (comingBack !== undefined) return { wait: `${next.key} comes back after ${comingBack}, one at a time.` }
  const inMs = Math.max(comeBackTimes.betweenMs - sinceComeBackMs, stillToWaitMs(next))
  if (inMs > 0) return { wait: `${next.key} comes back in ${formatSpan(inMs)} if memory pressure stays normal.`, inMs }
  return {
    bringBack: next.key,
    sentence: `Memory pressure was normal for ${formatSpan(levelForMs)}, so ${next.key} comes back.`,
  }
}

const byImportance = (a: EvictedService, b: EvictedService): number =>
  comparePriorities(b.priority, a.priority) || a.record.evictedAt - b.record.evictedAt
