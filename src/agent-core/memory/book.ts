import { type HeldMemory, type HeldServer, Holds } from './holds.ts'
import {
  beyondShared,
  fits,
  isHeldAlready,
  limitOf,
  priorityWeights,
  type Room,
  type Shortage,
  shortageOf,
} from './room.ts'
import { formatBytes } from '../../contract/format.ts'

/** A server that asks for memory. */
export interface StartRequest extends HeldServer {
  /** Uid of the InferenceService: one re-created under the same name starts at the end of the queue. */
  readonly uid: string
  /** Why there is no estimate, one sentence. */
  readonly whyUnknown?: string
  /** When it began to wait, ms since the epoch. */
  readonly since: number
  /** Set where its Model brings a budget of its own: it replaces the machine's, see `limitOf`. */
  readonly ownBudgetBytes?: number
  /** Whether a start is refused or let pass where its need, or the room for it, is not known. */
  readonly enforcement: 'enforce' | 'warn'
}

/** A request as it waits; a need that is unknown counts as 0. */
type WaitingRequest = StartRequest & { readonly needBytes: number }

const waitingRequest = (request: StartRequest): WaitingRequest => ({
  ...request,
  needBytes: request.needBytes ?? 0,
})

/** By priority, then by age; the key only keeps the order steady. */
function byRank(a: StartRequest, b: StartRequest): number {
  return (
    priorityWeights[b.priority] - priorityWeights[a.priority] ||
    a.since - b.since ||
    (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)
  )
}

/** Why a server may not start now, with the numbers. */
export interface Refusal {
  readonly reason: 'InsufficientMemory' | 'MemoryPressure' | 'MemoryCheckFailed'
  readonly message: string
  /** 1 = the next; absent where it does not wait in the queue, or would not even fit alone. */
  readonly place?: number
  readonly needBytes: number
  readonly room: Room
  readonly shortage: Shortage
  /** Whether it would fit the budget if nothing else ran. */
  readonly fitsAlone: boolean
}

/** A sentence without its full stop. */
function describeRefusal(refusal: Omit<Refusal, 'message'>): string {
  const { reason, needBytes } = refusal
  const place = refusal.place === undefined ? '' : ` (${ordinal(refusal.place)} waiting)`
  if (reason === 'MemoryPressure') {
    return `Memory pressure is critical: nothing new is started until it has passed${place}`
  }
  const obstacles = obstaclesOf(refusal)
  if (obstacles.length > 0) return `Needs ${formatBytes(needBytes)}, ${obstacles.join(', and ')}${place}`
  return `Needs ${formatBytes(needBytes)}: that is free now, but goes to services ahead of it in the queue${place}`
}

function obstaclesOf({ room, shortage, fitsAlone }: Omit<Refusal, 'message'>): string[] {
  const obstacles: string[] = []
  if (room.rivals) obstacles.push(rivalry(room.rivals))
  if (shortage.own > 0) obstacles.push(`the budget of its Model is ${formatBytes(room.ownBudgetBytes ?? 0)}`)
  if (shortage.budget > 0) {
    const budget = formatBytes(limitOf(room))
    const left = limitOf(room) - room.committedBytes
    if (!fitsAlone && shortage.own === 0) obstacles.push(`more than the whole budget of ${budget}`)
    else if (left < 0) obstacles.push(`the budget of ${budget} is exceeded by ${formatBytes(-left)}`)
    else obstacles.push(`${formatBytes(left)} left in the budget of ${budget}`)
  }
  if (shortage.available > 0) obstacles.push(availability(room))
  return obstacles
}

const rivalry = (rivals: readonly string[]): string =>
  `${rivals.join(', ')} ${rivals.length === 1 ? 'has' : 'have'} the same weights in that daemon with different settings, and the daemon holds them only once: give all the same contextSize, or choose llama-server`

function availability({ availableBytes = 0, promisedBytes }: Room): string {
  if (promisedBytes === 0) return `${formatBytes(availableBytes)} really available`
  const left = Math.max(0, availableBytes - promisedBytes)
  const why = `${formatBytes(availableBytes)} less ${formatBytes(promisedBytes)} that starting models will take`
  return `${formatBytes(left)} really available (${why})`
}

