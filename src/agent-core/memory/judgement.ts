import { fewestEvictions } from './fewest.ts'
import type { Holds } from './holds.ts'
import { priorityWeights } from './priority.ts'
import { describeRefusal, type Refusal } from './refusal.ts'
import { fits, type Room, shortageOf } from './room.ts'
import { byRank, type StartRequest, type WaitingRequest } from './start-request.ts'

/** What the machine has, as of the last look at it. */
export interface MachineMemory {
  /** What all servers together may hold. */
  readonly budgetBytes: number
  /** What the system could give now; absent where it does not tell. */
  readonly availableBytes?: number
  readonly pressure: 'normal' | 'warning' | 'critical'
}

/** What a judgement rests on. */
export interface Situation {
  readonly machine: MachineMemory
  readonly holds: Holds
  readonly waiting: Iterable<WaitingRequest>
}

export interface WaitingStart {
  readonly key: string
  /** 1 = the next; absent for a start that would not even fit alone or cannot be judged. */
  readonly place?: number
  readonly needBytes: number
  readonly priority: StartRequest['priority']
  readonly since: number
  readonly reason: Refusal['reason']
}

interface Served {
  readonly entry: WaitingRequest
  /** By those served before it, in bytes. */
  readonly takenBefore: number
}

/**
 * Which start fits, and why another does not. Pure: it reads the situation and changes nothing.
 *
 * Waiting starts are served by priority, then by age. A start that fits does not wait: a small one passes a larger one that does not fit
 * yet, but never one that does.
 */
export class Judgement {
  readonly #machine: MachineMemory
  readonly #holds: Holds
  readonly #queue: readonly WaitingRequest[]

  constructor({ machine, holds, waiting }: Situation) {
    this.#machine = machine
    this.#holds = holds
    this.#queue = [...waiting].sort(byRank)
  }

  /** Why the start must wait; undefined where it may go on. */
  reasonAgainst(entry: WaitingRequest, unchecked: string | undefined): Refusal['reason'] | undefined {
    if (unchecked !== undefined && entry.enforcement === 'enforce') return 'MemoryCheckFailed'
    if (this.#machine.pressure === 'critical') return 'MemoryPressure'
    return this.#fitsBesides(entry, this.#served(entry)) ? undefined : 'InsufficientMemory'
  }

  /** What could not be checked, one sentence. */
  whyUnchecked({ needBytes, whyUnknown }: StartRequest): string | undefined {
    if (needBytes === undefined) return `Nobody knows how much memory it needs: ${whyUnknown ?? 'no estimate was made'}`
    if (this.#machine.availableBytes !== undefined) return undefined
    return 'Nobody knows how much memory is available: the system does not tell'
  }

  refusal(entry: WaitingRequest, reason: Refusal['reason'], unchecked?: string): Refusal {
    const { key, needBytes } = entry
    const room = this.roomFor(entry)
    const place = this.places().find((waiting) => waiting.key === key)?.place
    const evictFirst = reason === 'InsufficientMemory' && entry.mayEvict === true ? this.#lowerThan(entry) : []
    const facts = {
      reason,
      needBytes,
      room,
      shortage: shortageOf(needBytes, room),
      fitsAlone: fitsAlone(entry, this.#machine),
      evictFirst,
      ...(place !== undefined && { place }),
    }
    return { ...facts, message: unchecked ?? describeRefusal(facts) }
  }

  /** The waiting starts that would be admitted if all asked now, in order. */
  admissible(): readonly string[] {
    return this.#served().map(({ entry }) => entry.key)
  }

  /** The waiting starts in order, with their places. */
  places(): readonly WaitingStart[] {
    let place = 0
    return this.#queue.map((entry) => {
      const { key, needBytes, priority, since } = entry
      const reason = this.#reasonOf(entry)
      const counted = reason !== 'MemoryCheckFailed' && fitsAlone(entry, this.#machine)
      return { key, ...(counted && { place: ++place }), needBytes, priority, since, reason }
    })
  }

  /** The room a start would meet if it asked now, without regard to those that wait. */
  roomFor({ ownBudgetBytes }: Pick<StartRequest, 'ownBudgetBytes'>): Room {
    const { budgetBytes, availableBytes } = this.#machine
    return {
      budgetBytes,
      committedBytes: this.#holds.committedBytes,
      promisedBytes: this.#holds.promisedBytes,
      ...(availableBytes !== undefined && { availableBytes }),
      ...(ownBudgetBytes !== undefined && { ownBudgetBytes }),
    }
  }

  /** The starts ahead of this one, or all that wait, that would be admitted if they asked now, in order. */
  #served(before?: WaitingRequest): readonly Served[] {
    const served: Served[] = []
    for (const entry of this.#queue) {
      if (before !== undefined && (entry.key === before.key || byRank(entry, before) > 0)) continue
      if (this.#reasonOf(entry) === 'InsufficientMemory' && this.#fitsBesides(entry, served)) {
        served.push({ entry, takenBefore: takenBy(served) })
      }
    }
    return served
  }

  /** Whether it fits now, and the starts ahead of it still do when it asks first. */
  #fitsBesides(entry: WaitingRequest, ahead: readonly Served[]): boolean {
    return (
      fits(entry.needBytes, this.roomFor(entry)) &&
      ahead.every(({ entry: other, takenBefore }) =>
        fits(other.needBytes, withTaken(this.roomFor(other), takenBefore + entry.needBytes)),
      )
    )
  }

  /** What keeps it waiting, apart from the numbers. */
  #reasonOf(entry: WaitingRequest): Refusal['reason'] {
    if (this.whyUnchecked(entry) !== undefined && entry.enforcement === 'enforce') return 'MemoryCheckFailed'
    return this.#machine.pressure === 'critical' ? 'MemoryPressure' : 'InsufficientMemory'
  }

  /** The servers of lower priority whose eviction would make room. */
  #lowerThan(entry: WaitingRequest): readonly string[] {
    const room = withTaken(this.roomFor(entry), takenBy(this.#served(entry)))
    const lower = this.#holds.list().filter(({ key, priority }) => {
      return key !== entry.key && priorityWeights[priority] < priorityWeights[entry.priority]
    })
    return [...new Set(fewestEvictions(entry.needBytes, room, lower)?.map(({ key }) => key))]
  }
}

function takenBy(served: readonly Served[]): number {
  return served.reduce((sum, { entry }) => sum + entry.needBytes, 0)
}

function withTaken(room: Room, taken: number): Room {
  return { ...room, committedBytes: room.committedBytes + taken, promisedBytes: room.promisedBytes + taken }
}

/** Whether it would fit if nothing else ran. */
function fitsAlone({ needBytes, ownBudgetBytes }: WaitingRequest, { budgetBytes }: MachineMemory): boolean {
  return fits(needBytes, {
    budgetBytes,
    committedBytes: 0,
    promisedBytes: 0,
    ...(ownBudgetBytes !== undefined && { ownBudgetBytes }),
  })
}
