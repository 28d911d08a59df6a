import type { HoldAwake } from '../power/stay-awake.ts'
import type { ShutdownRequest } from '../api/command.ts'
import type { GatewayCommand } from '../gateway/gateway.ts'
import type { EnergyOptions } from '../power/energy.ts'
import type { Logger } from '../observability/logger.ts'
import type { StartTurnsOptions } from '../reconcile/start-turns.ts'
import type { Platform } from '../platform/platform.ts'
import type { PowerOptions } from '../power/power.ts'
import type { LivenessTimings } from '../servers/liveness.ts'
import type { AgentSettings, LogLevel } from '../settings/settings.ts'
import type { NodeIdentity } from '../state/node-id.ts'

export interface AgentOptions {
  readonly settings: AgentSettings
  readonly platform: Platform
  readonly identity: NodeIdentity
  readonly version: string
  readonly env: NodeJS.ProcessEnv
  readonly log: Logger
  /** The Hub's token of the person at this machine, where the host keeps one; throws where it cannot be read. */
  readonly keptHubToken?: () => Promise<string | undefined>
  /** How the gateway is started that serves programs of this machine; absent = this host starts none. */
  readonly gateway?: { readonly command: GatewayCommand; readonly temporaryDir: string }
  /** True sentences about this agent that belong in every snapshot. */
  readonly notices: readonly string[]
  /** Ends the agent on request; undefined where its host does not allow that. */
  readonly onShutdown?: (request: ShutdownRequest) => void
  /** A person set how much is logged. */
  readonly onLogLevel?: (level: LogLevel) => void
  /** What keeps the system awake while models work; absent = a program of the system. */
  readonly holdAwake?: HoldAwake
  /** For tests: how often the power supply is looked at. */
  readonly supplyEveryMs?: number
  /** For tests: how soon a server that hangs is noticed. */
  readonly liveness?: LivenessTimings
  /** For tests: the jitter of the back-off after crashes. */
  readonly random?: () => number
  /** For tests: the Hub's token may go over http to this machine. */
  readonly allowInsecureLoopback?: boolean
  /** For tests: the clock by which memory pressure comes and goes, in milliseconds. */
  readonly memoryClock?: () => number
  /** For tests: how often memory is looked at, and in place of what else is constant about models that leave memory and come back. */
  readonly memoryTrial?: { readonly everyMs?: number; readonly comeBackMs?: number; readonly evictionShare?: number }
  /** For tests: how often sources are asked whether they changed. */
  readonly refreshEveryMs?: number
  /** For tests: how long a move waits for what it leaves. */
  readonly leaveLimitMs?: number
  /** For tests: how long a minute without a request is. */
  readonly idleMinuteMs?: number
  /** For tests and demonstrations: what is measured with, how long a look counts, and when its program hangs. */
  readonly powerTrial?: Partial<
    Pick<PowerOptions, 'platform' | 'commands' | 'findMacmon' | 'source' | 'lookMs' | 'stallMs'>
  >
  /** For tests: how soon models start after an unclean boot, and how long each serves before the next. */
  readonly turnsTrial?: Pick<StartTurnsOptions, 'gatherMs' | 'servedMs'>
  /** For tests: how often work is counted while nobody looks. */
  readonly energyTrial?: Pick<EnergyOptions, 'countEveryMs'>
}

/** What becomes of what runs and is published: taken down in good order, or left to the next agent on this state folder. */
export type ServersAtEnd = 'stop' | 'keep'
