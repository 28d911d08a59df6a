import { type ApiError, isApiError, isDecision } from '../kube/api-error.ts'
import type { EventSeries } from '../kube/event-recorder.ts'
import type { InferenceService } from '../kube/resources.ts'
import {
  type AgentSchedulingStatus,
  agentSchedulingStatuses,
  conditionsChange,
  type ConditionWanted,
  hasCondition,
  hasStaleSchedulingStatus,
  memoryPressureCondition,
  metalAgentCondition,
  type StatusWriter,
} from '../kube/status-writer.ts'
import type { PressureLevel } from '../memory/watchdog.ts'
import { isCrashLoop, isHeld, isRunning } from './plan/facts.ts'
import type { Observation, Plan, StartObstacle } from './plan/observation.ts'
import { runtimeShown } from './desired.ts'
import type { UnloadReason } from './unload-reasons.ts'
import type { ServerRuntime } from '../servers/probe.ts'
import { jitteredMs } from '../util/back-off.ts'
import { wallTimeOf } from '../util/steady-clock.ts'
import type { ServiceReason, ServiceState } from '../../contract/service.ts'

/** First and longest wait before the next attempt at what the cluster did not do. */
const backOff = { firstMs: 500, maxMs: 30_000 }
/** Longest wait while pods are sent where no server answers. */
const longestAstrayMs = 1_000

/** When the cluster is asked again, after so many failures in a row. */
export interface ClusterRetry {
  readonly at: number
  /** No later than `at`: when what misleads pods is put right at the latest. */
  readonly urgentAt: number
  readonly failures: number
  /** It answered and refused the request: no outage. */
  readonly isRefusal: boolean
}

/** Not before the time that the cluster asked for. */
export function nextClusterRetry(
  error: ApiError,
  before: ClusterRetry | undefined,
  { now, random }: { readonly now: number; readonly random: () => number },
): ClusterRetry {
  const failures = (before?.failures ?? 0) + 1
  const waitMs = jitteredMs(backOff, failures, random)
  const urgentMs = Math.min(waitMs, longestAstrayMs * (1 - 0.5 * random()))
  const after = (ms: number): number => now + Math.max((error.retryAfterSeconds ?? 0) * 1_000, ms)
  return { failures, isRefusal: isDecision(error), at: after(waitMs), urgentAt: after(urgentMs) }
}

/** LLMKube's controller gets this long to say by itself that a service is stopped. */
const controllerGraceMs = 5_000
/** The controller writes a few times in a row when an address is withdrawn. */
const maxConflicts = 10

export interface ReportInputs {
  readonly plan: Plan
  readonly observed: Observation
  readonly service: InferenceService
  readonly unloadReason: UnloadReason | undefined
  /** The runtime of its server that runs; undefined while none does. */
  readonly runtime: ServerRuntime | undefined
  /** Memory pressure of this machine; undefined while it is unknown. */
  readonly pressure: PressureLevel | undefined
  readonly now: number
}

/** The values written to the status of one object, so that each is written once. */
interface ReportedStatus {
  /** The last message about requests that finish, without their number, which changes all the time. */
  lasting: string | undefined
  /** The value written to schedulingStatus last. */
  scheduling: string | undefined
  /** When the service was first at rest as stopped: the controller gets a moment to say so itself. */
  stoppedAt: number | undefined
  /** Uid, generation and phase of the stop that was written in the controller's place. */
  writtenStop: string | undefined
  /** Our own inputs to the last write without the claim; undefined with the claim. */
  unclaimed: string | undefined
}

/** Whether the status says, or is to say, anything of ours. */
type Due = 'nothing' | 'removal' | 'report'

export function reportDue(inputs: ReportInputs): Due {
  const { plan, observed, service } = inputs
  if (!isOursToTell(inputs)) return 'nothing'
  if (observed.desired.kind === 'notOurs') {
    // Written while it was for a Mac, or while its Model was missing: no other writer would ever correct it.
    return plan.forget && hasCondition(service) ? 'removal' : 'nothing'
  }
  return plan.forget || isOnTheWay(inputs) ? 'nothing' : 'report'
}

/**
 * Brings the object's status up to date, and writes nothing that it says already. Returns when to write again, where a write is due. Throws
 * ApiError.
 */
