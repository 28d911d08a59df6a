import type { Memory, MemoryRefusal, SizedRequest } from '../memory/memory.ts'
import type { Logger } from '../observability/logger.ts'
import type { Narrator } from './narrator.ts'
import type { Beside, MemoryReason } from './plan/observation.ts'
import { desiredKey, type DesiredServer } from './reading.ts'
import { isOnItsWay } from './server-view.ts'
import type { Need } from './sizing.ts'
import type { UnloadReasons, UnloadTarget } from './unload-reasons.ts'
import { isOver, isUnendable, type ServerState } from '../servers/server-state.ts'
import type { Servers } from '../servers/servers.ts'
import { wallTimeOf } from '../util/steady-clock.ts'

/** A sentence is read to its end where it names few. */
const waysNamed = 2

/** Why a server may not be started now, with what would make it fit. */
function refusalSentence({ message, ways }: MemoryRefusal): string {
  const named = ways.slice(0, waysNamed).map(({ sentence }) => sentence.charAt(0).toLowerCase() + sentence.slice(1))
  return named.length === 0 ? `${message}.` : `${message}. What would make it fit: ${named.join('; or ')}.`
}

/** Why a changed specification is not served yet. */
const insteadSentence = (refusal: MemoryRefusal): string =>
  `The specification changed, but the new server would not fit, so the previous one keeps serving: ${refusalSentence(refusal)}`

interface DisplacementsOptions {
  readonly memory: Pick<Memory, 'look' | 'now'>
  readonly servers: Pick<Servers, 'get' | 'successor' | 'retiring'>
  readonly unloadReasons: Pick<UnloadReasons, 'of' | 'unload' | 'end'>
  readonly narrator: Pick<Narrator, 'tell'>
  readonly log: Logger
  /** The object as it is now; undefined if it is gone. */
  readonly targetOf: (key: string) => (UnloadTarget & { readonly isProtected: boolean }) | undefined
  /** It waits for memory. */
  readonly isQueued: (key: string) => boolean
  /** Its last request for memory was refused; false again when the request is about to be repeated. */
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
  readonly target: UnloadTarget
  freedAt: number | undefined
}

/**
 * The services that gave way to one of higher priority, the winner. They ask for memory again once the winner has its place, wants it no
 * more, or does not get it although they are gone.
 */
class Displacements implements Disposable {
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
    for (const { target } of this.#displaced.values()) this.#options.unloadReasons.end(target.uid)
  }

  makeWay(winner: string, losers: readonly string[]): void {
    if (this.#inVain.has(winner)) return
    for (const loser of losers) this.#displace(loser, winner)
  }

  /** The winner has its memory, or no longer asks for any. */
  winnerWaitsNoMore(key: string): void {
    this.#inVain.delete(key)
  }

  forget(key: string): void {
    this.#inVain.delete(key)
    const displaced = this.#displaced.get(key)
    if (displaced) this.#options.unloadReasons.end(displaced.target.uid)
    this.review()
  }

  /** Once nothing is left of a displaced service, the winner is answered first, with what that made free. */
  async serverOver(key: string): Promise<void> {
    const { memory, unloadReasons } = this.#options
    if (!this.#displaced.has(key) || this.#leftOf(key).length > 0) return
    await memory.look()
    const displacement = this.#displaced.get(key)
    const unloadReason = unloadReasons.of(displacement?.target.uid)
    if (displacement && unloadReason?.kind === 'displaced') {
      displacement.freedAt = memory.now()
      unloadReasons.unload(displacement.target, { ...unloadReason, isFreed: true })
      this.#lookAgain()
    }
    this.review()
  }

  /** Displaced services ask for memory again where their winner has got it, wants it no more, or does not get it all the same. */
  review(): void {
    const { unloadReasons, enqueue, isQueued } = this.#options
    const inVain = this.#winnersInVain()
    for (const [key, { target }] of this.#displaced) {
      const unloadReason = unloadReasons.of(target.uid)
      const isOngoing = unloadReason?.kind === 'displaced'
      const isWaitedFor = isOngoing && isQueued(unloadReason.winner)
      if (isOngoing && (!unloadReason.isFreed || (isWaitedFor && !inVain.has(unloadReason.winner)))) continue
      this.#displaced.delete(key)
      if (!isOngoing) continue
      unloadReasons.end(target.uid)
      enqueue(key)
    }
  }

  #displace(key: string, winner: string): void {
    const { servers, unloadReasons, narrator, enqueue, now } = this.#options
    // Protection may have come since the book was asked.
    const target = this.#options.targetOf(key)
    if (!target || target.isProtected || unloadReasons.of(target.uid) || !isOnItsWay(servers.get(key))) return
    const message = `Evicted so that ${winner}, which has a higher priority, can start.`
    const since = wallTimeOf(now()).toISOString()
    this.#displaced.set(key, { target, freedAt: undefined })
    unloadReasons.unload(target, { kind: 'displaced', since, message, winner, isFreed: false })
    narrator.tell(key, { kind: 'displaced', winner, message })
    enqueue(key)
  }

  #leftOf(key: string): ServerState[] {
    const { servers } = this.#options
    const states = [servers.get(key), servers.successor(key), servers.retiring(key)]
    return states.filter((state): state is ServerState => state !== undefined && !isOver(state))
  }

