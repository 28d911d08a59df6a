import type { Memory } from '../memory/memory.ts'
import type { Logger } from '../observability/logger.ts'
import { isOver, isUnendable, type ServerState } from '../servers/server-state.ts'
import type { Servers } from '../servers/servers.ts'
import { wallTimeOf } from '../util/steady-clock.ts'
import type { Absences, AbsenceTarget } from './absences.ts'
import type { Narrator } from './narrator.ts'
import { isOnItsWay } from './server-view.ts'

export interface DisplacementsOptions {
  readonly memory: Pick<Memory, 'look' | 'now'>
  readonly servers: Pick<Servers, 'get' | 'successor' | 'retiring'>
  readonly absences: Pick<Absences, 'of' | 'leave' | 'end'>
  readonly narrator: Pick<Narrator, 'tell'>
  readonly log: Logger
  /** Of the object as it is now. */
  readonly targetOf: (key: string) => (AbsenceTarget & { readonly isProtected: boolean }) | undefined
  /** It waits for memory. */
  readonly isQueued: (key: string) => boolean
  /** Its last request for memory was refused; false again when it is about to be answered anew. */
  readonly isRefused: (key: string) => boolean
  /** The answer for this key may have changed. */
  readonly enqueue: (key: string) => void
  readonly now: () => number
  /** How long after the end of all that gave way to it a service may still get its place. */
  readonly placeWithinMs?: number
}

/** The system may need a moment to count what a process held as available. */
const defaultPlaceWithinMs = 10_000

/** A service that gave way, and since when nothing of it is left; on the clock of `Memory`. */
interface Displacement {
  readonly target: AbsenceTarget
  freedAt: number | undefined
}

/**
 * The services that gave way to one of higher priority, the winner. They ask for memory again once the winner has its place, wants it no
 * more, or does not get it although they are gone.
 */
export class Displacements implements Disposable {
  readonly #options: DisplacementsOptions
  readonly #displaced = new Map<string, Displacement>()
  /** Winners that did not fit although others had given way: no further service gives way while they wait. */
  readonly #inVain = new Set<string>()
  #looksAgain: NodeJS.Timeout | undefined

  constructor(options: DisplacementsOptions) {
    this.#options = options
  }

  /** Services that gave way may be wanted in another cluster, where the services they gave way to do not exist. */
  [Symbol.dispose](): void {
    clearTimeout(this.#looksAgain)
    for (const { target } of this.#displaced.values()) this.#options.absences.end(target.uid)
  }

  makeWay(winner: string, losers: readonly string[]): void {
    if (this.#inVain.has(winner)) return
    for (const loser of losers) this.#displace(loser, winner)
  }

  /** It has its memory, or asks for none. */
  winnerWaitsNoMore(key: string): void {
    this.#inVain.delete(key)
  }

  forget(key: string): void {
    this.#inVain.delete(key)
    const displaced = this.#displaced.get(key)
    if (displaced) this.#options.absences.end(displaced.target.uid)
    this.review()
  }

  /** Once nothing is left of a displaced service, the winner is answered first, with what that made free. */
  async serverOver(key: string): Promise<void> {
    const { memory, absences } = this.#options
    if (!this.#displaced.has(key) || this.#leftOf(key).length > 0) return
    await memory.look()
    const displacement = this.#displaced.get(key)
    const absence = absences.of(displacement?.target.uid)
    if (displacement && absence?.kind === 'displaced') {
      displacement.freedAt = memory.now()
      absences.leave(displacement.target, { ...absence, isFreed: true })
      this.#lookAgain()
    }
    this.review()
  }

  /** Displaced services ask for memory again where their winner has got it, wants it no more, or does not get it all the same. */
  review(): void {
    const { absences, enqueue, isQueued } = this.#options
    const inVain = this.#winnersInVain()
    for (const [key, { target }] of this.#displaced) {
      const absence = absences.of(target.uid)
      const isOngoing = absence?.kind === 'displaced'
      const isWaitedFor = isOngoing && isQueued(absence.winner)
      if (isOngoing && (!absence.isFreed || (isWaitedFor && !inVain.has(absence.winner)))) continue
      this.#displaced.delete(key)
      if (!isOngoing) continue
      absences.end(target.uid)
      enqueue(key)
    }
  }

  #displace(key: string, winner: string): void {
    const { servers, absences, narrator, enqueue, now } = this.#options
    // Protection may have come since the book was told.
    const target = this.#options.targetOf(key)
    if (!target || target.isProtected || absences.of(target.uid) || !isOnItsWay(servers.get(key))) return
    const message = `Evicted so that ${winner} can start, which has a higher priority.`
    const since = wallTimeOf(now()).toISOString()
    this.#displaced.set(key, { target, freedAt: undefined })
    absences.leave(target, { kind: 'displaced', since, message, winner, isFreed: false })
    narrator.tell(key, { kind: 'displaced', winner, message })
    enqueue(key)
  }

  #leftOf(key: string): ServerState[] {
    const { servers } = this.#options
    const states = [servers.get(key), servers.successor(key), servers.retiring(key)]
    return states.filter((state): state is ServerState => state !== undefined && !isOver(state))
  }

  /** When the winner must have its place. */
  #lookAgain(): void {
    const { memory, log, placeWithinMs = defaultPlaceWithinMs } = this.#options
    clearTimeout(this.#looksAgain)
    this.#looksAgain = setTimeout(() => {
      memory.look().then(
        () => this.review(),
        (error: unknown) => log.error('memory not looked at', { error }),
      )
    }, placeWithinMs + 1)
    this.#looksAgain.unref()
  }

  /** All that gave way to them and can be ended is gone for long enough, and they still wait: the freed memory went elsewhere. */
  #winnersInVain(): ReadonlySet<string> {
    const { absences, memory, isRefused, placeWithinMs = defaultPlaceWithinMs } = this.#options
    const losers = Map.groupBy(this.#displaced, ([, { target }]) => {
      const absence = absences.of(target.uid)
      return absence?.kind === 'displaced' ? absence.winner : undefined
    })
    const winners = new Set<string>()
    for (const [winner, gone] of losers) {
      const isGone = ({ freedAt }: Displacement): boolean =>
        freedAt !== undefined && memory.now() - freedAt >= placeWithinMs
      const isAllGone =
        gone.some(([, displacement]) => isGone(displacement)) &&
        gone.every(([key, displacement]) => isGone(displacement) || this.#leftOf(key).some(isUnendable))
      if (winner === undefined || !isRefused(winner) || !isAllGone) continue
      this.#inVain.add(winner)
      winners.add(winner)
    }
    return winners
  }
}
