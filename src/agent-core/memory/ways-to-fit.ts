import { formatBytes, formatTokens } from '../../contract/format.ts'
import { largestBudget, raiseGpuLimit } from './budget.ts'
import {
  beyondShared,
  type Evictable,
  fewestEvictions,
  fits,
  freedBy,
  limitOf,
  type Priority,
  priorityWeights,
  type Room,
  shortageOf,
} from './room.ts'

const contextStep = 1024
/** A smaller context is of no use. */
const minContext = 2048

/** What a person could set differently; absent = as it is. */
export interface ServerChange {
  /** Tokens, as the person writes it: the context size of the InferenceService. */
  readonly contextTokens?: number
  readonly kvType?: 'q8_0' | 'q4_0'
  readonly slots?: number
}

export interface Misfit {
  readonly needBytes: number
  readonly room: Room
  readonly priority: Priority
  /** As it is now; absent where unknown or not to be changed, and then nothing is proposed there. */
  readonly contextTokens?: number
  readonly slots?: number
  /** The total with a change; undefined where that cannot be estimated. Absent = nothing can be proposed. */
  readonly estimateAt?: (change: ServerChange) => number | undefined
  readonly servers: readonly (Evictable & { readonly name: string })[]
  /** Other applications, the biggest first. */
  readonly apps: readonly { readonly name: string; readonly bytes: number }[]
  readonly totalBytes: number
  readonly gpuLimitBytes?: number | undefined
  readonly platform: 'darwin' | 'linux'
}

export type WayToFit =
  | { readonly kind: 'change'; readonly change: ServerChange; readonly needBytes: number; readonly sentence: string }
  | { readonly kind: 'evict'; readonly keys: readonly string[]; readonly sentence: string }
  | { readonly kind: 'quit'; readonly apps: readonly string[]; readonly sentence: string }
  | {
      readonly kind: 'budget'
      /** The owner of the budget that is the limit. */
      readonly of: 'machine' | 'model'
      readonly bytes: number
      /** Needed first, where the GPU may not hold so much. */
      readonly command?: string
      readonly sentence: string
    }
  /** Each alone would not do. */
  | { readonly kind: 'both'; readonly ways: readonly WayToFit[]; readonly sentence: string }

/** What would make it fit, the mildest first. Each is true by the arithmetic that admission uses, as of these figures. */
export function waysToFit(misfit: Misfit): readonly WayToFit[] {
  if (fits(misfit.needBytes, misfit.room)) return []
  return [...changes(misfit), ...eviction(misfit), ...quittingAndRaising(misfit)]
}

function changes(misfit: Misfit): WayToFit[] {
  const { contextTokens, slots } = misfit
  const smallerContext = (kvType?: ServerChange['kvType']): ServerChange | undefined =>
    contextTokens === undefined ? undefined : largestContext(misfit, contextTokens, kvType)
  const candidates: readonly (ServerChange | undefined)[] = [
    smallerContext(),
    ...(doesFit(misfit, { kvType: 'q8_0' })
      ? [{ kvType: 'q8_0' } as const]
      : [smallerContext('q8_0'), { kvType: 'q4_0' } as const]),
    slots === undefined ? undefined : mostSlots(misfit, slots),
  ]
  return candidates.flatMap((change) => {
    const needBytes = change === undefined ? undefined : misfit.estimateAt?.(change)
    if (change === undefined || needBytes === undefined || !fits(needBytes, misfit.room)) return []
    const sentence = `${describe(change)}: needs ${formatBytes(needBytes)}`
    return [{ kind: 'change', change, needBytes, sentence }]
  })
}

/** The largest multiple of 1024 below the present context that fits. */
function largestContext(misfit: Misfit, current: number, kvType: ServerChange['kvType']): ServerChange | undefined {
  const changeAt = (steps: number): ServerChange => ({
    contextTokens: steps * contextStep,
    ...(kvType !== undefined && { kvType }),
  })
  const steps = largestThat((count) => doesFit(misfit, changeAt(count)), {
    from: minContext / contextStep,
    to: Math.ceil(current / contextStep) - 1,
  })
  return steps === undefined ? undefined : changeAt(steps)
}

function mostSlots(misfit: Misfit, current: number): ServerChange | undefined {
  const slots = largestThat((count) => doesFit(misfit, { slots: count }), { from: 1, to: current - 1 })
  return slots === undefined ? undefined : { slots }
}

/** The largest number that fits, by bisection: what does not fit at one number must not fit at any larger one. */
function largestThat(holds: (value: number) => boolean, range: { from: number; to: number }): number | undefined {
  if (range.to < range.from || !holds(range.from)) return undefined
  let low = range.from
  let high = range.to
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (holds(middle)) low = middle
    else high = middle - 1
  }
  return low
}

