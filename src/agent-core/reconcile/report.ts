import type { Hold } from '../../contract/service.ts'
import { isApiError } from '../kube/api-error.ts'
import type { EventRecorder } from '../kube/event-recorder.ts'
import type { InferenceService } from '../kube/resources.ts'
import {
  agentSchedulingStatuses,
  conditionsChange,
  hasCondition,
  hasStaleSchedulingStatus,
  memoryPressureCondition,
  metalAgentCondition,
  type ConditionWanted,
  type StatusWriter,
} from '../kube/status-writer.ts'
import type { PressureLevel } from '../memory/pressure.ts'
import { withoutDrainFigures } from './observe.ts'
import { isCrashLoop, isUnsettled, type Observation, type Plan } from './plan.ts'
import type { ServiceRecord } from './service-record.ts'

/** LLMKube's controller gets this long to say by itself that a service is stopped. */
const controllerGraceMs = 5_000
/** The controller writes a few times in a row when an address is withdrawn. */
const maxConflicts = 10

export interface ReportInputs {
  readonly record: ServiceRecord
  readonly plan: Plan
  readonly observed: Observation
  readonly service: InferenceService
  readonly hold: Hold | undefined
  readonly status: StatusWriter
  readonly events: EventRecorder
  /** Of the memory of this machine; undefined while nobody knows it. */
  readonly pressure: PressureLevel | undefined
  readonly now: number
}

/**
 * Brings the object's status to what is so, and writes nothing that it says already. Returns the time of the next
 * look, where one is owed.
 */
export async function report(inputs: ReportInputs): Promise<number | undefined> {
  const { plan, observed, service, status, now } = inputs
  if (isUnsettled(observed)) return undefined
  if (!isOursToTell(inputs)) return undefined
  if (observed.desired.kind === 'notOurs') {
    // From a time when it was for a Mac, or its Model was not there yet: nobody would ever correct it.
    if (plan.forget && hasCondition(service)) await status.removeConditions(service)
    return undefined
  }
  if (plan.forget || isOnTheWay(inputs)) return undefined
  tellRefusal(inputs)
  const about: ConditionWanted = {
    type: metalAgentCondition,
    status: plan.reason === 'Serving' ? 'True' : 'False',
    reason: plan.reason,
    message: messageFor(inputs),
  }
  const change = conditionsChange(service, [about, ...pressureCondition(inputs)], new Date(now))
  const current = change ? await status.writeConditions(service, change) : service
  await reportScheduling(inputs, current)
  const isAskedToStop = plan.state === 'stopped' && plan.reason !== 'Held' && plan.reason !== 'Idle'
  return isAskedToStop ? reportStopped(inputs) : undefined
}

/** For one who will not see the answer to a conflict: the same again on what the server has by then. */
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

/** In a crash loop the outcome of each attempt is the news, at the cost of one write: its start was announced, and its end is a moment. */
const isOnTheWay = ({ plan, observed: { desired, server } }: ReportInputs): boolean =>
  desired.kind === 'serve' &&
  ((plan.state === 'starting' && server.kind === 'starting' && isCrashLoop(server)) ||
    (plan.state === 'stopping' && server.kind === 'stopping' && server.hasEnded === true))

/** Of requests that finish, what was said first stays until something else is to be said. */
function messageFor({ plan: { reason, message }, service: { metadata, status } }: ReportInputs): string {
  const said = status.conditions.find(({ type }) => type === metalAgentCondition)
  if (said?.reason !== reason || said.observedGeneration !== metadata.generation) return message
  const lasting = withoutDrainFigures(message)
  return lasting !== undefined && lasting === withoutDrainFigures(said.message) ? said.message : message
}

/** A service that another agent holds, or of which nothing is known yet, is none of our business. */
function isOursToTell({ plan, observed }: ReportInputs): boolean {
  const { kind } = observed.desired
  if (plan.state === 'foreign' || kind === 'unknown' || kind === 'gone' || kind === 'excluded') return false
  if (observed.publication.claim === 'unknown') return false
  const { claim } = observed.publication
  return claim !== 'foreign' && claim !== 'unclaimed' && claim !== 'overwritten'
}

/** Once per refusal, also over restarts of the agent: the condition on the object remembers it. */
function tellRefusal({ record, plan, service, events }: ReportInputs): void {
  // A model that cannot be fetched was told when the fetch failed.
  if ((plan.state !== 'refused' && plan.reason !== 'ModelMissing') || plan.reason === 'FetchFailed') {
    record.toldRefusal = undefined
    return
  }
  if (record.toldRefusal === plan.message) return
  record.toldRefusal = plan.message
  const known = service.status.conditions.find(({ type }) => type === metalAgentCondition)
  if (known?.message === plan.message && known.reason === plan.reason) return
  events.record(service.metadata, { type: 'Warning', reason: 'Refused', message: plan.message })
}

/** The controller overwrites it within moments: it is said once for what was asked for, and taken back where it would be wrong. */
async function reportScheduling({ record, plan, status }: ReportInputs, service: InferenceService): Promise<void> {
  if (plan.state === 'ready' && hasStaleSchedulingStatus(service)) {
    await status.clearSchedulingStatus(service)
    return
  }
  const reason = agentSchedulingStatuses.find((one) => one === plan.reason)
  if (reason === undefined) return
  const told = `${service.metadata.uid} ${service.metadata.generation} ${reason}`
  if (record.toldScheduling === told) return
  record.toldScheduling = told
  if (service.status.schedulingStatus !== reason) await status.writeSchedulingStatus(service, reason, plan.message)
}

const pressureSentences: Readonly<Record<PressureLevel, string>> = {
  normal: 'The memory of this machine is not short.',
  warning: 'The memory of this machine is short.',
  critical: 'The memory of this machine is critically short: nothing new is started.',
}

/** Of what runs here or was evicted; that memory is not short is only said where something else was said before. */
function pressureCondition({ observed, service, pressure, hold }: ReportInputs): ConditionWanted[] {
  const type = memoryPressureCondition
  if (hold?.by === 'pressure') return [{ type, status: 'True', reason: 'Evicted', message: hold.message }]
  const runs = [observed.server, observed.successor].some(({ kind }) => runningKinds.has(kind))
  const before = service.status.conditions.some((one) => one.type === type)
  if (!runs || pressure === undefined || (pressure === 'normal' && !before)) return []
  const reason = `${pressure.charAt(0).toUpperCase()}${pressure.slice(1)}`
  return [{ type, status: pressure === 'normal' ? 'False' : 'True', reason, message: pressureSentences[pressure] }]
}

const runningKinds: ReadonlySet<string> = new Set(['starting', 'ready', 'unready'])

async function reportStopped({ record, plan, service, status, now }: ReportInputs): Promise<number | undefined> {
  const phase = plan.reason === 'Suspended' ? 'Suspended' : 'Stopped'
  const { status: current } = service
  if (current.phase === phase && current.readyReplicas === 0 && current.desiredReplicas === 0) return undefined
  record.stoppedAt ??= now
  const due = record.stoppedAt + controllerGraceMs
  if (now < due) return due
  await status.writeStopped(service, phase)
  return undefined
}