/** 1st, 2nd, 3rd, 4th, 11th, … */
function ordinal(place: number): string {
  const isTeen = place % 100 >= 11 && place % 100 <= 13
  const ending = isTeen ? undefined : ['', 'st', 'nd', 'rd'][place % 10]
  return `${place}${ending === undefined || ending === '' ? 'th' : ending}`
}

/** What the machine has, as of the last look at it. */
export interface MachineMemory {
  /** What all servers together may hold. */
  readonly budgetBytes: number
  /** What the system could give now; absent where it does not tell. */
  readonly availableBytes?: number
  readonly pressure: 'normal' | 'warning' | 'critical'
}

/** What a judgement rests on. */
interface Situation {
  readonly machine: MachineMemory
  readonly holds: Holds
  readonly waiting: WaitingQueue
}

interface WaitingStart {
  readonly key: string
  /** 1 = the next; absent for a start that would not even fit alone or cannot be judged. */
  readonly place?: number
}

/** Strangers decide how many starts wait, so their order and places are worked out once for each change, and not once for each start. */
class WaitingQueue {
  readonly #entries = new Map<string, WaitingRequest>()
  #ranked: readonly WaitingRequest[] | undefined
  #places: { readonly machine: MachineMemory; readonly byKey: ReadonlyMap<string, WaitingStart> } | undefined

  get(key: string): WaitingRequest | undefined {
    return this.#entries.get(key)
  }

  add(entry: WaitingRequest): void {
    this.#entries.set(entry.key, entry)
    this.#ranked = this.#places = undefined
  }

