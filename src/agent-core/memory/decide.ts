import type { HeldServer, Holds } from './holds.ts'
import {
  beyondShared,
  fits,
  isHeldAlready,
  leftIn,
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
  readonly whyUnknown?: string | undefined
  /** When it began to wait, ms since the epoch. */
  readonly since: number
  /** Set where its Model brings a budget of its own: it replaces the machine's, see `limitOf`. */
  readonly ownBudgetBytes?: number | undefined
  /** Whether a start is refused or let pass where its need, or the room for it, is not known. */
  readonly enforcement: 'enforce' | 'warn'
}

/** What the machine has, as of the last look at it. */
export interface MachineMemory {
  /** What all servers together may hold. */
  readonly budgetBytes: number
  /** What the system could give now; absent where it does not tell. */
  readonly availableBytes?: number | undefined
  readonly pressure: 'normal' | 'warning' | 'critical'
}

/** What a decision rests on. */
export interface Situation {
  readonly machine: MachineMemory
  readonly holds: Holds
  /** In order: see {@link byRank}. */
  readonly waiting: readonly StartRequest[]
}

/** Why a server may not start now, with the numbers. */
export interface Refusal {
  readonly reason: 'InsufficientMemory' | 'MemoryPressure' | 'MemoryCheckFailed'
  readonly message: string
  /** The same for a line with little room, with the figure that the message has: "needs 24.0 GB, 18.7 GB free". */
  readonly brief: string
  /** 1 = the next; absent where it does not wait in the queue, or would not even fit alone. */
  readonly place?: number | undefined
  readonly needBytes: number
  readonly room: Room
  readonly shortage: Shortage
  /** Whether it would fit the budget if nothing else ran. */
  readonly fitsAlone: boolean
}

/** Orders requests by priority, then by age; the key only keeps the order steady. */
export function byRank(a: StartRequest, b: StartRequest): number {
  return (
    priorityWeights[b.priority] - priorityWeights[a.priority] ||
    a.since - b.since ||
    (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)
  )
}

/**
 * What keeps the server from starting now; undefined where it may begin. Pure.
 *
 * Waiting starts are served by priority, then by age. A start that fits does not wait: a small one passes a larger one that does not fit
 * yet, but never one that does.
 */
export function decide(situation: Situation, request: StartRequest): Refusal['reason'] | undefined {
  const reason = reasonToWait(request, situation.machine)
  // What cannot be checked is let pass where only a warning is asked for.
  if (reason !== 'InsufficientMemory') return reason
  const room = roomFor(situation, request)
  return fits(needOf(request), room) && leavesRoom(request, room, served(situation, request).spareBytes)
    ? undefined
    : reason
}

/** The refusal of what {@link decide} gives the reason for. */
export function refusalOf(
  situation: Situation,
  request: StartRequest,
  { reason, place }: Pick<Refusal, 'reason' | 'place'>,
): Refusal {
  const room = roomFor(situation, request)
  const facts = {
    reason,
    needBytes: needOf(request),
    room,
    shortage: shortageOf(needOf(request), room),
    fitsAlone: fitsAlone(request, situation.machine),
    place,
  }
  const message = whyUnchecked(request, situation.machine) ?? describeRefusal(facts)
  return { ...facts, message, brief: briefly(facts) }
}

/** The waiting starts that would be admitted if all asked now, in order. */
export const admissible = (situation: Situation): readonly string[] => served(situation).keys

/** What could not be checked, one sentence. */
export function whyUnchecked({ needBytes, whyUnknown }: StartRequest, machine: MachineMemory): string | undefined {
  if (needBytes === undefined)
    return `Its memory need is not known: ${(whyUnknown ?? 'no estimate was made').replace(/\.$/, '')}`
  if (machine.availableBytes !== undefined) return undefined
  return 'The available memory is not known: the system does not report it'
}

/** The places of all that wait, by key and in order: 1 = the next; undefined for one that would not even fit alone or cannot be judged. */
export function placesOf({ waiting, machine }: Situation): ReadonlyMap<string, number | undefined> {
  let place = 0
  return new Map(
    waiting.map((request) => {
      const isCounted = reasonToWait(request, machine) !== 'MemoryCheckFailed' && fitsAlone(request, machine)
      return [request.key, isCounted ? ++place : undefined]
    }),
  )
}

type RoomRequest = Pick<StartRequest, 'ownBudgetBytes' | 'sharedAs' | 'weightsAs'>

