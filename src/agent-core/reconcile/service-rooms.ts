import type { Cluster } from '../kube/cluster.ts'
import type { Memory } from '../memory/memory.ts'
import type { ApiKeys } from '../gateway/api-keys.ts'
import type { DoorState } from '../gateway/doors.ts'
import type { Models } from '../models/models.ts'
import type { Logger } from '../observability/logger.ts'
import type { StartTurns } from './start-turns.ts'
import type { Servers } from '../servers/servers.ts'
import type { WaysToPublish } from '../publishing/ways.ts'
import type { UnloadReason, UnloadReasons } from './unload-reasons.ts'
import type { Admission } from './admission.ts'
import type { Narrator } from './narrator.ts'
import type { Observation, Silence } from './plan/observation.ts'
import type { ServerLaunches } from './server-launches.ts'
import type { ServiceNames } from './reading.ts'
import type { ListenMode } from '../../contract/settings-table.ts'

export interface ServiceSettings {
  /** Names of the InferenceServices this agent may claim; empty = all. */
  readonly allowlist: readonly string[]
  readonly listen: () => ListenMode
  /** How long a minute of `metalbar.dev/idle-minutes` is. */
  readonly idleMinuteMs: number
}

/** What a session with one cluster has for its services. */
export interface SessionRooms {
  readonly cluster: Cluster
  readonly models: Models
  readonly servers: Servers
  readonly publisher: WaysToPublish
  readonly memory: Memory
  readonly unloadReasons: UnloadReasons
  readonly turns: StartTurns
  readonly narrator: Narrator
  readonly launches: ServerLaunches
  readonly settings: ServiceSettings
  /** For tests: see `ModelFetchOptions`. */
  readonly refreshEveryMs?: number | undefined
  readonly hostAddress: () => Observation['address']
  readonly apiKeys: Pick<ApiKeys, 'want' | 'forget' | 'stateOf'>
  /** Whether the gateway listens there. */
  readonly door: (address: string, port: number) => DoorState
  /** Whether LLMKube's relays reach this machine. */
  readonly ingress: { readonly state: DoorState; readonly port: number }
  readonly silenceOf: (key: string) => Silence | undefined
  readonly log: Logger
  /** Something that a snapshot shows has changed. */
  readonly onChange: () => void
}

/** What the services of one cluster share. */
export interface ServiceRooms extends SessionRooms {
  readonly admission: Admission
  readonly names: ServiceNames
  readonly enqueue: (key: string) => void
  /** The hold of a service that is given up for good because this machine moves to another cluster or namespace. */
  readonly leaving: (key: string) => Extract<UnloadReason, { kind: 'held' }> | undefined
  /** The agent is ending and decides nothing more. */
  readonly isStopped: () => boolean
  readonly now: () => number
  readonly random: () => number
}
