import { formatBytes, formatShare, formatSpan } from '../../contract/format.ts'
import { editableRows } from '../../contract/settings-table.ts'
import type { PressureLevel } from './pressure.ts'
import { type Priority, priorityWeights } from './priority.ts'

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
  /** Whether evicting it frees memory: not so where its server cannot be ended, or is a daemon that several models share. */
  readonly canBeEvicted: boolean
  /**
   * Milliseconds since its latest request ended, or since the first look that saw none; absent while it answers a request, or that is
   * unknown.
   */
  readonly idleForMs?: number
  /** Answers a request now; absent where that is unknown. */
  readonly isBusy?: boolean
  /** Its share of the memory: as measured, see `Holds`; absent before the first measurement. */
  readonly heldBytes?: number
}

export interface EvictionQuestion {
  readonly models: readonly LoadedModel[]
  readonly level: PressureLevel | 'unknown'
  /** How long the level has been this one. */
  readonly levelForMs: number
  readonly isEnabled: boolean
  readonly totalBytes: number
  /** Fraction of all memory that our models must hold before any of them has to go. */
  readonly share?: number
  /** Since the latest eviction was over, or failed; absent where there was none. */
  readonly sinceEvictionMs?: number
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

export type EvictionChoice =
  { readonly evict: string; readonly sentence: string } | { readonly skip: SkipReason; readonly sentence: string }

export const evictionTimes = {
  /** Critical for so long, which takes more than one look, before a model has to go. */
  settleMs: 5_000,
  /** The memory of a stopped model comes back to the system over some seconds; only then the next eviction is considered. */
  coolDownMs: 20_000,
  /** Without a request for so long, a model counts as idle: not in the pause between two turns of a conversation. */
  idleAfterMs: 60_000,
}

/** The model to evict now, or why none; one at a time, and only on figures from after the eviction before. */
export function chooseEviction(question: EvictionQuestion): EvictionChoice {
  const reluctance = untimely(question) ?? notOurs(question)
  if (reluctance) return reluctance
  const order = evictionOrder(question.models)
  if ('skip' in order) return order
  const [first] = order.models
  return {
    evict: first.key,
    sentence: `${first.key} leaves memory first, because it ${whyFirst(first, order.models)}.`,
  }
}

/** The models that would be evicted if memory became critically short now, whether or not eviction is enabled. */
export function nextToGo(models: readonly LoadedModel[]): { key?: string; sentence: string } {
  const order = evictionOrder(models.filter((model) => !model.isStopping))
  if ('skip' in order) return { sentence: `Nothing would be evicted: ${order.sentence}` }
  const [first] = order.models
  return { key: first.key, sentence: `${first.key} would go next, because it ${whyFirst(first, order.models)}.` }
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
    return skip('draining', `${leaving.key} is leaving memory; the next look decides whether that is enough.`)
  if (levelForMs < evictionTimes.settleMs) {
    return skip('cooling_down', 'Memory has only just become critically short; the next look decides.')
  }
  if (sinceEvictionMs === undefined) return undefined
  if (sinceEvictionMs >= evictionTimes.coolDownMs && sampleAgeMs < sinceEvictionMs) return undefined
  return skip('cooling_down', `A model left memory ${formatSpan(sinceEvictionMs)} ago; memory is measured again first.`)
}

function notOurs({
  models,
  totalBytes,
  share = editableRows.evictionShare.default,
}: EvictionQuestion): Skip | undefined {
  if (models.length === 0) return skip('empty', 'There is no model in memory that could leave.')
  const bytes = models.reduce((sum, { heldBytes = 0 }) => sum + heldBytes, 0)
  if (bytes > share * totalBytes) return undefined
  return skip(
    'below_guard',
    `Our models have ${formatBytes(bytes)} of ${formatBytes(totalBytes)} (${formatShare(bytes / totalBytes)}), which is not more than ${formatShare(share)}, so something else is the cause: quit other applications.`,
  )
}

/** All that may go, the first to go first; or why there is none. */
function evictionOrder(models: readonly LoadedModel[]): { models: [LoadedModel, ...LoadedModel[]] } | Skip {
  if (models.length === 0) return skip('empty', 'There is no model in memory that could leave.')
  if (models.length === 1) return skip('floor', 'The last model in memory is never evicted.')
  const possible = models.filter(({ canBeEvicted }) => canBeEvicted)
  if (possible.length === 0) {
    return skip(
      'runtime_ineligible',
      'No model in memory can be evicted: its server cannot be ended, or would keep the memory for other models.',
    )
  }
  const unprotected = possible.filter(({ isProtected }) => !isProtected)
  if (unprotected.length === 0) {
    return skip('all_protected', 'Every model that could leave is protected: take the protection off one of them.')
  }
  const ready = models.filter(({ isReady }) => isReady)
  const [first, ...rest] = unprotected
    .filter((model) => ready.length > 1 || ready[0] !== model)
    .toSorted(
      (a, b) =>
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
  !isReady || (idleForMs !== undefined && idleForMs >= evictionTimes.idleAfterMs)

/** Its requests would have to finish, or be cut off. */
const isAnswering = ({ isReady, isBusy = false }: LoadedModel): boolean => isReady && isBusy

/** What tells the first from the others, in the order in which it was decided. */
function whyFirst(first: LoadedModel, all: readonly LoadedModel[]): string {
  const size = first.heldBytes === undefined ? [] : [`has ${formatBytes(first.heldBytes)}`]
  const parts = [`has ${first.priority} priority`, ...activityOf(first), ...size]
  return all.length === 1 ? `is the only one that may leave, ${parts.join(', ')}` : parts.join(', ')
}

/** Empty where that is unknown. */
function activityOf({ isReady, isBusy = false, idleForMs }: LoadedModel): string[] {
  if (!isReady) return ['does not serve yet']
  if (isBusy) return ['is busy']
  if (idleForMs === undefined) return []
  return [
    idleForMs >= evictionTimes.idleAfterMs ? `has been idle for ${formatSpan(idleForMs)}` : 'answers no request now',
  ]
}
