import { fewestEvictions, type Evictable } from './fewest.ts'
import { type Priority, priorityWeights } from './priority.ts'
import { describeRefusal, describeRefusalBeside, type Refusal } from './refusal.ts'
import { fits, type Room, shortageOf } from './room.ts'

/** What the machine has, as of the last look at it. */
export interface MachineMemory {
  /** What all servers together may hold. */
  readonly budgetBytes: number
  /** What the system could give now; absent where it does not tell. */
  readonly availableBytes?: number
  readonly pressure: 'normal' | 'warning' | 'critical'
}

export interface StartRequest {
  readonly key: string
  /** Of the InferenceService: one re-created under the same name waits from its own beginning. */
  readonly uid: string
  /** The estimate of all it will hold; absent where none could be made. */
  readonly needBytes: number | undefined
  /** Why there is no estimate, one sentence. */
  readonly whyUnknown?: string
  readonly priority: Priority
  /** Protected from eviction. */
  readonly isProtected?: boolean
  /** When it began to wait, ms since the epoch. */
  readonly since: number
  /** Set where its Model brings a budget of its own: it replaces the machine's, see `limitOf`. */
  readonly ownBudgetBytes?: number
  /** Whether a start whose need or whose room cannot be told is refused or let pass. */
  readonly enforcement: 'enforce' | 'warn'
  /** Whether servers of lower priority may be evicted for this one. */
  readonly mayEvict?: boolean
}

export type Admission =
  /** `warning` says what could not be checked. */
  { readonly admitted: true; readonly warning?: string } | ({ readonly admitted: false } & Refusal)

/** `why`: the second half of a sentence. */
export type BesideVerdict = { readonly allowed: true } | { readonly allowed: false; readonly why: string }

/** Which of the two servers that one service has for a moment while it is swapped. */
export type ServerRole = 'current' | 'beside'

export interface HeldMemory extends Evictable {
  readonly role: ServerRole
  readonly phase: 'starting' | 'running'
  readonly needBytes?: number
  readonly measuredBytes?: number
}

export interface WaitingStart {
  readonly key: string
  /** 1 = the next; absent for one that would not even fit alone or cannot be judged. */
  readonly place?: number
  readonly needBytes: number
  readonly priority: Priority
  readonly since: number
  readonly reason: Refusal['reason']
}

export interface MemoryBookState {
  readonly machine: MachineMemory
  readonly committedBytes: number
  readonly promisedBytes: number
  readonly held: readonly HeldMemory[]
  readonly waiting: readonly WaitingStart[]
}

interface Hold {
  readonly key: string
  readonly role: ServerRole
  priority: Priority
  isProtected: boolean
  readonly needBytes: number | undefined
  phase: 'starting' | 'running'
  measuredBytes: number | undefined
  /** What the last figure of available memory already shows as taken by it. */
  seenBytes: number
}

type Waiting = StartRequest & { readonly needBytes: number }

interface Served {
  readonly entry: Waiting
  /** By those served before it, in bytes. */
  readonly takenBefore: number
}

/**
 * The one place that says which server may start. Every method decides and writes down its decision in the same turn,
 * so that two starts can never be promised the same memory.
 *
 * Who waits is served by priority, then by age. Nobody who fits waits: a small one passes a larger one that does not
 * fit yet, but never one that does. Whenever room may have appeared, `onFreed` is called with those that would be
 * admitted now, in order; each of them must then ask again by `admit`, or leave by `release`.
 */
export class MemoryBook {
  readonly #onFreed: (keys: readonly string[]) => void
  readonly #holds = new Map<string, Hold>()
  readonly #waiting = new Map<string, Waiting>()
  #machine: MachineMemory

  /** `onFreed` is called in the turn of the change and must not throw. */
  constructor(machine: MachineMemory, onFreed: (keys: readonly string[]) => void) {
    this.#machine = machine
    this.#onFreed = onFreed
  }

