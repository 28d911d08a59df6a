import { type Priority, priorityWeights } from './priority.ts'
import { fits, type Room } from './room.ts'

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
}

export function roomWithout(room: Room, gone: readonly Evictable[]): Room {
  const sum = (of: (server: Evictable) => number): number => gone.reduce((total, server) => total + of(server), 0)
  return {
    ...room,
    committedBytes: room.committedBytes - sum(({ committedBytes }) => committedBytes),
    promisedBytes: room.promisedBytes - sum(({ promisedBytes }) => promisedBytes),
    ...(room.availableBytes !== undefined && {
      availableBytes: room.availableBytes + sum(({ residentBytes }) => residentBytes),
    }),
  }
}

/** Up to so many servers every combination is tried; beyond, they are taken one after the other. */
const exhaustiveUpTo = 3

/**
 * The fewest servers whose end makes room: among equally many those of the lowest priority, then those that free the
 * least. Protected ones are never named. Undefined where not even all of them would do.
 */
export function fewestEvictions<T extends Evictable>(
  needBytes: number,
  room: Room,
  servers: readonly T[],
): readonly T[] | undefined {
  const candidates = servers
    .filter(({ isProtected }) => !isProtected)
    .sort((a, b) => weight(a) - weight(b) || b.committedBytes - a.committedBytes || (a.key < b.key ? -1 : 1))
  const suffices = (gone: readonly T[]): boolean => fits(needBytes, roomWithout(room, gone))
  if (!suffices(candidates)) return undefined
  for (let count = 1; count <= Math.min(exhaustiveUpTo, candidates.length); count++) {
    const best = combinations(candidates, count).filter(suffices).sort(byCost)[0]
    if (best !== undefined) return best
  }
  return oneByOne(candidates, suffices)
}

function oneByOne<T>(candidates: readonly T[], suffices: (gone: readonly T[]) => boolean): readonly T[] {
  let gone: readonly T[] = candidates
  for (const server of candidates.toReversed()) {
    const others = gone.filter((other) => other !== server)
    if (suffices(others)) gone = others
  }
  return gone
}

/** Every priority weighs ten times the next, so that for a few servers the sum tells the highest among them. */
function byCost(a: readonly Evictable[], b: readonly Evictable[]): number {
  const total = (servers: readonly Evictable[], of: (server: Evictable) => number): number =>
    servers.reduce((sum, server) => sum + of(server), 0)
  return (
    total(a, weight) - total(b, weight) ||
    total(a, ({ committedBytes }) => committedBytes) - total(b, ({ committedBytes }) => committedBytes)
  )
}

function combinations<T>(items: readonly T[], count: number): T[][] {
  if (count === 0) return [[]]
  return items.flatMap((item, at) => combinations(items.slice(at + 1), count - 1).map((rest) => [item, ...rest]))
}

function weight({ priority }: Evictable): number {
  return priorityWeights[priority]
}