/** The room a start would meet if it asked now, without regard to those that wait. */
export const roomFor = (situation: Situation, request: RoomRequest): Room =>
  roomIn(roomOfAll(situation), situation.holds, request)

function roomOfAll({ machine: { budgetBytes, availableBytes }, holds }: Situation): Room {
  const { committedBytes, promisedBytes } = holds
  return { budgetBytes, committedBytes, promisedBytes, availableBytes }
}

function roomIn(room: Room, holds: Holds, { ownBudgetBytes, sharedAs, weightsAs }: RoomRequest): Room {
  if (ownBudgetBytes === undefined && sharedAs === undefined) return room
  const rivals = holds.rivals({ sharedAs, weightsAs })
  return {
    ...{ ...room, ownBudgetBytes, sharedBytes: holds.sharedBytes(sharedAs) },
    rivals: rivals.length > 0 ? rivals : undefined,
  }
}

/** A need that is unknown counts as 0. */
const needOf = ({ needBytes = 0 }: Pick<StartRequest, 'needBytes'>): number => needBytes

/** What keeps a start waiting, apart from the numbers. */
function reasonToWait(request: StartRequest, machine: MachineMemory): Refusal['reason'] {
  if (request.enforcement === 'enforce' && whyUnchecked(request, machine) !== undefined) return 'MemoryCheckFailed'
  return machine.pressure === 'critical' ? 'MemoryPressure' : 'InsufficientMemory'
}

/** The starts that would be admitted if they asked now, in order. */
interface Served {
  readonly keys: readonly string[]
  /** What a start may take that asks before them, so that each of them still fits when it asks in its turn; in bytes. */
  readonly spareBytes: number
}

/** The waiting starts that would be admitted: those ahead of `before` in the queue, or without it all of them. */
function served(situation: Situation, before?: StartRequest): Served {
  const { machine, holds, waiting } = situation
  const roomNow = roomOfAll(situation)
  const keys: string[] = []
  let takenBytes = 0
  let spareBytes = Infinity
  for (const request of waiting) {
    if (before !== undefined && byRank(request, before) > 0) break
    if (request.key === before?.key || reasonToWait(request, machine) !== 'InsufficientMemory') continue
    const room = roomIn(roomNow, holds, request)
    if (!fits(needOf(request), room) || !leavesRoom(request, room, spareBytes)) continue
    keys.push(request.key)
    if (isHeldAlready(needOf(request), room)) continue
    spareBytes = Math.min(spareBytes, leftBy(request, room) - takenBytes)
    takenBytes += beyondShared(needOf(request), room)
  }
  return { keys, spareBytes }
}

/** Whether those that asked before it still fit when it takes what it needs. */
const leavesRoom = (request: StartRequest, room: Room, spareBytes: number): boolean =>
  isHeldAlready(needOf(request), room) || beyondShared(needOf(request), room) <= spareBytes

/** What is left for others once the start is admitted, in bytes. */
const leftBy = (request: StartRequest, room: Room): number => leftIn(room) - beyondShared(needOf(request), room)

/** Whether it would fit if nothing else ran. */
function fitsAlone(request: StartRequest, { budgetBytes }: MachineMemory): boolean {
  const { ownBudgetBytes } = request
  return fits(needOf(request), { budgetBytes, ownBudgetBytes, committedBytes: 0, promisedBytes: 0 })
}

type Facts = Omit<Refusal, 'message' | 'brief'>

function briefly({ needBytes, room, shortage, fitsAlone }: Facts): string {
  const needs = `needs ${formatBytes(needBytes)}`
  if (!fitsAlone) return `${needs} of a budget of ${formatBytes(room.ownBudgetBytes ?? room.budgetBytes)}`
  const isShort = shortage.budget > 0 || shortage.available > 0
  return isShort ? `${needs}, ${formatBytes(leftIn(room))} free` : `${needs}, waits for others`
}

/** A sentence without its full stop. */
function describeRefusal(refusal: Facts): string {
  const { reason, needBytes } = refusal
  const place = refusal.place === undefined ? '' : ` (${ordinal(refusal.place)} waiting)`
  if (reason === 'MemoryPressure') {
    return `Memory pressure is critical: nothing new is started until it has passed${place}`
  }
  const obstacles = obstaclesOf(refusal)
  if (obstacles.length > 0) return `Needs ${formatBytes(needBytes)}, ${obstacles.join(', and ')}${place}`
  return `Needs ${formatBytes(needBytes)}: that is free now, but goes to services ahead of it in the queue${place}`
}

function obstaclesOf({ room, shortage, fitsAlone }: Facts): string[] {
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
