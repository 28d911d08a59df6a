import { lookers, seesFigures, type Looker } from '../../../contract/client.ts'
import type { AgentSnapshot } from '../../../contract/snapshot.ts'
import { composeSnapshot, joinParts, type RoomParts, type SnapshotBase } from './compose.ts'

/** Readers are told at most this often; what changes in between is one change. */
const coalesceMs = 50

/** The agent's state as one immutable value, composed only when it is read. */
export class SnapshotStore {
  readonly #base: () => SnapshotBase
  readonly #parts: (() => Partial<RoomParts>)[] = []
  readonly #readers = new Map<() => void, Looker>()
  readonly #onLook = new Set<() => void>()
  readonly #onLooker = new Set<(looker: Looker | undefined) => void>()
  #snapshot: AgentSnapshot | undefined
  /** There is a change that the snapshot has not taken in. */
  #isStale = true
  /** Set while readers are to be told of a change. */
  #timer: NodeJS.Timeout | undefined
  #isDisposed = false

  constructor(base: () => SnapshotBase) {
    this.#base = base
  }

  /** What a room says of itself, from now on in every snapshot. */
  register(part: () => Partial<RoomParts>): void {
    this.#parts.push(part)
    this.#isStale = true
  }

  /** For what is only measured while somebody looks: called with each snapshot that is asked for, and for a reader who comes. */
  beforeLook(listener: () => void): void {
    this.#onLook.add(listener)
  }

  /** Called when the one of all readers who sees most is another than before; undefined = there is none. */
  onLooker(listener: (looker: Looker | undefined) => void): void {
    this.#onLooker.add(listener)
  }

  /** A menu or window that is open is told of changes; the icon alone does not count as looking. */
  get hasReaders(): boolean {
    return seesFigures(this.#looker)
  }

  get #looker(): Looker | undefined {
    const present = new Set(this.#readers.values())
    return lookers.findLast((looker) => present.has(looker))
  }

  /** As of now: also what changed a moment ago, and with the agent's present time. */
  get(looker: Looker = 'window'): AgentSnapshot {
    this.#looked(looker)
    const snapshot = this.#isStale || !this.#snapshot ? this.#compose() : this.#snapshot
    return { ...snapshot, now: new Date().toISOString() }
  }

  /** Called after every change, of figures as well. */
  subscribe(listener: () => void, looker: Looker = 'window'): () => void {
    this.#change(() => this.#readers.set(listener, looker))
    this.#looked(looker)
    return () => this.#change(() => this.#readers.delete(listener))
  }

  /** Something that is shown has changed. */
  changed(): void {
    this.#isStale = true
    if (this.#readers.size > 0) this.#tellSoon()
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #looked(looker: Looker): void {
    if (!seesFigures(looker)) return
    for (const listener of this.#onLook) listener()
  }

  #change(change: () => void): void {
    const before = this.#looker
    change()
    const after = this.#looker
    if (after === before || this.#isDisposed) return
    for (const listener of this.#onLooker) listener(after)
  }

  #tellSoon(): void {
    if (this.#isDisposed) return
    this.#timer ??= setTimeout(() => this.#compose(), coalesceMs)
  }

  #compose(): AgentSnapshot {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#isStale = false
    const parts = this.#parts.map((part) => part())
    const snapshot = composeSnapshot(this.#snapshot, joinParts(this.#base(), parts))
    this.#snapshot = snapshot
    for (const listener of this.#readers.keys()) listener()
    return snapshot
  }
}
