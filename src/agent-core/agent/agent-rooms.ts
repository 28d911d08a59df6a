import type { AgentOptions } from './agent-options.ts'
import type { SnapshotStore } from './snapshot.ts'
import type { Rooms } from '../api/command.ts'
import type { ApiKeys } from '../gateway/api-keys.ts'
import type { AgentMetrics } from '../observability/agent-metrics.ts'
import type { Energy } from '../power/energy.ts'
import type { Sleep } from '../power/sleep.ts'
import type { Narrator } from '../reconcile/narrator.ts'
import type { StartTurns } from '../reconcile/start-turns.ts'
import type { findRuntime } from '../runtimes/installed.ts'
import type { Runtime } from '../runtimes/runtime.ts'
import type { RuntimeFigures } from '../servers/figures/runtime-figures.ts'
import type { Ledger } from '../servers/ledger.ts'

/** What the rooms are built with. A room registers its part of the snapshot with `snapshots` and its end with `ends`. */
export interface RoomContext {
  readonly options: AgentOptions
  readonly metrics: AgentMetrics
  readonly snapshots: SnapshotStore
  /** Ends the rooms in the reverse order of their beginning. */
  readonly ends: AsyncDisposableStack
  /** The agent is ending. */
  readonly isEnding: () => boolean
}

/** Every room of one agent. */
export interface AgentRooms extends Rooms {
  readonly ledger: Ledger
  readonly figures: RuntimeFigures
  readonly energy: Energy
  readonly narrator: Narrator
  readonly turns: StartTurns
  readonly sleep: Sleep
  readonly apiKeys: ApiKeys
  readonly machine: Machine
  /** As {@link findRuntime}, by what counts now. */
  readonly findProgram: (runtime: Runtime) => ReturnType<typeof findRuntime>
  /** Problems found in the state files, as sentences. */
  readonly notices: readonly string[]
}

/** What a session needs to know of this machine. */
export interface Machine {
  readonly performanceCores: number | undefined
  readonly hasMetal: boolean
}

/** The state of every door on a host that has no command to start the gateway. */
export const noGateway = {
  kind: 'closed',
  message:
    'The gateway is not running here, so nothing is listening at the published address: set --listen all or published.',
} as const
