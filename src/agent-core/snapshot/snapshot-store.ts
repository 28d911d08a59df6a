import { createStore } from 'zustand/vanilla'
import type { AgentSnapshot } from '../../contract/snapshot.ts'
import { composeSnapshot, type SnapshotParts } from './compose.ts'

/** Readers are told at most this often; what changes in between is one change. */
const coalesceMs = 50

/** The agent's state as one immutable value. */
export class SnapshotStore {
  readonly #read: () => SnapshotParts
  readonly #store
  /** Set while there is a change that the store has not taken in. */
  #timer: NodeJS.Timeout | undefined

  constructor(read: () => SnapshotParts) {
    this.#read = read
    this.#store = createStore<AgentSnapshot>(() => composeSnapshot(undefined, read()))
  }

  /** As of now: also what changed a moment ago, and with the agent's present time. */
  get(): AgentSnapshot {
    if (this.#timer) this.#compose()
    return { ...this.#store.getState(), now: new Date().toISOString() }
  }

  subscribe(listener: () => void): () => void {
    return this.#store.subscribe(listener)
  }

  /** Something that is shown has changed. */
  changed(): void {
    this.#timer ??= setTimeout(() => this.#compose(), coalesceMs)
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #compose(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#store.setState((previous) => composeSnapshot(previous, this.#read()), true)
  }
}
