import { formatBytes } from '../../contract/format.ts'
import { limitOf, type Room, type Shortage } from './room.ts'

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
  /** What would have to be evicted for it, all of lower priority; empty where that is off or would not do. */
  readonly evictFirst: readonly string[]
}

/** A sentence without its full stop. */
export const describeRefusal = (refusal: Omit<Refusal, 'message'>): string => {
  const words = wordsOf(refusal, 'needs')
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** The second half of a sentence about what runs already. */
export const describeRefusalBeside = (refusal: Omit<Refusal, 'message'>): string =>
  wordsOf(refusal, 'the new one needs')

function wordsOf(refusal: Omit<Refusal, 'message'>, needs: string): string {
  const { reason, needBytes } = refusal
  const place = refusal.place === undefined ? '' : ` (${ordinal(refusal.place)} waiting)`
  if (reason === 'MemoryPressure') {
    return `memory pressure is critical: nothing new is started until it has passed${place}`
  }
  const obstacles = obstaclesOf(refusal)
  if (obstacles.length > 0) return `${needs} ${formatBytes(needBytes)}, ${obstacles.join(', and ')}${place}`
  return `${needs} ${formatBytes(needBytes)}: that is free now, but goes to those that wait ahead of it${place}`
}

function obstaclesOf({ room, shortage, fitsAlone }: Omit<Refusal, 'message'>): string[] {
  const obstacles: string[] = []
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

function availability({ availableBytes = 0, promisedBytes }: Room): string {
  if (promisedBytes === 0) return `${formatBytes(availableBytes)} really available`
  const left = Math.max(0, availableBytes - promisedBytes)
  const why = `${formatBytes(availableBytes)} less ${formatBytes(promisedBytes)} that starting models will take`
  return `${formatBytes(left)} really available (${why})`
}

/** 1st, 2nd, 3rd, 4th, 11th, … */
export function ordinal(place: number): string {
  const isTeen = place % 100 >= 11 && place % 100 <= 13
  const ending = isTeen ? undefined : ['', 'st', 'nd', 'rd'][place % 10]
  return `${place}${ending === undefined || ending === '' ? 'th' : ending}`
}
