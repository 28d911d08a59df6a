import type { CountersReading } from './activity.ts'
import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'
import type { HealthProbe } from './health-probe.ts'
import type { LaunchRules } from './launch.ts'
import type { LivenessTimings } from './liveness.ts'
import type { OutputLog } from './output-log.ts'
import type { Ports } from './ports.ts'
import type { ServerState } from './server-state.ts'

/** What one run of a server needs from its surroundings. */
export interface RunContext {
  readonly launch: LaunchRules
  readonly output: OutputLog
  readonly ports: Ports
  readonly platform: Pick<Platform, 'name' | 'process' | 'processGroup' | 'portListeners' | 'establishedConnections'>
  readonly probe: HealthProbe
  readonly liveness: LivenessTimings
  readonly log: Logger
  readonly now: () => number
  readonly onState: (state: ServerState) => void
  readonly onProbe: (seconds: number, healthy: boolean) => void
  /** Told of each look at its counters. */
  readonly onCounters: (reading: CountersReading) => void
}
