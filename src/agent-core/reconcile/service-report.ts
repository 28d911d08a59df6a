import type { Hold } from '../../contract/service.ts'
import type { InferenceService, Model } from '../kube/resources.ts'
import type { ServerRuntime } from '../servers/probe.ts'
import type { Exited, ServerState } from '../servers/server-state.ts'
import { splitKey } from '../util/object-key.ts'
import { type UnloadReason, type UnloadReasons, holdOf } from './unload-reasons.ts'
import type { Draft } from './draft.ts'
import type { AdmissionReport } from './admission.ts'
import { runtimeShown } from './desired.ts'
import type { ModelFetch } from './model-fetch.ts'
import type { Observation, Plan } from './plan/observation.ts'
import { modelOf } from './reading.ts'
import type { ServiceRooms } from './service-rooms.ts'

/** What a snapshot and commands need to know of one service. */
export interface ServiceReport {
  readonly key: string
  readonly namespace: string
  readonly name: string
  /** Uid of the object as last seen. */
  readonly uid: string | undefined
  readonly plan: Plan
  readonly observed: Observation
  readonly since: number
  readonly server: ServerState | undefined
  readonly runtime?: ServerRuntime
  /** What decided for it. */
  readonly runtimeFrom?: string
  /** What the server that is wanted drafts with. */
  readonly draft?: Draft | undefined
  /** Exit of the last server that ended without being asked to. */
  readonly lastFailure: Exited | undefined
  /** Failures in a row. */
  readonly failures: number
  readonly restarts: number
  readonly service: InferenceService | undefined
  readonly model: Model | undefined
  /** Absent where no server was started yet. */
  readonly logFile: string | undefined
  readonly unloadReason: UnloadReason | undefined
  readonly hold: Hold | undefined
  readonly fetch: Pick<ModelFetch, 'progress' | 'isRunning'>
  readonly admission: AdmissionReport
  /** What the running server was expected to need when it was started. */
  readonly needBytes: number | undefined
  readonly isProtected: boolean
}

/** What the managed service itself knows; the rest is asked of the rooms. */
type Known = Pick<ServiceReport, 'key' | 'uid' | 'plan' | 'observed' | 'since' | 'restarts' | 'unloadReason' | 'fetch'>

export function serviceReport(
  { servers, cluster, unloadReasons, admission }: ServiceRooms,
  known: Known,
): ServiceReport {
  const { key, unloadReason } = known
  const { namespace, name } = splitKey(key)
  const service = cluster.inferenceServices.get(namespace, name)
  return {
    ...known,
    namespace,
    name,
    server: servers.get(key),
    ...runtimeShown(servers.runningRuntimeOf(key), known.observed.desired),
    draft: known.observed.desired.kind === 'serve' ? known.observed.desired.draft : undefined,
    lastFailure: servers.lastFailure(key),
    failures: servers.backOff(key)?.failures ?? 0,
    service,
    model: service && modelOf(cluster, service),
    logFile: servers.logFileOf(key),
    hold: holdOf(unloadReason),
    admission: admission.report(key),
    needBytes: servers.factsOf(key)?.needBytes,
    isProtected: isProtected(unloadReasons, service),
  }
}

/** Whether its specification, or a person on this machine, protects it from eviction. */
export const isProtected = (unloadReasons: UnloadReasons, service: InferenceService | undefined): boolean =>
  service !== undefined && (service.spec.value.evictionProtection || unloadReasons.isProtected(service.metadata.uid))
