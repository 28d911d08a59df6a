import type { ServiceReason, ServiceState } from '../../contract/service.ts'
import type { EventSeries } from '../kube/event-recorder.ts'
import type { ServerRole } from '../servers/server-state.ts'
import type { ClusterRetry } from './cluster-retry.ts'
import type { StartObstacle } from './plan/observation.ts'
import type { ReportMemory } from './status-report.ts'

/** What was told of one service, so that each transition is told once. */
export interface Told extends ReportMemory {
  /** Of the object that was told of. */
  uid: string | undefined
  state: ServiceState | undefined
  reason: ServiceReason | undefined
  started: readonly number[]
  answered: readonly number[]
  /** The server of the latest Ready Event. */
  publishedPid: number | undefined
  readonly stopReasons: Partial<Record<ServerRole, string | undefined>>
  /** Of the failures in a row that are being told of. */
  crashes: EventSeries | undefined
  /** Message of the refusal that was told. */
  refusal: string | undefined
  /** Why it was not started, as it was told. */
  obstacle: StartObstacle | undefined
  /** What could not be ended, as it was told. */
  left: string | undefined
  reportRetry: ClusterRetry | undefined
  /** That a status could not be written, since it last could. */
  isReportFailureTold: boolean
}

/** What was told of each service. */
export class ToldServices {
  readonly #told = new Map<string, Told>()

  /** A re-created object is told of anew; what runs for its predecessor was started only once. */
  of(key: string, uid: string | undefined): Told {
    const known = this.#told.get(key)
    if (known && (uid === undefined || known.uid === undefined || known.uid === uid)) {
      known.uid ??= uid
      return known
    }
    const { state, reason, started = [], answered = [], stopReasons = {} } = known ?? {}
    const told = { ...nothingTold(uid), state, reason, started, answered, stopReasons }
    this.#told.set(key, told)
    return told
  }

  values(): Iterable<Told> {
    return this.#told.values()
  }

  forget(key: string): void {
    this.#told.delete(key)
  }

  forgetWhere(isLeft: (key: string) => boolean): void {
    for (const key of this.#told.keys()) if (isLeft(key)) this.#told.delete(key)
  }
}

/** A crash and the start after it are known by their pids; a service has two servers at most. */
export const pidsKept = 2

const nothingTold = (uid: string | undefined): Told => ({
  uid,
  state: undefined,
  reason: undefined,
  started: [],
  answered: [],
  publishedPid: undefined,
  stopReasons: {},
  crashes: undefined,
  refusal: undefined,
  obstacle: undefined,
  left: undefined,
  reportRetry: undefined,
  isReportFailureTold: false,
  lasting: undefined,
  scheduling: undefined,
  stoppedAt: undefined,
  stoppedSaid: undefined,
  unclaimed: undefined,
})