export async function writeReport(
  inputs: ReportInputs,
  reported: ReportedStatus,
  status: StatusWriter,
): Promise<number | undefined> {
  const { plan, service, now } = inputs
  const agent = agentCondition(inputs, reported)
  const ownInputs = isHeld(inputs.observed.publication) ? undefined : ownInputsOf(inputs, reported)
  if (ownInputs === undefined || ownInputs !== reported.unclaimed) {
    const change = conditionsChange(service, [agent, ...pressureCondition(inputs)], wallTimeOf(now))
    const current = change ? await status.writeConditions(service, change) : service
    await reportScheduling(inputs, reported, current, status)
    reported.unclaimed = ownInputs
  }
  const isAskedToStop = plan.state === 'stopped' && !stoppedByUs.has(plan.reason)
  return isAskedToStop ? reportStopped(inputs, reported, status) : undefined
}

/** Reasons of a stop that was decided here, while the cluster still asks for the service. */
const stoppedByUs: ReadonlySet<string> = new Set<ServiceReason>(['Held', 'Idle'])

/** Nothing that another agent writes: two that hold no claim and disagree would answer each other for ever. */
const ownInputsOf = (
  { service: { metadata }, plan, unloadReason, pressure }: ReportInputs,
  { lasting = plan.message }: ReportedStatus,
): string => JSON.stringify([metadata.uid, metadata.generation, plan.reason, lasting, unloadReason?.kind, pressure])

/** For an agent that will not see the answer to a conflict: the same again on what the server has by then. */
export async function sayFinally(
  status: StatusWriter,
  service: InferenceService,
  wanted: ConditionWanted,
): Promise<void> {
  let current = service
  for (let attempt = 1; ; attempt += 1) {
    const change = conditionsChange(current, [wanted], new Date())
    if (!change) return
    try {
      await status.writeConditions(current, change)
      return
    } catch (error) {
      if (!isApiError(error, 409) || attempt === maxConflicts) throw error
      current = await status.refresh(current)
    }
  }
}

function agentCondition(inputs: ReportInputs, reported: ReportedStatus): ConditionWanted {
  const { reason } = inputs.plan
  const isServing = reason === 'Serving' || reason === 'ClusterDisagrees'
  return {
    type: metalAgentCondition,
    status: isServing ? 'True' : 'False',
    reason,
    message:
      messageThatStays(inputs, reported) ?? [inputs.plan.message, ...(isServing ? servedBy(inputs) : [])].join(' '),
  }
}

function servedBy({ runtime: running, observed: { desired } }: ReportInputs): string[] {
  const { runtime, runtimeFrom } = runtimeShown(running, desired)
  if (runtime === undefined) return []
  return [`Served by ${runtime}${runtimeFrom === undefined ? '' : `, chosen by ${runtimeFrom}`}.`]
}

/** While requests finish, the first message stays: each new count would be another write. Undefined where the present one is to be written. */
function messageThatStays(
  { plan, observed, service: { metadata, status } }: ReportInputs,
  reported: ReportedStatus,
): string | undefined {
  const lasting =
    observed.drainFigures === undefined ? undefined : plan.message.replace(observed.drainFigures, () => '')
  const wasSaid = lasting !== undefined && lasting === reported.lasting
  reported.lasting = lasting
  const said = status.conditions.find(({ type }) => type === metalAgentCondition)
  if (!wasSaid || said?.reason !== plan.reason || said.observedGeneration !== metadata.generation) return undefined
  return said.message
}

/** In a crash loop the outcome of each attempt is the news, at the cost of one write: its start was announced, and its end is a moment. */
const isOnTheWay = ({ plan, observed: { desired, server } }: ReportInputs): boolean =>
  desired.kind === 'serve' &&
  ((plan.state === 'starting' && server.kind === 'starting' && isCrashLoop(server)) ||
    (plan.state === 'stopping' && server.kind === 'stopping' && server.hasEnded === true))

/** A service that another agent holds, or of which nothing is known yet, is none of our business. */
function isOursToTell({ plan, observed }: ReportInputs): boolean {
  const { kind } = observed.desired
  if (plan.state === 'foreign' || kind === 'unknown' || kind === 'gone' || kind === 'excluded') return false
  const { claim } = observed.publication
  return claim !== 'unknown' && claim !== 'foreign' && claim !== 'unclaimed' && claim !== 'overwritten'
}

/** The schedulingStatus of a service that is not served; undefined where LLMKube has no word for it. */
export function schedulingStatusOf(
  { reason }: Pick<Plan, 'reason'>,
  { fetch }: Pick<Observation, 'fetch'>,
): AgentSchedulingStatus | undefined {
  if (reason === 'ServiceNameTaken') return 'EndpointNameConflict'
  if (reason === 'FetchFailed') return fetch.kind === 'failed' ? fetch.refusal : undefined
  return agentSchedulingStatuses.find((one) => one === reason)
}

