import type { ObjectMeta } from '../kube/resources.ts'
import type { EventSeries } from '../kube/event-recorder.ts'
import type { FetchActivity } from './fetch-activity.ts'
import type { MemoryRefusal } from '../memory/memory.ts'
import type { Beside, Observation, Plan } from './plan.ts'
import type { Need } from './sizing.ts'

interface Displaced {
  /** As a sentence. */
  readonly why: string
  /** The key of the service it gives way to. */
  readonly winner: string
  /** Memory was looked at after all of it had ended, so that the other one can be answered truly. */
  readonly isFreed: boolean
}

/** What the reconciler remembers of one key between passes; everything else is read anew each time. */
export interface ServiceRecord {
  readonly key: string
  readonly namespace: string
  readonly name: string
  /** The object as last seen: what a deleted one left behind is removed under its uid. */
  metadata: ObjectMeta | undefined
  fetch: FetchActivity | undefined
  fetchFailures: number
  fetchRetryAt: number | undefined
  /** Of the server that was started last. */
  digest: string | undefined
  /** Of the server that was started last beside it, if any was: kept with the server's end, until it is dropped or takes over. */
  successor: { readonly digest: string; readonly startFailure?: string; startedPid?: number | undefined } | undefined
  /** A start that failed before there was a process, such as for want of a binary. */
  startFailure: string | undefined
  /** What the last start was made of beside the digest: see startInputs. */
  startInputs: string | undefined
  /** Of the failures in a row that are being told of. */
  crashEvent: EventSeries | undefined
  /** A person's wish; under way from the start of the new server until that is ready or has failed. */
  restart: 'none' | 'asked' | 'underWay'
  /** Set while it is out of memory for want of requests: the sentence that says so. */
  idle: string | undefined
  /** Why the server was asked to stop. */
  stopReason: string | undefined
  /** The server that was told of by the Ready Event. */
  toldReadyPid: number | undefined
  startedPid: number | undefined
  /** The server whose model was put down as used. */
  usedPid: number | undefined
  /** Set while the cluster does not take our writes for this service. */
  clusterRetry: { readonly at: number; readonly failures: number; readonly message: string } | undefined
  /** Set while the cluster does not take what we tell of this service. */
  reportRetry: { readonly at: number; readonly failures: number } | undefined
  last: { readonly plan: Plan; readonly observed: Observation; readonly since: number } | undefined
  /** When the service was first at rest as stopped: the controller gets a moment to say so itself. */
  stoppedAt: number | undefined
  /** The digest last asked for, and since when. */
  wanted: { readonly digest: string; readonly since: number } | undefined
  /** Since when its Model is not there, or not asked for. */
  modelMissingSince: number | undefined
  /** Message of the last refusal told as an Event. */
  toldRefusal: string | undefined
  restarts: number
  /** What the wanted server will hold. */
  need: Need | undefined
  /** Of the start that was asked for last; gone when it may be asked again. */
  refusal: (MemoryRefusal & { readonly of: string }) | undefined
  /** Since when it asks for memory in vain. */
  waitingSince: number | undefined
  /** It has a place among those that wait for memory, or may have. */
  isQueued: boolean
  /** Whether the wanted server fits beside the present one, or in its place: gone when it may be asked again. */
  swap: { readonly of: string; readonly beside: Beside; readonly instead: MemoryRefusal | undefined } | undefined
  /** It gives way to a service of higher priority. */
  displaced: Displaced | undefined
  /** Of the episode of waiting for memory that was told as an Event. */
  toldMemory: string | undefined
  /** What was written to schedulingStatus last. */
  toldScheduling: string | undefined
}

export const newRecord = (key: string): ServiceRecord => {
  const slash = key.indexOf('/')
  return {
    key,
    namespace: key.slice(0, slash),
    name: key.slice(slash + 1),
    metadata: undefined,
    fetch: undefined,
    fetchFailures: 0,
    fetchRetryAt: undefined,
    digest: undefined,
    successor: undefined,
    startFailure: undefined,
    startInputs: undefined,
    crashEvent: undefined,
    restart: 'none',
    idle: undefined,
    stopReason: undefined,
    toldReadyPid: undefined,
    startedPid: undefined,
    usedPid: undefined,
    clusterRetry: undefined,
    reportRetry: undefined,
    last: undefined,
    stoppedAt: undefined,
    wanted: undefined,
    modelMissingSince: undefined,
    toldRefusal: undefined,
    restarts: 0,
    need: undefined,
    refusal: undefined,
    waitingSince: undefined,
    isQueued: false,
    swap: undefined,
    displaced: undefined,
    toldMemory: undefined,
    toldScheduling: undefined,
  }
}
