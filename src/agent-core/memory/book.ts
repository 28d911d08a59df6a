import {
  admissible,
  byRank,
  decide,
  type MachineMemory,
  placesOf,
  type Refusal,
  refusalOf,
  roomFor,
  type Situation,
  type StartRequest,
  whyUnchecked,
} from './decide.ts'
import { type HeldMemory, type HeldServer, Holds } from './holds.ts'
import { fits, leftIn } from './room.ts'

type Admission =
  /** `warning` says what could not be checked. */
  { readonly admitted: true; readonly warning?: string | undefined } | ({ readonly admitted: false } & Refusal)

interface MemoryBookState {
  readonly committedBytes: number
  readonly promisedBytes: number
  readonly held: readonly HeldMemory[]
  /** Keys, in order. */
  readonly waiting: readonly string[]
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
  /** In order. Strangers decide how many there are, so all walks over them are one step for each. */
  readonly #waiting: StartRequest[] = []
  #places: ReturnType<typeof placesOf> = new Map()
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
  observe(machine: Partial<MachineMemory>): void {
    const { budgetBytes = this.#machine.budgetBytes, pressure = this.#machine.pressure } = machine
    const isLook = 'availableBytes' in machine
    const { availableBytes } = isLook ? machine : this.#machine
    this.#machine = { budgetBytes, pressure, availableBytes }
    if (isLook) this.#holds.seen()
    this.#tell()
  }

  /** Asks for the start of a server whose predecessor, if any, is gone: what the key held before is given back first. */
  admit(request: StartRequest): Admission {
    this.#holds.drop(request.key)
    const known = this.#leave(request.key)
    const since = known?.uid === request.uid ? Math.min(known.since, request.since) : request.since
    const entry = { ...request, since }
    const reason = decide(this.#situation, entry)
    if (reason === undefined) this.#holds.reserve(request)
    // Without an estimate it waits for other news than freed memory.
    else if (request.needBytes !== undefined || reason === 'MemoryPressure') this.#queue(entry)
    this.#tell()
    if (reason !== undefined) {
      return { admitted: false, ...refusalOf(this.#situation, entry, { reason, place: this.#places.get(request.key) }) }
    }
    return { admitted: true, warning: whyUnchecked(request, this.#machine) }
  }

  /** Counts a server that was found running. It is never refused, even beyond the budget. */
  adopt(server: HeldServer & Partial<Pick<HeldMemory, 'phase'>>): void {
    this.#leave(server.key)
    this.#holds.adopt(server, server.phase ?? 'running')
    this.#tell()
  }

  /** What its object says now of the key's server. */
  know(key: string, rank: Pick<HeldMemory, 'priority' | 'isProtected'>): void {
    this.#holds.know(key, rank)
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
    this.#leave(key)
    this.#holds.drop(key)
    this.#tell()
  }

  /** Why a new server would not fit even if what runs for its key were gone; undefined where it would. */
  refusalInstead(request: StartRequest): Refusal | undefined {
    const { holds, freedBytes } = this.#holds.without(request.key)
    const { availableBytes } = this.#machine
    const available = availableBytes === undefined ? undefined : availableBytes + freedBytes
    const situation = { ...this.#situation, machine: { ...this.#machine, availableBytes: available }, holds }
    // Services that share weights are often changed one after the other: if each kept its old server for the others none would ever change.
    const entry = { ...request, weightsAs: undefined }
    const reason = decide(situation, entry)
    return reason && refusalOf(situation, entry, { reason, place: this.#places.get(request.key) })
  }

  /** Whether it would fit as things are, without regard to those that wait. */
  hasRoomFor(request: StartRequest & { readonly needBytes: number }): boolean {
    return fits(request.needBytes, roomFor(this.#situation, request))
  }

  /** What a start could have right now, in bytes. */
  get freeBytes(): number {
    const { committedBytes, promisedBytes } = this.#holds
    return leftIn({ ...this.#machine, committedBytes, promisedBytes })
  }

  /** The places of the waiting starts, by key and in order: 1 = the next; undefined for one that would not even fit alone. */
  get places(): ReadonlyMap<string, number | undefined> {
    return this.#places
  }

  state(): MemoryBookState {
    const { committedBytes, promisedBytes } = this.#holds
    return { committedBytes, promisedBytes, held: this.held(), waiting: [...this.#places.keys()] }
  }

  held(): readonly HeldMemory[] {
    return this.#holds.list()
  }

  /** Other services that hold the same memory. */
  sharedWith(key: string): readonly string[] {
    return this.#holds.sharing(key)
  }

  #queue(entry: StartRequest): void {
    const at = this.#waiting.findIndex((other) => byRank(entry, other) < 0)
    this.#waiting.splice(at === -1 ? this.#waiting.length : at, 0, entry)
  }

  #leave(key: string): StartRequest | undefined {
    if (!this.#places.has(key)) return undefined
    const at = this.#waiting.findIndex((other) => other.key === key)
    return at === -1 ? undefined : this.#waiting.splice(at, 1)[0]
  }

  /** Names the waiting starts that would be admitted if all asked now. */
  #tell(): void {
    this.#places = placesOf(this.#situation)
    const keys = admissible(this.#situation)
    if (keys.length > 0) this.#onFreed(keys)
  }

  /** The situation as it is now; holds of memory that change later are not in it. */
  get #situation(): Situation {
    return { machine: this.#machine, holds: this.#holds, waiting: this.#waiting }
  }
}
