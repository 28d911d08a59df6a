import type { HeldMemory } from './holds.ts'
import { type Priority, priorityWeights } from './room.ts'
import type { PressureLevel } from './watchdog.ts'
import { backOffCeilingMs } from '../util/back-off.ts'
import { formatBytes, formatShare, formatSpan } from '../../contract/format.ts'

/** Positive where `one` is more important than `other`. */
export const comparePriorities = (one: Priority, other: Priority): number =>
  priorityWeights[one] - priorityWeights[other]

/** A model that has memory on this machine. */
export interface LoadedModel {
  readonly key: string
  readonly priority: Priority
  readonly isProtected: boolean
  /** Serves; a server that still starts, or does not answer, does not. */
  readonly isReady: boolean
  /** On its way out already. */
  readonly isStopping: boolean
  /** Whether evicting it frees memory: not so where its server cannot be ended. */
  readonly canBeEvicted: boolean
  /** The name of the memory that it has together with all others that have the same: evicting one of them alone frees nothing. */
  readonly sharedAs?: string | undefined
  /**
   * Milliseconds since its latest request ended, or since the first look that saw none; absent while it answers a request, or that is
   * unknown.
   */
  readonly idleForMs?: number | undefined
  /** Answers a request now; absent where that is unknown. */
  readonly isBusy?: boolean | undefined
  /** Its share of the memory: as measured, see `Holds`; absent before the first measurement. */
  readonly heldBytes?: number | undefined
  /** See {@link grownBytes}; absent where it keeps to what it was admitted with. */
  readonly grownBytes?: number | undefined
}

const gibibyte = 1024 ** 3

/** What a server takes past its need; 0 up to a margin, since an estimate may be wrong by as much. */
export const grownBytes = ({
  needBytes = Infinity,
  excessBytes,
}: Pick<HeldMemory, 'needBytes' | 'excessBytes'>): number =>
  excessBytes > Math.max(gibibyte, needBytes * 0.15) ? excessBytes : 0

export interface EvictionQuestion {
  readonly models: readonly LoadedModel[]
  readonly level: PressureLevel | 'unknown'
  /** How long the level has been this one. */
  readonly levelForMs: number
  readonly isEnabled: boolean
  readonly totalBytes: number
  /** Fraction of all memory that our models must hold before any of them has to go. */
  readonly share?: number | undefined
  /** Since the latest eviction was over, or failed; absent where there was none. */
  readonly sinceEvictionMs?: number | undefined
  /** Age of the look at memory behind this question. */
  readonly sampleAgeMs: number
}

/** As in the Go agent's `evictions_skipped_total`, and three of ours: the first says that there is no reason to evict. */
export type SkipReason =
  | 'not_critical'
  | 'cooling_down'
  | 'draining'
  | 'disabled'
  | 'empty'
  | 'below_guard'
  | 'floor'
  | 'runtime_ineligible'
  | 'all_protected'

type EvictionChoice =
  /** One service, or all that share its memory. */
  | { readonly evict: readonly string[]; readonly sentence: string }
  | { readonly skip: SkipReason; readonly sentence: string }

export const evictionRules = {
  /** The Go agent's friendly-fire guard: while models hold less than this share of memory, something else is the cause. */
  share: 0.5,
  /** Critical for so long, which takes more than one look, before a model has to go. */
  settleMs: 5_000,
  /** The memory of a stopped model comes back to the system over some seconds; only then the next eviction is considered. */
  coolDownMs: 20_000,
  /** Without a request for so long, a model counts as idle: not in the pause between two turns of a conversation. */
  idleAfterMs: 60_000,
}

/** What is in memory once, with the services that have it. */
type Together = LoadedModel & { readonly keys: readonly string[] }

/** Services with the same memory leave together. One that is leaving already frees nothing while another stays. */
function together(models: readonly LoadedModel[]): readonly Together[] {
  return [...Map.groupBy(models, ({ key, sharedAs }) => sharedAs ?? key).values()].flatMap((all) => {
    const staying = all.filter(({ isStopping }) => !isStopping)
    const [first, ...others] = staying.length === 0 ? all : staying
    return first ? [others.reduce(joined, { ...first, keys: [first.key] })] : []
  })
}