  /**
   * A fresh look at the machine. Footprints handed in by `measured` before this call count as part of what is no longer
   * available, and so does everything of a server that was ready before it.
   */
  observe(
    machine: Partial<Pick<MachineMemory, 'budgetBytes' | 'pressure'>> & { availableBytes?: number | undefined },
  ): void {
    const { budgetBytes = this.#machine.budgetBytes, pressure = this.#machine.pressure } = machine
    if ('availableBytes' in machine) {
      const { availableBytes } = machine
      this.#machine = { budgetBytes, pressure, ...(availableBytes !== undefined && { availableBytes }) }
      for (const hold of this.#holds.values()) {
        const need = hold.needBytes ?? 0
        hold.seenBytes = hold.phase === 'running' ? need : Math.min(need, hold.measuredBytes ?? 0)
      }
    } else {
      this.#machine = { ...this.#machine, budgetBytes, pressure }
    }
    this.#tell()
  }

  /** Asks for the start of a server whose predecessor, if any, is gone: what the key held before is given back first. */
  admit(request: StartRequest): Admission {
    this.#drop(request.key)
    const known = this.#waiting.get(request.key)
    this.#waiting.delete(request.key)
    const since = known?.uid === request.uid ? Math.min(known.since, request.since) : request.since
    const entry: Waiting = { ...request, needBytes: request.needBytes ?? 0, since }
    const unchecked = this.#whyUnchecked(request)
    const reason = this.#reasonAgainst(entry, unchecked)
    if (reason === undefined) this.#holds.set(request.key, holdOf(request, 'current', 'starting'))
    // Without an estimate it waits for other news than freed memory.
    else if (request.needBytes !== undefined || reason === 'MemoryPressure') this.#waiting.set(request.key, entry)
    const refusal = reason === undefined ? undefined : this.#refusal(entry, reason, unchecked)
    this.#tell()
    if (refusal !== undefined) return { admitted: false, ...refusal }
    return unchecked === undefined ? { admitted: true } : { admitted: true, warning: unchecked }
  }

  /** Counts a server that was found running. It is never refused, even beyond the budget. A current one is to be told before the one beside it. */
  adopt(
    server: Pick<StartRequest, 'key' | 'needBytes' | 'priority' | 'isProtected'> &
      Partial<Pick<HeldMemory, 'role' | 'phase'>>,
  ): void {
    const { key, needBytes, role = 'current', phase = 'running' } = server
    if (role === 'current') {
      this.#waiting.delete(key)
      this.#drop(key)
    }
    const seenBytes = phase === 'running' ? (needBytes ?? 0) : 0
    this.#holds.set(holdId(key, role), { ...holdOf(server, role, phase), seenBytes })
    this.#tell()
  }

  /** What its object says now of the key's servers; false where nothing of that is news, or nothing is held. */
  know(key: string, { priority, isProtected }: Pick<HeldMemory, 'priority' | 'isProtected'>): boolean {
    let isNews = false
    for (const hold of this.#holds.values()) {
      if (hold.key !== key || (hold.priority === priority && hold.isProtected === isProtected)) continue
      hold.priority = priority
      hold.isProtected = isProtected
      isNews = true
    }
    return isNews
  }

  /** The server has loaded: what it holds is no longer promised, once the next `observe` has seen it. */
  ready(key: string, role: ServerRole = 'current'): void {
    const hold = this.#holds.get(holdId(key, role))
    if (hold !== undefined) hold.phase = 'running'
  }

  /** What its processes really hold. */
  measured(key: string, footprintBytes: number, role: ServerRole = 'current'): void {
    const hold = this.#holds.get(holdId(key, role))
    if (hold === undefined) return
    hold.measuredBytes = footprintBytes
    this.#tell()
  }

  /** The key neither holds memory nor waits for any: its servers are gone, or it is not wanted any more. */
  release(key: string): void {
    this.#waiting.delete(key)
    this.#drop(key)
    this.#tell()
  }

  /** Whether a second server of this key, with a changed spec, fits beside the one that serves. */
  canRunBeside(request: StartRequest): BesideVerdict {
    if (!this.#holds.has(request.key)) return { allowed: false, why: 'no server of this service is known to run' }
    if (this.#holds.has(holdId(request.key, 'beside'))) {
      return { allowed: false, why: 'a second server of this service already starts' }
    }
    const unchecked = this.#whyUnchecked(request)
    const entry: Waiting = { ...request, needBytes: request.needBytes ?? 0, enforcement: 'enforce' }
    const reason = this.#reasonAgainst(entry, unchecked)
    if (reason === undefined) return { allowed: true }
    return { allowed: false, why: lowerFirst(unchecked) ?? describeRefusalBeside(this.#refusal(entry, reason)) }
  }

  /** As `canRunBeside`, and where it is allowed the memory is reserved. */
  admitBeside(request: StartRequest): BesideVerdict {
    const verdict = this.canRunBeside(request)
    if (verdict.allowed) this.#holds.set(holdId(request.key, 'beside'), holdOf(request, 'beside', 'starting'))
    return verdict
  }

  /** Why a new server would not fit even if what runs for its key were gone; undefined where it would. */
  refusalInstead(request: StartRequest): Refusal | undefined {
    const own = [...this.#holds].filter(([, hold]) => hold.key === request.key)
    const { availableBytes } = this.#machine
    const machine = this.#machine
    for (const [id] of own) this.#holds.delete(id)
    if (availableBytes !== undefined) {
      const back = own.reduce((sum, [, hold]) => sum + (hold.measuredBytes ?? hold.seenBytes), 0)
      this.#machine = { ...machine, availableBytes: availableBytes + back }
    }
    try {
      const unchecked = this.#whyUnchecked(request)
      const entry: Waiting = { ...request, needBytes: request.needBytes ?? 0 }
      const reason = this.#reasonAgainst(entry, unchecked)
      return reason === undefined ? undefined : this.#refusal(entry, reason, unchecked)
    } finally {
      this.#machine = machine
      for (const [id, hold] of own) this.#holds.set(id, hold)
    }
  }

  /** The second server failed or is not wanted any more, and is gone; the first one stays. */
  releaseBeside(key: string): void {
    this.#holds.delete(holdId(key, 'beside'))
    this.#tell()
  }

  /** The old server is gone, the second one is the service's server now. */
  promoteBeside(key: string): void {
    const beside = this.#holds.get(holdId(key, 'beside'))
    if (beside === undefined) return
    this.#drop(key)
    this.#holds.set(key, { ...beside, role: 'current' })
    this.#tell()
  }

  /** Who waits, in order, with their places. */
  places(): readonly WaitingStart[] {
    let place = 0
    return this.#queue().map((entry) => {
      const { key, needBytes, priority, since } = entry
      const reason = this.#reasonOf(entry)
      const counted = reason !== 'MemoryCheckFailed' && fitsAlone(entry, this.#machine)
      return { key, ...(counted && { place: ++place }), needBytes, priority, since, reason }
    })
  }

  state(): MemoryBookState {
    return {
      machine: this.#machine,
      committedBytes: this.#committedBytes(),
      promisedBytes: this.#promisedBytes(),
      held: this.held(),
      waiting: this.places(),
    }
  }

  held(): readonly HeldMemory[] {
    return [...this.#holds.values()].map((hold) => {
      const { key, role, priority, isProtected, phase, needBytes, measuredBytes } = hold
      return {
        key,
        role,
        priority,
        isProtected,
        phase,
        committedBytes: committed(hold),
        residentBytes: measuredBytes ?? 0,
        promisedBytes: promised(hold),
        ...(needBytes !== undefined && { needBytes }),
        ...(measuredBytes !== undefined && { measuredBytes }),
      }
    })
  }

  /** What this one would meet if it asked now, without regard to those that wait. */
  roomFor({ ownBudgetBytes }: Pick<StartRequest, 'ownBudgetBytes'>): Room {
    const { budgetBytes, availableBytes } = this.#machine
    return {
      budgetBytes,
      committedBytes: this.#committedBytes(),
      promisedBytes: this.#promisedBytes(),
      ...(availableBytes !== undefined && { availableBytes }),
      ...(ownBudgetBytes !== undefined && { ownBudgetBytes }),
    }
  }

  /** Those ahead of this one, or all that wait, who would be admitted if they asked now, in order. */
  #served(before?: Waiting): readonly Served[] {
    const served: Served[] = []
    for (const entry of this.#queue()) {
      if (before !== undefined && (entry.key === before.key || byRank(entry, before) > 0)) continue
      if (this.#reasonOf(entry) === 'InsufficientMemory' && this.#fitsBeside(entry, served)) {
        served.push({ entry, takenBefore: takenBy(served) })
      }
    }
    return served
  }

  /** Whether it fits now and these, who are ahead of it, still do when it asks first. */
  #fitsBeside(entry: Waiting, ahead: readonly Served[]): boolean {
    return (
      fits(entry.needBytes, this.roomFor(entry)) &&
      ahead.every(({ entry: other, takenBefore }) =>
        fits(other.needBytes, withTaken(this.roomFor(other), takenBefore + entry.needBytes)),
      )
    )
  }

  #reasonAgainst(entry: Waiting, unchecked: string | undefined): Refusal['reason'] | undefined {
    if (unchecked !== undefined && entry.enforcement === 'enforce') return 'MemoryCheckFailed'
    if (this.#machine.pressure === 'critical') return 'MemoryPressure'
    return this.#fitsBeside(entry, this.#served(entry)) ? undefined : 'InsufficientMemory'
  }

  #whyUnchecked({ needBytes, whyUnknown }: StartRequest): string | undefined {
    if (needBytes === undefined) return `Nobody knows how much memory it needs: ${whyUnknown ?? 'no estimate was made'}`
    if (this.#machine.availableBytes !== undefined) return undefined
    return 'Nobody knows how much memory is available: the system does not tell'
  }

  /** What keeps it waiting, apart from the numbers. */
  #reasonOf(entry: Waiting): Refusal['reason'] {
    if (this.#whyUnchecked(entry) !== undefined && entry.enforcement === 'enforce') return 'MemoryCheckFailed'
    return this.#machine.pressure === 'critical' ? 'MemoryPressure' : 'InsufficientMemory'
  }

  #refusal(entry: Waiting, reason: Refusal['reason'], unchecked?: string): Refusal {
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

  #lowerThan(entry: Waiting): readonly string[] {
    const room = withTaken(this.roomFor(entry), takenBy(this.#served(entry)))
    const lower = this.held().filter(({ key, priority }) => {
      return key !== entry.key && priorityWeights[priority] < priorityWeights[entry.priority]
    })
    return [...new Set(fewestEvictions(entry.needBytes, room, lower)?.map(({ key }) => key))]
  }

  /** Names those that would be admitted if they all asked now. */
  #tell(): void {
    const keys = this.#served().map(({ entry }) => entry.key)
    if (keys.length > 0) this.#onFreed(keys)
  }

  #queue(): Waiting[] {
    return [...this.#waiting.values()].sort(byRank)
  }

  #drop(key: string): void {
    this.#holds.delete(key)
    this.#holds.delete(holdId(key, 'beside'))
  }

