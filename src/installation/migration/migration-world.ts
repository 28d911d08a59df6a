import type { AgentSnapshot } from '../../contract/snapshot.ts'
import type { Platform } from '../../agent-core/platform/platform.ts'
import type { InstallationHost } from '../installation-host.ts'

/** The service that keeps our agent running. Every method throws InstallationError. */
export interface OwnService {
  /** Flags of the agent as `--name=value`. */
  install(flags: readonly string[]): Promise<void>
  /** Ends the agent with its servers and gives its services back. */
  uninstall(): Promise<void>
  /** Another process takes the running servers over. */
  restart(): Promise<void>
}

/** What a migration may touch. */
export interface MigrationWorld {
  readonly host: InstallationHost
  readonly platform: Pick<Platform, 'processes' | 'isRunning' | 'memory' | 'interfaces'>
  readonly service: OwnService
  readonly stateDir: string
  /** Where our agent keeps models unless told. */
  readonly ownStore: string
  readonly ownLog: string
  /** Of our agent; undefined where none answers. */
  readonly ownAgent: () => Promise<AgentSnapshot | undefined>
  /** One sentence about flags that our agent would not start with. */
  readonly checkFlags: (flags: readonly string[]) => string | undefined
  readonly tell: (sentence: string) => void
  /** A person gave up: what was begun is taken back. */
  readonly signal: AbortSignal
}