/** The controller overwrites it within moments: it is said once for what was asked for, and taken back where it would be wrong. */
async function reportScheduling(
  { plan, observed }: ReportInputs,
  reported: ReportedStatus,
  service: InferenceService,
  status: StatusWriter,
): Promise<void> {
  if (plan.state === 'ready' && hasStaleSchedulingStatus(service)) {
    await status.clearSchedulingStatus(service)
    return
  }
  const reason = schedulingStatusOf(plan, observed)
  if (reason === undefined) return
  const about = `${service.metadata.uid} ${service.metadata.generation} ${reason}`
  if (reported.scheduling === about) return
  if (service.status.schedulingStatus !== reason) await status.writeSchedulingStatus(service, reason, plan.message)
  reported.scheduling = about
}

const pressureSentences: Readonly<Record<PressureLevel, string>> = {
  normal: 'This machine is not short of memory.',
  warning: 'This machine is short of memory.',
  critical: 'This machine is critically short of memory: nothing new is started.',
}

/** The pressure condition of a service that runs here or was evicted; normal pressure is written only over an earlier condition. */
function pressureCondition({ observed, service, pressure, unloadReason }: ReportInputs): ConditionWanted[] {
  const type = memoryPressureCondition
  if (unloadReason?.kind === 'evicted')
    return [{ type, status: 'True', reason: 'Evicted', message: unloadReason.message }]
  const runs = isRunning(observed.server)
  const before = service.status.conditions.some((one) => one.type === type)
  if (!runs || pressure === undefined || (pressure === 'normal' && !before)) return []
  const reason = `${pressure.charAt(0).toUpperCase()}${pressure.slice(1)}`
  return [{ type, status: pressure === 'normal' ? 'False' : 'True', reason, message: pressureSentences[pressure] }]
}

/** Said once: where it says something else after that there is a controller, and the two would answer each other for ever. */
async function reportStopped(
  { plan, service, now }: ReportInputs,
  reported: ReportedStatus,
  status: StatusWriter,
): Promise<number | undefined> {
  const phase = plan.reason === 'Suspended' ? 'Suspended' : 'Stopped'
  const { metadata, status: current } = service
  const about = `${metadata.uid} ${metadata.generation} ${phase}`
  if (reported.writtenStop === about) return undefined
  if (current.phase === phase && current.readyReplicas === 0 && current.desiredReplicas === 0) return undefined
  reported.stoppedAt ??= now
  const due = reported.stoppedAt + controllerGraceMs
  if (now < due) return due
  await status.writeStopped(service, phase)
  reported.writtenStop = about
  return undefined
}

/** What was reported about one service, so that each transition is reported once. */
export interface ReportedState extends ReportedStatus {
  /** Uid of the object that these reports were about. */
  uid: string | undefined
  state: ServiceState | undefined
  reason: ServiceReason | undefined
  started: readonly number[]
  answered: readonly number[]
  /** The server of the latest Ready Event. */
  publishedLife: number | undefined
  /** Why its server was asked to stop, until that has ended. */
  stopReason: string | undefined
  /** The Event of the current failures in a row. */
  crashes: EventSeries | undefined
  /** Message of the refusal that was reported. */
  refusal: string | undefined
  /** Why it was not started, as it was reported. */
  obstacle: StartObstacle | undefined
  /** What could not be ended, as it was reported. */
  left: string | undefined
  reportRetry: ClusterRetry | undefined
  /** That a status could not be written, since it last could. */
  isFailureLogged: boolean
}

/** A re-created object starts without reports, except of servers that still run for its predecessor. */
export function reportedAfter(known: ReportedState | undefined, uid: string | undefined): ReportedState {
  const { state, reason, started = [], answered = [], stopReason } = known ?? {}
  return { ...nothingReported(uid), state, reason, started, answered, stopReason }
}

/** A crash and the start after it are known by their lives. */
export const livesKept = 2

const nothingReported = (uid: string | undefined): ReportedState => ({
  uid,
  state: undefined,
  reason: undefined,
  started: [],
  answered: [],
  publishedLife: undefined,
  stopReason: undefined,
  crashes: undefined,
  refusal: undefined,
  obstacle: undefined,
  left: undefined,
  reportRetry: undefined,
  isFailureLogged: false,
  lasting: undefined,
  scheduling: undefined,
  stoppedAt: undefined,
  writtenStop: undefined,
  unclaimed: undefined,
})
