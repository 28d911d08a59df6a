import type { AgentSnapshot } from '../../contract/snapshot.ts'
import { composeSnapshot, type SnapshotParts } from './compose.ts'

/** Readers are told at most this often; what changes in between is one change. */
const coalesceMs = 50
/** Followers keep records, which nobody reads in the moment: a start with a thousand services is one change for them. */
const followMs = 500

/** The agent's state as one immutable value, composed only when there is somebody to read it. */
export class SnapshotStore {
  readonly #read: () => SnapshotParts
  readonly #readers = new Set<() => void>()
  readonly #followers = new Set<(snapshot: AgentSnapshot) => void>()
  #snapshot: AgentSnapshot
  /** There is a change that the snapshot has not taken in. */
  #isStale = false
  /** Set while readers or followers are to be told of a change. */
  #timer: NodeJS.Timeout | undefined
  #isDisposed = false

  constructor(read: () => SnapshotParts) {
    this.#read = read
    this.#snapshot = composeSnapshot(undefined, read())
  }

  /** As of now: also what changed a moment ago, and with the agent's present time. */
  get(): AgentSnapshot {
    if (this.#isStale) this.#compose()
    return { ...this.#snapshot, now: new Date().toISOString() }
  }

  /** Called after every change, of figures as well. */
  subscribe(listener: () => void): () => void {
    this.#readers.add(listener)
    return () => void this.#readers.delete(listener)
  }

  /** For those who need no figures: called with the snapshot after every other change. */
  follow(listener: (snapshot: AgentSnapshot) => void): void {
    this.#followers.add(listener)
  }

  /** Something that is shown has changed. */
  changed(): void {
    this.#isStale = true
    if (this.#readers.size > 0 || this.#followers.size > 0) this.#tellSoon()
  }

  /** Only figures have changed, as they do all the time. */
  figuresChanged(): void {
    this.#isStale = true
    if (this.#readers.size > 0) this.#tellSoon()
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #tellSoon(): void {
    if (this.#isDisposed) return
    this.#timer ??= setTimeout(() => this.#compose(), this.#readers.size > 0 ? coalesceMs : followMs)
  }

  #compose(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#isStale = false
    this.#snapshot = composeSnapshot(this.#snapshot, this.#read())
    for (const listener of this.#followers) listener(this.#snapshot)
    for (const listener of this.#readers) listener()
  }
}