/** It counts as what the more important, or busier, of the two is. */
function joined(one: Together, other: LoadedModel): Together {
  const most = (a: number | undefined, b: number | undefined) => (a === undefined ? b : Math.max(a, b ?? 0))
  const isIdleKnown = one.idleForMs !== undefined && other.idleForMs !== undefined
  return {
    ...one,
    keys: [...one.keys, other.key],
    priority: comparePriorities(one.priority, other.priority) >= 0 ? one.priority : other.priority,
    isProtected: one.isProtected || other.isProtected,
    isReady: one.isReady || other.isReady,
    canBeEvicted: one.canBeEvicted && other.canBeEvicted,
    idleForMs: isIdleKnown ? Math.min(one.idleForMs, other.idleForMs) : undefined,
    isBusy: one.isBusy === true || other.isBusy === true,
    grownBytes: most(one.grownBytes, other.grownBytes),
    heldBytes: most(one.heldBytes, other.heldBytes),
  }
}

const names = ({ keys }: Together): string => keys.join(' and ')

/** The model to evict now, or why none; one at a time, and only on figures from after the eviction before. */
export function chooseEviction(asked: EvictionQuestion): EvictionChoice {
  const question = { ...asked, models: together(asked.models) }
  const reluctance = untimely(question) ?? notOurs(question)
  if (reluctance) return reluctance
  const order = evictionOrder(question.models)
  if ('skip' in order) return order
  const [first] = order.models
  return {
    evict: first.keys,
    sentence: `${names(first)} ${first.keys.length === 1 ? 'leaves' : 'leave'} memory first, because it ${whyFirst(first, order.models)}.`,
  }
}

/** The models that would be evicted if memory became critically short now, whether or not eviction is enabled. */
export function nextToGo(models: readonly LoadedModel[]): { key?: string; sentence: string } {
  const order = evictionOrder(together(models.filter((model) => !model.isStopping)))
  if ('skip' in order) return { sentence: `Nothing would be evicted: ${order.sentence}` }
  const [first] = order.models
  return { key: first.key, sentence: `${names(first)} would go next, because it ${whyFirst(first, order.models)}.` }
}

type Skip = Extract<EvictionChoice, { skip: SkipReason }>

const skip = (reason: SkipReason, sentence: string): Skip => ({ skip: reason, sentence })

function untimely(question: EvictionQuestion): Skip | undefined {
  const { level, levelForMs, isEnabled, models, sinceEvictionMs, sampleAgeMs } = question
  if (level === 'unknown') return skip('not_critical', 'Memory cannot be read, so nothing is evicted.')
  if (level !== 'critical') return skip('not_critical', 'Memory is not critically short, so nothing is evicted.')
  if (!isEnabled) {
    return skip(
      'disabled',
      'Eviction is switched off: switch it on with --eviction-enabled, or evict a model yourself.',
    )
  }
  const leaving = models.find(({ isStopping }) => isStopping)
  if (leaving)
    return skip('draining', `${leaving.key} is leaving memory; the next check decides whether that is enough.`)
  if (levelForMs < evictionRules.settleMs) {
    return skip('cooling_down', 'Memory has only just become critically short; the next check decides.')
  }
  if (sinceEvictionMs === undefined) return undefined
  if (sinceEvictionMs >= evictionRules.coolDownMs && sampleAgeMs < sinceEvictionMs) return undefined
  return skip('cooling_down', `A model left memory ${formatSpan(sinceEvictionMs)} ago; memory is measured again first.`)
}

function notOurs({ models, totalBytes, share = evictionRules.share }: EvictionQuestion): Skip | undefined {
  if (models.length === 0) return skip('empty', 'There is no model in memory that could be evicted.')
  const bytes = models.reduce((sum, { heldBytes = 0 }) => sum + heldBytes, 0)
  if (bytes > share * totalBytes) return undefined
  return skip(
    'below_guard',
    `The models here take ${formatBytes(bytes)} of ${formatBytes(totalBytes)} (${formatShare(bytes / totalBytes)}), which is not more than ${formatShare(share)}, so the cause is something else: quit other applications.`,
  )
}