  #committedBytes(): number {
    return sumOf(this.#holds, committed)
  }

  #promisedBytes(): number {
    return sumOf(this.#holds, promised)
  }
}

const lowerFirst = (sentence: string | undefined): string | undefined =>
  sentence && sentence.charAt(0).toLowerCase() + sentence.slice(1)

function holdOf(
  server: Pick<StartRequest, 'key' | 'needBytes' | 'priority' | 'isProtected'>,
  role: ServerRole,
  phase: Hold['phase'],
): Hold {
  const { key, needBytes, priority, isProtected = false } = server
  return { key, role, priority, isProtected, needBytes, phase, measuredBytes: undefined, seenBytes: 0 }
}

/** Keys are namespace/name, so that the space cannot be part of one. */
function holdId(key: string, role: ServerRole): string {
  return role === 'current' ? key : `${key} ${role}`
}

function committed({ needBytes = 0, measuredBytes = 0 }: Hold): number {
  return Math.max(needBytes, measuredBytes)
}

function promised({ needBytes = 0, seenBytes }: Hold): number {
  return Math.max(0, needBytes - seenBytes)
}

function sumOf(holds: ReadonlyMap<string, Hold>, bytes: (hold: Hold) => number): number {
  return [...holds.values()].reduce((sum, hold) => sum + bytes(hold), 0)
}

function takenBy(served: readonly Served[]): number {
  return served.reduce((sum, { entry }) => sum + entry.needBytes, 0)
}

function withTaken(room: Room, taken: number): Room {
  return { ...room, committedBytes: room.committedBytes + taken, promisedBytes: room.promisedBytes + taken }
}

/** Whether it would fit if nothing else ran. */
function fitsAlone({ needBytes, ownBudgetBytes }: Waiting, { budgetBytes }: MachineMemory): boolean {
  return fits(needBytes, {
    budgetBytes,
    committedBytes: 0,
    promisedBytes: 0,
    ...(ownBudgetBytes !== undefined && { ownBudgetBytes }),
  })
}

/** By priority, then by age; the key only keeps the order steady. */
function byRank(a: StartRequest, b: StartRequest): number {
  return (
    priorityWeights[b.priority] - priorityWeights[a.priority] ||
    a.since - b.since ||
    (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)
  )
}
