export type Priority = 'critical' | 'high' | 'normal' | 'low' | 'batch'

/** The Go agent's: the higher, the sooner it is started and the later it is evicted. */
export const priorityWeights: Readonly<Record<Priority, number>> = {
  critical: 1_000_000,
  high: 100_000,
  normal: 10_000,
  low: 1_000,
  batch: 100,
}

/** What a new server meets. All in bytes. */
export interface Room {
  /** What all servers together may hold. */
  readonly budgetBytes: number
  /** The new server's own budget where its Model sets one: see `limitOf`. */
  readonly ownBudgetBytes?: number | undefined
  /** What running and starting servers hold or will hold: for each the larger of estimate and measured footprint. */
  readonly committedBytes: number
  /** What the system could give now; absent where it does not tell. */
  readonly availableBytes?: number | undefined
  /** What starting servers will still take of that. */
  readonly promisedBytes: number
  /** What is held already of the memory that the new server would share with others; absent where it would share none. */
  readonly sharedBytes?: number | undefined
  /** Services with the same weights in one daemon, under other settings: it has them in memory once. Absent = none. */
  readonly rivals?: readonly string[] | undefined
}

/** Memory that several services hold together, as one model of a daemon: it counts once, and comes back when the last of them is gone. */
export interface SharedMemory {
  readonly name: string
  /** All services that hold it. */
  readonly keys: readonly string[]
}

/** The bytes that are missing for something to fit; 0 where it fits. */
export interface Shortage {
  /** Beyond its Model's own budget. */
  readonly own: number
  /** Beyond the budget for all. */
  readonly budget: number
  /** Beyond what is really available. */
  readonly available: number
}

/**
 * What all servers may hold once this one is admitted. A Model's own budget replaces the machine's for this Model: it
 * bounds what the Model itself needs, and where it is the larger one the sum may grow up to it.
 */
export function limitOf({ budgetBytes, ownBudgetBytes }: Room): number {
  return Math.max(budgetBytes, ownBudgetBytes ?? 0)
}

/** What a new server could have right now: the smaller of what is left of the budget and what is really available; 0 where one is used up. */
export function leftIn(room: Room): number {
  const { committedBytes, promisedBytes, availableBytes = Infinity } = room
  return Math.max(0, Math.min(limitOf(room) - committedBytes, availableBytes - promisedBytes))
}

export function shortageOf(needBytes: number, room: Room): Shortage {
  const { ownBudgetBytes = Infinity, availableBytes = Infinity } = room
  const own = Math.max(0, needBytes - ownBudgetBytes)
  // Who takes nothing more fits, however little is left.
  if (isHeldAlready(needBytes, room)) return { own, budget: 0, available: 0 }
  const moreBytes = beyondShared(needBytes, room)
  return {
    own,
    budget: Math.max(0, room.committedBytes + moreBytes - limitOf(room)),
    available: Math.max(0, moreBytes + room.promisedBytes - availableBytes),
  }
}

/** What it takes beside the memory that it shares. */
export const beyondShared = (needBytes: number, { sharedBytes = 0 }: Room): number =>
  Math.max(0, needBytes - sharedBytes)

export const isHeldAlready = (needBytes: number, room: Room): boolean =>
  room.sharedBytes !== undefined && beyondShared(needBytes, room) === 0

/** Equality fits. */
export function fits(needBytes: number, room: Room): boolean {
  const { own, budget, available } = shortageOf(needBytes, room)
  return room.rivals === undefined && own === 0 && budget === 0 && available === 0
}

/** A server whose end would free memory. */
export interface Evictable {
  readonly key: string
  readonly priority: Priority
  readonly isProtected: boolean
  /** What the budget gets back: the larger of estimate and measured footprint. */
  readonly committedBytes: number
  /** What the system gets back: what it counts as held; 0 where that is not known. */
  readonly residentBytes: number
  /** What it was promised and has not taken yet; 0 once it serves. */
  readonly promisedBytes: number
  /** Set where others may hold the same memory. */
  readonly shared?: SharedMemory | undefined
}

type Sharing = Pick<Evictable, 'shared'>

/** The servers without those whose memory another one before them holds too, so that a sum counts it once. */
export function countedOnce<T extends Sharing>(servers: readonly T[]): readonly T[] {
  const seen = new Set<string>()
  return servers.filter(({ shared }) => {
    if (shared === undefined) return true
    const isFirst = !seen.has(shared.name)
    seen.add(shared.name)
    return isFirst
  })
}

/** Those whose memory comes back when all of these are gone. */
export function freedBy<T extends Sharing & Pick<Evictable, 'key'>>(gone: readonly T[]): readonly T[] {
  const keys = new Set(gone.map(({ key }) => key))
  return countedOnce(gone.filter(({ shared }) => shared === undefined || shared.keys.every((key) => keys.has(key))))
}

export function roomWithout(room: Room, gone: readonly Evictable[]): Room {
  const freed = freedBy(gone)
  const sum = (of: (server: Evictable) => number): number => freed.reduce((total, server) => total + of(server), 0)
  const left = room.rivals?.filter((rival) => !gone.some(({ key }) => key === rival)) ?? []
  return {
    ...room,
    rivals: left.length > 0 ? left : undefined,
    committedBytes: room.committedBytes - sum(({ committedBytes }) => committedBytes),
    promisedBytes: room.promisedBytes - sum(({ promisedBytes }) => promisedBytes),
    availableBytes:
      room.availableBytes === undefined ? undefined : room.availableBytes + sum(({ residentBytes }) => residentBytes),
  }
}

/**
 * Servers whose end makes room: one, if that is enough, otherwise as few of the lowest priorities as do. Protected ones are never named.
 * Undefined where not even all of them would do.
 */
export function fewestEvictions<T extends Evictable>(
  needBytes: number,
  room: Room,
  servers: readonly T[],
): readonly T[] | undefined {
  const weight = ({ priority }: Evictable): number => priorityWeights[priority]
  const candidates = servers
    .filter(({ isProtected }) => !isProtected)
    .sort((a, b) => weight(a) - weight(b) || b.committedBytes - a.committedBytes || (a.key < b.key ? -1 : 1))
  const suffices = (gone: readonly T[]): boolean => fits(needBytes, roomWithout(room, gone))
  if (!suffices(candidates)) return undefined
  const [single] = candidates
    .filter((one) => suffices([one]))
    .sort((a, b) => weight(a) - weight(b) || a.committedBytes - b.committedBytes)
  return single ? [single] : oneByOne(candidates, suffices)
}

function oneByOne<T>(candidates: readonly T[], suffices: (gone: readonly T[]) => boolean): readonly T[] {
  let gone: readonly T[] = candidates
  for (const server of candidates.toReversed()) {
    const others = gone.filter((other) => other !== server)
    if (suffices(others)) gone = others
  }
  return gone
}