/** All that may go, the first to go first; or why there is none. */
function evictionOrder(models: readonly Together[]): { models: [Together, ...Together[]] } | Skip {
  if (models.length === 0) return skip('empty', 'There is no model in memory that could be evicted.')
  if (models.length === 1) return skip('floor', 'The last model in memory is never evicted.')
  const possible = models.filter(({ canBeEvicted }) => canBeEvicted)
  if (possible.length === 0) {
    return skip(
      'runtime_ineligible',
      'No model in memory can be evicted: its server cannot be ended, or would keep the memory for other models.',
    )
  }
  // What was protected is what was admitted: one that has grown may go, after all that are not protected.
  const unprotected = possible.filter(({ isProtected, grownBytes: grown = 0 }) => !isProtected || grown > 0)
  if (unprotected.length === 0) {
    return skip(
      'all_protected',
      'Every model that could be evicted is protected: remove the protection from one of them.',
    )
  }
  const ready = models.filter(({ isReady }) => isReady)
  const [first, ...rest] = unprotected
    .filter((model) => ready.length > 1 || ready[0] !== model)
    .toSorted(
      (a, b) =>
        Number(a.isProtected) - Number(b.isProtected) ||
        (b.grownBytes ?? 0) - (a.grownBytes ?? 0) ||
        comparePriorities(a.priority, b.priority) ||
        Number(isIdle(b)) - Number(isIdle(a)) ||
        Number(isAnswering(a)) - Number(isAnswering(b)) ||
        (b.heldBytes ?? 0) - (a.heldBytes ?? 0) ||
        (a.key < b.key ? -1 : 1),
    )
  return first ? { models: [first, ...rest] } : skip('floor', 'The last model that serves is never evicted.')
}

/** Evicting a server that does not serve yet interrupts no request. */
const isIdle = ({ isReady, idleForMs }: LoadedModel): boolean =>
  !isReady || (idleForMs !== undefined && idleForMs >= evictionRules.idleAfterMs)

/** Its requests would have to finish, or be cut off. */
const isAnswering = ({ isReady, isBusy = false }: LoadedModel): boolean => isReady && isBusy

/** What tells the first from the others, in the order in which it was decided. */
function whyFirst(first: LoadedModel, all: readonly LoadedModel[]): string {
  const size = first.heldBytes === undefined ? [] : [`has ${formatBytes(first.heldBytes)}`]
  const { grownBytes: grown = 0 } = first
  const growth = grown > 0 ? [`has taken ${formatBytes(grown)} more than it was admitted with`] : []
  const parts = [...growth, `has ${first.priority} priority`, ...activityOf(first), ...size]
  return all.length === 1 ? `is the only one that may leave, ${parts.join(', ')}` : parts.join(', ')
}

/** Empty where that is unknown. */
function activityOf({ isReady, isBusy = false, idleForMs }: LoadedModel): string[] {
  if (!isReady) return ['does not serve yet']
  if (isBusy) return ['is busy']
  if (idleForMs === undefined) return []
  return [
    idleForMs >= evictionRules.idleAfterMs ? `has been idle for ${formatSpan(idleForMs)}` : 'answers no request now',
  ]
}

/** How often one service was evicted. It is kept over restarts, so its times are wall clock times, in milliseconds. */
export interface EvictionRecord {
  /** Evictions in a row, with less than a stable time between coming back and the next. */
  readonly evictions: number
  readonly evictedAt: number
  /** Absent while it is still out. */
  readonly broughtBackAt?: number | undefined
}

/** How long pressure must have been normal before an evicted service comes back: longer after each eviction in a row. */
export const comeBackTimes = {
  backOff: { firstMs: 120_000, maxMs: 60 * 60_000 },
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
  readonly comingBack?: string | undefined
  /** Since the latest came back; absent where none did. */
  readonly sinceComeBackMs?: number | undefined
  /** After the first eviction of several. */
  readonly firstWaitMs?: number | undefined
}

type ComeBack =
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
    return { wait: `${next.key} comes back once memory pressure has been normal for ${formatSpan(waitOf(next))}.` }
  }
  if (comingBack !== undefined) return { wait: `${next.key} comes back after ${comingBack}, one at a time.` }
  const inMs = Math.max(comeBackTimes.betweenMs - sinceComeBackMs, stillToWaitMs(next))
  if (inMs > 0) return { wait: `${next.key} comes back in ${formatSpan(inMs)} if memory pressure stays normal.`, inMs }
  return {
    bringBack: next.key,
    sentence: `Memory pressure has been normal for ${formatSpan(levelForMs)}, so ${next.key} comes back.`,
  }
}

const byImportance = (a: EvictedService, b: EvictedService): number =>
  comparePriorities(b.priority, a.priority) || a.record.evictedAt - b.record.evictedAt