function doesFit({ estimateAt, room }: Misfit, change: ServerChange): boolean {
  const needBytes = estimateAt?.(change)
  return needBytes !== undefined && fits(needBytes, room)
}

function describe({ contextTokens, kvType, slots }: ServerChange): string {
  const parts = [
    ...(contextTokens === undefined ? [] : [`a context of ${formatTokens(contextTokens)}`]),
    ...(kvType === undefined ? [] : [`a ${kvType} KV cache`]),
    ...(slots === undefined ? [] : [slots === 1 ? '1 slot' : `${slots} slots`]),
  ]
  return `Use ${parts.join(' and ')}`
}

function eviction({ needBytes, room, servers, priority }: Misfit): WayToFit[] {
  const notAbove = servers.filter((server) => priorityWeights[server.priority] <= priorityWeights[priority])
  const gone = fewestEvictions(needBytes, room, notAbove)
  if (gone === undefined || gone.length === 0) return []
  const freed = freedBy(gone).reduce((sum, { committedBytes }) => sum + committedBytes, 0)
  const sentence = `Evict ${list(gone.map(({ name }) => name))}: frees ${formatBytes(freed)}`
  return [{ kind: 'evict', keys: gone.map(({ key }) => key), sentence }]
}

function quittingAndRaising(misfit: Misfit): WayToFit[] {
  const { needBytes, room } = misfit
  const shortage = shortageOf(needBytes, room)
  const steps: WayToFit[] = []
  if (shortage.own > 0 || shortage.budget > 0) {
    const raise = raised(misfit)
    if (raise === undefined) return []
    steps.push(raise)
  }
  if (shortage.available > 0) {
    const quit = quitting(misfit, shortage.available)
    if (quit === undefined) return []
    steps.push(quit)
  }
  if (steps.length < 2) return steps
  const [first, ...others] = steps.map(({ sentence }) => sentence)
  const sentence = [first, ...others.map((other) => `${other.charAt(0).toLowerCase()}${other.slice(1)}`)].join(', and ')
  return [{ kind: 'both', ways: steps, sentence }]
}

/** The smallest application that gives back enough, otherwise the fewest, the biggest first. */
function quitting({ apps }: Misfit, missingBytes: number): WayToFit | undefined {
  const bySize = [...apps].sort((a, b) => b.bytes - a.bytes)
  const single = bySize.findLast(({ bytes }) => bytes >= missingBytes)
  let freed = single?.bytes ?? 0
  const names = single === undefined ? [] : [single.name]
  for (const { name, bytes } of bySize) {
    if (freed >= missingBytes) break
    names.push(name)
    freed += bytes
  }
  if (freed < missingBytes) return undefined
  return { kind: 'quit', apps: names, sentence: `Quit ${list(names)}: frees up to ${formatBytes(freed)}` }
}

function raised(misfit: Misfit): WayToFit | undefined {
  const { needBytes, room, totalBytes, gpuLimitBytes, platform } = misfit
  // A Model's own budget, once it is the larger one, also bounds the sum.
  const wanted = room.committedBytes + beyondShared(needBytes, room)
  const isOwn = shortageOf(needBytes, room).own > 0
  const isSumEnough = wanted <= limitOf(room)
  const bytes = roundedUp(isOwn && isSumEnough ? needBytes : wanted)
  if (bytes > largestBudget(totalBytes)) return undefined
  const command = gpuLimitBytes !== undefined && bytes > gpuLimitBytes ? raiseGpuLimit(bytes) : undefined
  if (command !== undefined && platform !== 'darwin') return undefined
  const what = isOwn ? "the Model's memoryBudget" : 'the memory budget'
  const first = command === undefined ? '' : `, after ${command}, which lasts until the Mac is restarted`
  return {
    kind: 'budget',
    of: isOwn ? 'model' : 'machine',
    bytes,
    sentence: `Raise ${what} to ${formatBytes(bytes)}${first}`,
    ...(command !== undefined && { command }),
  }
}

/** Rounds up, so that the figure a person reads, with its one decimal, is not smaller than the need. */
function roundedUp(bytes: number): number {
  const unit = 1_000 ** Math.floor(Math.log10(Math.max(1, bytes)) / 3)
  const step = bytes >= 100 * unit ? unit : unit / 10
  return Math.ceil(bytes / step) * step
}

function list(names: readonly string[]): string {
  const last = names.at(-1) ?? ''
  return names.length < 2 ? last : `${names.slice(0, -1).join(', ')} and ${last}`
}