  delete(key: string): void {
    if (this.#entries.delete(key)) this.#ranked = this.#places = undefined
  }

  /** The next one first. */
  get ranked(): readonly WaitingRequest[] {
    return (this.#ranked ??= [...this.#entries.values()].sort(byRank))
  }

  /** By key, in order. */
  places(machine: MachineMemory): ReadonlyMap<string, WaitingStart> {
    if (this.#places?.machine !== machine) this.#places = { machine, byKey: placesOf(this.ranked, machine) }
    return this.#places.byKey
  }
}

function placesOf(ranked: readonly WaitingRequest[], machine: MachineMemory): ReadonlyMap<string, WaitingStart> {
  let place = 0
  return new Map(
    ranked.map((entry) => {
      const { key } = entry
      const counted = reasonToWait(entry, machine) !== 'MemoryCheckFailed' && fitsAlone(entry, machine)
      return [key, { key, ...(counted && { place: ++place }) }]
    }),
  )
}

/** What keeps a start waiting, apart from the numbers. */
function reasonToWait(entry: WaitingRequest, machine: MachineMemory): Refusal['reason'] {
  if (entry.enforcement === 'enforce' && whyUnchecked(entry, machine) !== undefined) return 'MemoryCheckFailed'
  return machine.pressure === 'critical' ? 'MemoryPressure' : 'InsufficientMemory'
}

/** What could not be checked, one sentence. */
function whyUnchecked({ needBytes, whyUnknown }: StartRequest, machine: MachineMemory): string | undefined {
  if (needBytes === undefined)
    return `Its memory need is not known: ${(whyUnknown ?? 'no estimate was made').replace(/\.$/, '')}`
  if (machine.availableBytes !== undefined) return undefined
  return 'The available memory is not known: the system does not report it'
}

/** The starts that would be admitted if they asked now, in order. */
interface Served {
  readonly keys: readonly string[]
  /** What a start may take that asks before them, so that each of them still fits when it asks in its turn; in bytes. */
  readonly spareBytes: number
}

/**
 * Which start fits, and why another does not. Pure: it reads the situation and changes nothing.
 *
 * Waiting starts are served by priority, then by age. A start that fits does not wait: a small one passes a larger one that does not fit
 * yet, but never one that does.
 */
class Judgement {
  readonly #machine: MachineMemory
  readonly #holds: Holds
  readonly #waiting: WaitingQueue
  readonly #room: Room

  constructor({ machine, holds, waiting }: Situation) {
    this.#machine = machine
    this.#holds = holds
    this.#waiting = waiting
    const { budgetBytes, availableBytes } = machine
    const { committedBytes, promisedBytes } = holds
    this.#room = { budgetBytes, committedBytes, promisedBytes, ...(availableBytes !== undefined && { availableBytes }) }
  }

  /** Why the start must wait; undefined where it may begin. */
  reasonAgainst(entry: WaitingRequest, unchecked: string | undefined): Refusal['reason'] | undefined {
    if (unchecked !== undefined && entry.enforcement === 'enforce') return 'MemoryCheckFailed'
    if (this.#machine.pressure === 'critical') return 'MemoryPressure'
    const room = this.roomFor(entry)
    const fitsFirst = fits(entry.needBytes, room) && leavesRoom(entry, room, this.#served(entry).spareBytes)
    return fitsFirst ? undefined : 'InsufficientMemory'
  }

  refusal(entry: WaitingRequest, reason: Refusal['reason'], unchecked?: string): Refusal {
    const { key, needBytes } = entry
    const room = this.roomFor(entry)
    const place = this.#waiting.places(this.#machine).get(key)?.place
    const facts = {
      reason,
      needBytes,
      room,
      shortage: shortageOf(needBytes, room),
      fitsAlone: fitsAlone(entry, this.#machine),
      ...(place !== undefined && { place }),
    }
    return { ...facts, message: unchecked ?? describeRefusal(facts) }
  }

  /** The waiting starts that would be admitted if all asked now, in order. */
  admissible(): readonly string[] {
    return this.#served().keys
  }

  /** The room a start would meet if it asked now, without regard to those that wait. */
  roomFor({ ownBudgetBytes, sharedAs, weightsAs }: RoomRequest): Room {
    if (ownBudgetBytes === undefined && sharedAs === undefined) return this.#room
    const sharedBytes = this.#holds.sharedBytes(sharedAs)
    const rivals = this.#holds.rivals({ sharedAs, weightsAs })
    return {
      ...this.#room,
      ...(ownBudgetBytes !== undefined && { ownBudgetBytes }),
      ...(sharedBytes !== undefined && { sharedBytes }),
      ...(rivals.length > 0 && { rivals }),
    }
  }

  /** The starts ahead of this one, or all that wait, that would be admitted if they asked now. */
  #served(before?: WaitingRequest): Served {
    const keys: string[] = []
    let takenBytes = 0
    let spareBytes = Infinity
    for (const entry of this.#waiting.ranked) {
      if (before !== undefined && byRank(entry, before) > 0) break
      if (entry.key === before?.key || reasonToWait(entry, this.#machine) !== 'InsufficientMemory') continue
      const room = this.roomFor(entry)
      if (!fits(entry.needBytes, room) || !leavesRoom(entry, room, spareBytes)) continue
      keys.push(entry.key)
      if (isHeldAlready(entry.needBytes, room)) continue
      spareBytes = Math.min(spareBytes, leftBy(entry, room) - takenBytes)
      takenBytes += beyondShared(entry.needBytes, room)
    }
    return { keys, spareBytes }
  }
}

type RoomRequest = Pick<StartRequest, 'ownBudgetBytes' | 'sharedAs' | 'weightsAs'>

/** Whether those that asked before it still fit when it takes what it needs. */
const leavesRoom = ({ needBytes }: WaitingRequest, room: Room, spareBytes: number): boolean =>
  isHeldAlready(needBytes, room) || beyondShared(needBytes, room) <= spareBytes

/** What is left for others once the start is admitted, in bytes. */
function leftBy({ needBytes }: WaitingRequest, room: Room): number {
  const { committedBytes, promisedBytes, availableBytes = Infinity } = room
  return Math.min(limitOf(room) - committedBytes, availableBytes - promisedBytes) - beyondShared(needBytes, room)
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

type Admission =
  /** `warning` says what could not be checked. */
  { readonly admitted: true; readonly warning?: string } | ({ readonly admitted: false } & Refusal)

interface MemoryBookState {
  readonly committedBytes: number
  readonly promisedBytes: number
  readonly held: readonly HeldMemory[]
  readonly waiting: readonly WaitingStart[]
}

/**
 * The one place that says which server may start. Every method decides and writes down its decision in the same turn,
 * so that two starts can never be promised the same memory.
 *
 * Whenever room may have appeared, `onFreed` is called with the waiting starts that would be admitted now, in order; each of them must
 * then ask again by `admit`, or leave by `release`.
 */
export class MemoryBook {
  readonly #onFreed: (keys: readonly string[]) => void
  readonly #holds = new Holds()
  readonly #waiting = new WaitingQueue()
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
      this.#holds.seen()
    } else {
      this.#machine = { ...this.#machine, budgetBytes, pressure }
    }
    this.#tell()
  }

  /** Asks for the start of a server whose predecessor, if any, is gone: what the key held before is given back first. */
  admit(request: StartRequest): Admission {
    this.#holds.drop(request.key)
    const known = this.#waiting.get(request.key)
    this.#waiting.delete(request.key)
    const since = known?.uid === request.uid ? Math.min(known.since, request.since) : request.since
    const entry = { ...waitingRequest(request), since }
    const judgement = this.#judgement()
    const unchecked = whyUnchecked(request, this.#machine)
    const reason = judgement.reasonAgainst(entry, unchecked)
    if (reason === undefined) this.#holds.reserve(request)
    // Without an estimate it waits for other news than freed memory.
    else if (request.needBytes !== undefined || reason === 'MemoryPressure') this.#waiting.add(entry)
    const refusal = reason && judgement.refusal(entry, reason, unchecked)
    this.#tell()
    if (refusal !== undefined) return { admitted: false, ...refusal }
    return unchecked === undefined ? { admitted: true } : { admitted: true, warning: unchecked }
  }

  /** Counts a server that was found running. It is never refused, even beyond the budget. */
  adopt(server: HeldServer & Partial<Pick<HeldMemory, 'phase'>>): void {
    this.#waiting.delete(server.key)
    this.#holds.adopt(server, server.phase ?? 'running')
    this.#tell()
  }

  /** What its object says now of the key's server. */
  know(...about: Parameters<Holds['know']>): void {
    this.#holds.know(...about)
  }

  /** The server has loaded: what it holds is no longer promised, once the next `observe` has seen it. */
  ready(key: string): void {
    this.#holds.ready(key)
  }

  /** What its processes really hold. */
  measured(key: string, footprintBytes: number): void {
    if (this.#holds.measured(key, footprintBytes)) this.#tell()
  }

  /** The key neither holds memory nor waits for any: its server is gone, or it is no longer wanted. */
  release(key: string): void {
    this.#waiting.delete(key)
    this.#holds.drop(key)
    this.#tell()
  }

  /** Why a new server would not fit even if what runs for its key were gone; undefined where it would. */
  refusalInstead(request: StartRequest): Refusal | undefined {
    const { holds, freedBytes } = this.#holds.without(request.key)
    const { availableBytes } = this.#machine
    const available = availableBytes === undefined ? {} : { availableBytes: availableBytes + freedBytes }
    const machine = { ...this.#machine, ...available }
    const judgement = new Judgement({ machine, holds, waiting: this.#waiting })
    const unchecked = whyUnchecked(request, machine)
    // Services that share weights are often changed one after the other: if each kept its old server for the others none would ever change.
    const entry = waitingRequest({ ...request, weightsAs: undefined })
    const reason = judgement.reasonAgainst(entry, unchecked)
    return reason === undefined ? undefined : judgement.refusal(entry, reason, unchecked)
  }

  /** The waiting starts in order, with their places. */
  places(): readonly WaitingStart[] {
    return [...this.#waiting.places(this.#machine).values()]
  }

  /** 1 = the next; undefined for a key that does not wait, or would not even fit alone. */
  placeOf(key: string): number | undefined {
    return this.#waiting.places(this.#machine).get(key)?.place
  }

  state(): MemoryBookState {
    const { committedBytes, promisedBytes } = this.#holds
    return { committedBytes, promisedBytes, held: this.held(), waiting: this.places() }
  }

  held(): readonly HeldMemory[] {
    return this.#holds.list()
  }

  /** The room a start would meet if it asked now, without regard to those that wait. */
  roomFor(request: RoomRequest): Room {
    return this.#judgement().roomFor(request)
  }

  /** Names the waiting starts that would be admitted if all asked now. */
  #tell(): void {
    const keys = this.#judgement().admissible()
    if (keys.length > 0) this.#onFreed(keys)
  }

  /** The situation as it is now; holds of memory that change later are not in it. */
  #judgement(): Judgement {
    return new Judgement({ machine: this.#machine, holds: this.#holds, waiting: this.#waiting })
  }
}
