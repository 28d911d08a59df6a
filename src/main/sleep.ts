import { powerMonitor } from 'electron'
import type { Logger } from '../agent-core/observability/logger.ts'

export interface FollowSupplyOptions {
  readonly log: Logger
  readonly onSupply: () => Promise<void>
}

/** The system says when the plug is pulled or put in. */
export function followSupply({ log, onSupply }: FollowSupplyOptions): void {
  const tell = () => {
    onSupply().catch((error: unknown) => log.error('a change of the power supply was not followed', { error }))
  }
  powerMonitor.on('on-ac', tell)
  powerMonitor.on('on-battery', tell)
}

export interface FollowSleepOptions {
  readonly log: Logger
  readonly onSleep: (isAsleep: boolean) => Promise<void>
}

/** The system says that it sleeps shortly before it does, and when it woke. */
export function followSleep({ log, onSleep }: FollowSleepOptions): void {
  const tell = (isAsleep: boolean) => {
    onSleep(isAsleep).catch((error: unknown) => log.error('a sleep was not followed', { isAsleep, error }))
  }
  powerMonitor.on('suspend', () => tell(true))
  powerMonitor.on('resume', () => tell(false))
}
