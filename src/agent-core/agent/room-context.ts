import type { AgentOptions } from './agent-options.ts'
import type { ClusterSession } from '../cluster/cluster-session.ts'
import type { AgentMetrics } from '../observability/metrics/agent-metrics.ts'
import { findMacmon } from '../power/macmon.ts'
import { findLlamaServer, type Binary } from '../runtimes/llama-server-binary.ts'
import type { AgentSettings } from '../settings/settings.ts'
import type { SnapshotStore } from './snapshot/snapshot-store.ts'
import type { Executable } from '../util/find-executable.ts'

/** What every room is built with. A room registers its part of the snapshot with `snapshots` and its end with `ends`. */
export interface RoomContext {
  readonly options: AgentOptions
  readonly metrics: AgentMetrics
  readonly snapshots: SnapshotStore
  /** Ends the rooms in the reverse order of their beginning. */
  readonly ends: AsyncDisposableStack
  /** What counts now: what the agent was started with, and what a person set since. */
  readonly settings: () => AgentSettings
  /** Undefined while there is no usable kubeconfig. */
  readonly session: () => ClusterSession | undefined
}

/** Looked for at each call: an installation while the agent runs counts. */
export function llamaServer({ options: { platform, env }, settings }: RoomContext): Promise<Binary> {
  return findLlamaServer({ given: settings().llamaServer, system: platform.name, path: env['PATH'] })
}

/** The same for macmon. */
export function macmon({ options: { platform, env }, settings }: RoomContext): Promise<Executable> {
  return findMacmon({ given: settings().macmon, system: platform.name, path: env['PATH'] })
}
