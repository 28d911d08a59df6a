import type { AgentSnapshot } from '../contract/snapshot.ts'

/** What a carrier needs of the agent: a zustand vanilla store has it under `getState` and `subscribe`. */
export interface SnapshotSource {
  get(): AgentSnapshot
  /** Calls back after each change; the answer ends it. */
  subscribe(listener: () => void): () => void
}