  /** Looks again when the time is over in which the winner must have taken its place. */
  #lookAgain(): void {
    const { memory, log, placeWithinMs = defaultPlaceWithinMs } = this.#options
    clearTimeout(this.#looksAgain)
    this.#looksAgain = setTimeout(() => {
      memory.look().then(
        () => this.review(),
        (error: unknown) => log.error('available memory not read', { error }),
      )
    }, placeWithinMs + 1)
    this.#looksAgain.unref()
  }

  /** All that gave way to them and can be ended is gone for long enough, and they still wait: the freed memory went elsewhere. */
  #winnersInVain(): ReadonlySet<string> {
    const { unloadReasons, memory, isRefused, placeWithinMs = defaultPlaceWithinMs } = this.#options
    const losers = Map.groupBy(this.#displaced, ([, { target }]) => {
      const unloadReason = unloadReasons.of(target.uid)
      return unloadReason?.kind === 'displaced' ? unloadReason.winner : undefined
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

export interface AdmissionOptions extends Omit<DisplacementsOptions, 'isQueued' | 'isRefused'> {
  readonly memory: Memory
  readonly narrator: Pick<Narrator, 'notStarted' | 'mayStart' | 'tell'>
  /** Something that a snapshot shows has changed. */
  readonly onChange: () => void
  /** Called with each answer to a start. */
  readonly onDecision?: (outcome: 'admitted' | MemoryReason) => void
}

/** What a pass needs to know of memory. */
interface AdmissionView {
  /** Undefined = not asked for yet. */
  readonly beside: Beside | undefined
  /** Why the desired server would not fit even in place of the present one, as a sentence. */
  readonly instead: string | undefined
  /** Why the desired server may not be started now. */
  readonly noMemory: { readonly reason: MemoryReason; readonly message: string } | undefined
}

/** What people are shown. */
export interface AdmissionReport {
  readonly need: Need | undefined
  readonly place: number | undefined
  /** What would make it fit. */
  readonly ways: MemoryRefusal['ways']
  /** Other services that hold the same memory. */
  readonly sharedWith: readonly string[]
}

/** Whether the desired server fits beside the present one, or in its place. */
interface Comparison {
  /** See `desiredKey`. */
  readonly of: string
  readonly request: SizedRequest
  readonly beside: Beside
  readonly instead: MemoryRefusal | undefined
}

interface Entry {
  /** What the desired server will hold, as worked out last. */
  need: Need | undefined
  /** The answer to the start that was asked for last; gone when it may be asked again. */
  refusal: (MemoryRefusal & { readonly of: string }) | undefined
  /** As `refusal`. */
  comparison: Comparison | undefined
  /** Since when its requests for memory are refused. */
  waitingSince: number | undefined
  /** It has a place among those that wait for memory, or may have. */
  isQueued: boolean
}

/**
 * Decides with the memory book which servers may start, and remembers each answer for as long as it holds. A start of higher priority
 * may displace running services, where a person allowed that: see {@link Displacements}.
 */
export class Admission implements Disposable {
  readonly #options: AdmissionOptions
  readonly #entries = new Map<string, Entry>()
  readonly #displacements: Displacements
  readonly #unsubscribe: () => void

  constructor(options: AdmissionOptions) {
    this.#options = options
    this.#displacements = new Displacements({
      ...options,
      isQueued: (key) => this.#entries.get(key)?.isQueued === true,
      isRefused: (key) => this.#entries.get(key)?.refusal !== undefined,
    })
    this.#unsubscribe = options.memory.listen({
      onFreed: (keys) => this.#askAgain(keys),
      onSample: () => this.#memorySeen(),
      isWaiting: () => [...this.#entries.values()].some((one) => one.refusal ?? one.comparison?.instead),
    })
  }

  /** What asks for memory elsewhere asks there again; nothing here waits behind it. */
  [Symbol.dispose](): void {
    this.#unsubscribe()
    for (const [key, { isQueued }] of this.#entries) if (isQueued) this.#options.memory.release(key)
    this.#displacements[Symbol.dispose]()
  }

  /** The answer for this very spec: an answer for another one says nothing. */
  view(key: string, desiredServer: DesiredServer | undefined): AdmissionView {
    const { refusal, comparison } = this.#entry(key)
    const of = desiredServer && (refusal || comparison) ? desiredKey(desiredServer) : undefined
    const compared = comparison?.of === of ? comparison : undefined
    return {
      beside: compared?.beside,
      instead: compared?.instead && insteadSentence(compared.instead),
      noMemory:
        refusal && refusal.of === of ? { reason: refusal.reason, message: refusalSentence(refusal) } : undefined,
    }
  }

  report(key: string): AdmissionReport {
    const { need, refusal, comparison } = this.#entry(key)
    return {
      need,
      place: this.#options.memory.placeOf(key),
      ways: refusal?.ways ?? comparison?.instead?.ways ?? [],
      sharedWith: this.#options.memory.sharedWith(key),
    }
  }

  /**
   * Called when a priority or a protection changed: which service may be evicted for which follows from it, so waiting services ask again.
   */
  know(key: string, rank: { readonly priority: SizedRequest['priority']; readonly isProtected: boolean }): void {
    const { memory } = this.#options
    if (memory.know(key, rank)) this.#askAgain(memory.book.places().map((waiting) => waiting.key))
  }

  /** What the server will hold; worked out once for each server. */
  async need(key: string, of: string, sizeUp: () => Promise<Need>): Promise<Need> {
    const entry = this.#entry(key)
    if (entry.need?.of === of) return entry.need
    entry.need = await sizeUp()
    this.#options.onChange()
    return entry.need
  }

  /** Before a start is answered by {@link admit} or {@link admitBeside}, which happens in one turn. */
  async prepare(key: string, desiredServer: DesiredServer, need: Need): Promise<void> {
    await this.#options.memory.prepare(this.#request(key, desiredServer, need))
  }

  /** Whether its start would be admitted, if nothing of it ran. Nothing is admitted by the question. */
  async wouldFit(key: string, desiredServer: DesiredServer, need: Need): Promise<boolean> {
    const request = this.#request(key, desiredServer, need)
    await this.#options.memory.prepare(request)
    return this.#options.memory.instead(request, {}) === undefined
  }

  /** Whether the desired server fits beside the one that runs, or in its place. */
  async compare(key: string, desiredServer: DesiredServer, need: Need): Promise<void> {
    const { memory } = this.#options
    const request = this.#request(key, desiredServer, need)
    await memory.prepare(request)
    const beside = memory.beside(request)
    this.#entry(key).comparison = this.#compared(desiredServer, request, need, beside)
  }

  /** In this turn: between the answer and the start nothing else is answered. */
  admit(key: string, desiredServer: DesiredServer, need: Need): boolean {
    const { memory, log, narrator } = this.#options
    const entry = this.#entry(key)
    const request = this.#request(key, desiredServer, need)
    const admission = memory.admit(request, need.changeable)
    this.#options.onDecision?.(admission.admitted ? 'admitted' : admission.reason)
    if (entry.isQueued === admission.admitted) queueMicrotask(() => this.#placesMoved())
    entry.isQueued = !admission.admitted
    if (admission.admitted) {
      entry.refusal = undefined
      entry.waitingSince = undefined
      this.#displacements.winnerWaitsNoMore(key)
      narrator.mayStart(key)
      if (admission.warning !== undefined) log.warn('memory not checked', { key, text: admission.warning })
      return true
    }
    entry.refusal = { ...admission, of: desiredKey(desiredServer) }
    entry.waitingSince = request.since
    narrator.notStarted(key, admission.reason, this.#eventSentence(admission))
    this.#displacements.makeWay(key, admission.evictFirst)
    return false
  }

  /** As {@link admit}, for a server that is to take over from the present one. */
  admitBeside(key: string, desiredServer: DesiredServer, need: Need): boolean {
    const request = this.#request(key, desiredServer, need)
    const verdict = this.#options.memory.beside(request, { reserve: true })
    if (!verdict.allowed) this.#entry(key).comparison = this.#compared(desiredServer, request, need, verdict)
    return verdict.allowed
  }

  /** The server that was admitted beside the other is not started after all. */
  notStarted(key: string): void {
    this.#options.memory.gone(key, 'all')
  }

  /** It does not wait for memory: no other waits behind it, and the next answer is a new one. */
  leaveQueue(key: string): void {
    const entry = this.#entries.get(key)
    if (!entry) return
    entry.refusal = undefined
    entry.waitingSince = undefined
    this.#displacements.winnerWaitsNoMore(key)
    if (!entry.isQueued) return
    entry.isQueued = false
    this.#options.memory.release(key)
    this.#placesMoved()
  }

  forget(key: string): void {
    if (this.#entries.get(key)?.isQueued === true) this.#options.memory.release(key)
    this.#entries.delete(key)
    this.#displacements.forget(key)
  }

  /** A server has ended, so that there may be room for changes that did not fit. */
  serverEnded(): void {
    for (const [key, entry] of this.#entries) {
      if (entry.comparison?.instead === undefined) continue
      entry.comparison = undefined
      this.#options.enqueue(key)
    }
  }

  /** Nothing is left of a server of this service. */
  serverOver(key: string): Promise<void> {
    return this.#displacements.serverOver(key)
  }

  /** Settings that decide about memory have changed: everything is asked again. */
  rulesChanged(): void {
    for (const [key, entry] of this.#entries) {
      if (entry.refusal === undefined && entry.comparison === undefined) continue
      entry.refusal = undefined
      entry.comparison = undefined
      this.#options.enqueue(key)
    }
  }

  /** Forgets the answers about changes of the spec. */
  pressureChanged(): void {
    for (const entry of this.#entries.values()) entry.comparison = undefined
  }

  #compared(desiredServer: DesiredServer, request: SizedRequest, need: Need, beside: Beside): Comparison {
    const instead = this.#options.memory.instead(request, need.changeable)
    return { of: desiredKey(desiredServer), request, beside, instead }
  }

  #request(key: string, { service, spec, model }: DesiredServer, need: Need): SizedRequest {
    const { memoryBudget: modelBudget, memoryFraction: modelFraction } = model.hardware ?? {}
    return {
      key,
      uid: service.metadata.uid,
      needBytes: need.estimate?.total,
      mappedBytes: need.estimate?.mappedBytes ?? 0,
      ...(need.whyUnknown !== undefined && { whyUnknown: need.whyUnknown }),
      ...need.daemonMemory,
      priority: spec.priority,
      isProtected: this.#options.targetOf(key)?.isProtected ?? false,
      since: this.#entry(key).waitingSince ?? this.#options.now(),
      modelBudget,
      modelFraction,
    }
  }

  #eventSentence(refusal: MemoryRefusal): string {
    if (refusal.reason !== 'MemoryPressure') return refusalSentence(refusal)
    return `${refusal.message}. Memory pressure is ${this.#options.memory.view?.level ?? 'unknown'}.`
  }

  /** In the turn of the change: only noted here. */
  #askAgain(keys: readonly string[]): void {
    for (const key of keys) {
      const entry = this.#entries.get(key)
      if (entry) entry.refusal = undefined
      this.#options.enqueue(key)
    }
  }

  /** An answer about a change of the spec holds no longer where memory has changed, nor does a queue position that has. */
  #memorySeen(): void {
    const { memory, enqueue } = this.#options
    for (const [key, entry] of this.#entries) {
      const { comparison } = entry
      if (!comparison?.instead || memory.instead(comparison.request, {}) !== undefined) continue
      entry.comparison = undefined
      enqueue(key)
    }
    this.#placesMoved()
  }

  /** Requeues services whose queue position changed, so that what they report of it is true. */
  #placesMoved(): void {
    this.#displacements.review()
    const places = new Map(this.#options.memory.book.places().map(({ key, place }) => [key, place]))
    for (const [key, entry] of this.#entries) {
      if (!entry.isQueued || entry.refusal === undefined || places.get(key) === entry.refusal.place) continue
      entry.refusal = undefined
      this.#options.enqueue(key)
    }
  }

  #entry(key: string): Entry {
    const known = this.#entries.get(key)
    if (known) return known
    const entry: Entry = {
      need: undefined,
      refusal: undefined,
      comparison: undefined,
      waitingSince: undefined,
      isQueued: false,
    }
    this.#entries.set(key, entry)
    return entry
  }
}
