import type { History } from '../history/history.ts'
import { isApiError } from '../kube/api-error.ts'
import type { Cluster } from '../kube/cluster.ts'
import type { EventRecorder } from '../kube/event-recorder.ts'
import type { InferenceService } from '../kube/resources.ts'
import { metalAgentCondition, type StatusWriter } from '../kube/status-writer.ts'
import type { Logger } from '../observability/logger.ts'
import { crashLoopMessage, isCrashLoop, isForeign } from './plan/facts.ts'
import type { Plan, StartObstacle } from './plan/observation.ts'
import {
  nextClusterRetry,
  livesKept,
  reportDue,
  type ReportInputs,
  sayFinally,
  type ReportedState,
  reportedAfter,
  writeReport,
  schedulingStatusOf,
} from './status-report.ts'
import { tellingOf, type Transition } from './transitions.ts'
import { lifeOf, type Exited, type ServerState } from '../servers/server-state.ts'
import type { Servers } from '../servers/servers.ts'
import { splitKey } from '../util/object-key.ts'
import { steadyNow, wallTimeOf } from '../util/steady-clock.ts'
import type { ServiceReason, ServiceState } from '../../contract/service.ts'

/** Log level of the line that reports the state of a service. */
const levelOf = (state: ServiceState, reason: ServiceReason): 'debug' | 'info' | 'warn' =>
  troubles.has(reason) ? 'warn' : passing.has(state) ? 'debug' : 'info'

/** Reasons that a person should look at. */
const troubles = new Set<ServiceReason>([
  'FetchFailed',
  'StartFailed',
  'CrashLooping',
  'Refused',
  'ExtraArgsRejected',
  'EnvironmentRejected',
  'ModelMissing',
  'ServiceNameTaken',
  'ServiceNameTooLong',
  'NoHostAddress',
  'NoGateway',
  'NoApiKey',
  'ClaimOverwritten',
  'ClusterDisagrees',
])

/** States on the way to another one, already visible in the log lines of the step that is taken. */
const passing = new Set<ServiceState>(['fetching', 'starting', 'stopping'])

/** Where Events and statuses go. */
interface NarratedCluster {
  readonly cluster: Pick<Cluster, 'inferenceServices'>
  readonly events: EventRecorder
  readonly status: StatusWriter
}

interface NarratorOptions {
  readonly log: Logger
  readonly history: Pick<History, 'add'>
  readonly servers: Pick<Servers, 'backOff' | 'get' | 'runtimeOf'>
  /** Undefined while there is no cluster to tell. */
  readonly cluster: () => NarratedCluster | undefined
  /** Why the service is being stopped, as a sentence. */
  readonly whyStopped: (key: string) => string | undefined
  readonly now?: () => number
  readonly random?: () => number
}

/**
 * Tells people what happens to the services of this machine: each transition once as a log line, once as an Event, once in the history and
 * once as a condition, however often it is looked at. It alone remembers what was reported.
 */
export class Narrator {
  readonly #options: NarratorOptions
  readonly #reported = new Map<string, ReportedState>()
  readonly #now: () => number
  readonly #random: () => number
  #isLeaving = false

  constructor(options: NarratorOptions) {
    this.#options = options
    this.#now = options.now ?? steadyNow
    this.#random = options.random ?? Math.random
  }

  tell(key: string, transition: Transition): void {
    const { log, history } = this.#options
    const { namespace, name } = splitKey(key)
    const telling = tellingOf(transition)
    if (telling.log) {
      const { level, message, fields } = telling.log
      log[level](message, { namespace, name, ...fields })
    }
    if (telling.event && !this.#isLeaving) {
      const service = this.#object(key)
      if (service) this.#options.cluster()?.events.record(service.metadata, telling.event)
    }
    if (telling.history) history.add({ ...telling.history, service: { namespace, name } })
  }

  /** To be called on every change of a server, whatever caused it. */
  serverChanged(key: string, state: ServerState): void {
    const reported = this.#reportedOf(key)
    switch (state.kind) {
      case 'starting':
      case 'loading':
        this.#started(key, reported, state)
        return
      case 'ready':
        this.#started(key, reported, state)
        this.#answered(key, reported, state)
        return
      case 'stopping':
        if (state.hangs !== undefined) this.#left(key, reported, state.hangs)
        else if (state.cause === 'stopped') reported.stopReason = this.#options.whyStopped(key)
        return
      case 'exited':
        if (state.left !== undefined) this.#left(key, reported, state.left)
        if (state.settled) this.#ended(key, reported, state)
        return
      case 'failedToSpawn':
        this.#failed(key, { outOf: 'start', why: state.message, hadProcess: true }, state.failures > 0)
    }
  }

  /** A start failed before there was a process, such as for want of a binary. */
  startFailed(key: string, why: string): void {
    this.#failed(key, { outOf: 'start', why, hadProcess: false }, true)
  }

  published(key: string, { address, port }: { readonly address: string; readonly port: number }): void {
    const { servers } = this.#options
    const reported = this.#reportedOf(key)
    const state = servers.get(key)
    const life = state?.kind === 'ready' && state.port === port ? lifeOf(state) : undefined
    if (life === undefined || reported.publishedLife === life) return
    reported.publishedLife = life
    this.tell(key, { kind: 'published', address, port })
  }

  /** Once for as long as it waits for this reason, over restarts of the agent as well. */
  notStarted(key: string, reason: Exclude<StartObstacle, 'StartsInTurn'>, message: string): void {
    const reported = this.#reportedOf(key)
    if (reported.obstacle === reason) return
    reported.obstacle = reason
    if (this.#condition(key)?.reason === reason) return
    this.tell(key, { kind: 'notStarted', reason: reason === 'MemoryPressure' ? 'RespawnBlocked' : reason, message })
  }

  /** Nothing blocks its start now: the next obstacle is reported again, even the same one. */
  mayStart(key: string): void {
    this.#reportedOf(key).obstacle = undefined
  }

  /** The line that says in which state a service is, when that has changed. */
  planned(key: string, { state, reason, message, forget }: Plan): void {
    const reported = this.#reportedOf(key)
    if (reported.state === state && reported.reason === reason) return
    Object.assign(reported, { state, reason })
    if (state !== 'stopped') reported.stoppedAt = undefined
    if (forget) return
    this.#options.log[levelOf(state, reason)]('state', { key, state, reason, message })
  }

  /**
   * Brings the object's status up to date. Nothing depends on a status: one that cannot be written is retried by itself and holds up
   * nothing. Returns when to write again, where a write is due.
   */
  async report(key: string, inputs: ReportInputs): Promise<number | undefined> {
    const { status } = this.#options.cluster() ?? {}
    const reported = this.#reportedOf(key, inputs.service.metadata.uid)
    const now = this.#now()
    // That agent writes the same conditions, so ours from before its time are written again after it.
    if (isForeign(inputs.observed.publication)) reported.unclaimed = undefined
    if (!status) return undefined
    if (reported.reportRetry && reported.reportRetry.at > now) return reported.reportRetry.at
    const due = reportDue(inputs)
    if (due === 'nothing') return undefined
    if (due === 'report') this.#refused(key, reported, inputs)
    try {
      if (due === 'removal') await status.removeConditions(inputs.service)
      const again = due === 'report' ? await writeReport(inputs, reported, status) : undefined
      reported.reportRetry = undefined
      reported.isFailureLogged = false
      return again
    } catch (error) {
      if (!isApiError(error)) throw error
      // Its end is on its way to us and brings the key back; a newer version may be none that does.
      if (isApiError(error, 404)) return undefined
      reported.reportRetry = nextClusterRetry(error, reported.reportRetry, { now, random: this.#random })
      const { at } = reported.reportRetry
      // In conflict with another write: the version to write on is on its way to us, later where the watch is interrupted.
      if (!reported.isFailureLogged && !isApiError(error, 409)) {
        reported.isFailureLogged = true
        this.#options.log.warn('status not written', { key, error, retryAt: wallTimeOf(at).toISOString() })
      }
      return at
    }
  }

  /** The cluster answers again: what could not be written is tried at once. */
  retryReports(): void {
    for (const reported of this.#reported.values()) reported.reportRetry = undefined
  }

  /** The last word about a service: an agent that is gone corrects nothing that it said. */
  async sayStopped(key: string, displayName: string): Promise<void> {
    const { status } = this.#options.cluster() ?? {}
    const service = this.#object(key)
    if (!service || !status) return
    const message = `The agent on ${displayName} was stopped; the next agent that may serve this service takes it.`
    await sayFinally(status, service, {
      type: metalAgentCondition,
      status: 'False',
      reason: 'Stopped',
      message,
    }).catch((error: unknown) => this.#options.log.warn('status not written', { key, error }))
  }

  /** The agent ends: the last condition of each service says so, not an Event for each server that is stopped. */
  leave(): void {
    this.#isLeaving = true
  }

  forget(key: string): void {
    this.#reported.delete(key)
  }

  forgetWhere(isLeft: (key: string) => boolean): void {
    for (const key of this.#reported.keys()) if (isLeft(key)) this.#reported.delete(key)
  }

  #started(
    key: string,
    reported: ReportedState,
    state: Extract<ServerState, { kind: 'starting' | 'loading' | 'ready' }>,
  ): void {
    const [life, { pid, port }] = [lifeOf(state), state]
    if (life === undefined || port === undefined || reported.started.includes(life)) return
    reported.started = [...reported.started, life].slice(-livesKept)
    const unasked = state.kind === 'starting' && state.unasked
    if (unasked === true) reported.publishedLife = life
    const runtime = this.#options.servers.runtimeOf(key)
    this.tell(key, { kind: 'started', runtime, pid, port, isFound: unasked === true })
  }

  #answered(key: string, reported: ReportedState, state: Extract<ServerState, { kind: 'ready' }>): void {
    const life = lifeOf(state)
    if (life === undefined || reported.answered.includes(life)) return
    reported.answered = [...reported.answered, life].slice(-livesKept)
    this.tell(key, { kind: 'answered', port: state.port })
  }

  /** Reports leftover processes once, however often ending them is tried again. */
  #left(key: string, reported: ReportedState, message: string): void {
    if (reported.left === message) return
    reported.left = message
    this.tell(key, { kind: 'leftBehind', message })
  }

  #ended(key: string, reported: ReportedState, { cause, message, outOf }: Exited): void {
    reported.left = undefined
    const why = reported.stopReason
    reported.stopReason = undefined
    if (cause === 'stopped') this.tell(key, { kind: 'stopped', why: why ?? message })
    else this.#failed(key, { outOf, why: message, hadProcess: true }, true)
  }

  /** The first failure is an Event of its own; those that follow in a row are one, which counts them. */
  #failed(
    key: string,
    failure: { readonly outOf: 'start' | 'serving'; readonly why: string; readonly hadProcess: boolean },
    isFinal: boolean,
  ): void {
    const reported = this.#reportedOf(key)
    const { failures, retryAt } = this.#options.servers.backOff(key) ?? { failures: 1, retryAt: this.#now() }
    const isCounted = isCrashLoop({ failures })
    this.tell(key, { kind: 'failed', ...failure, isCounted: isCounted || !isFinal })
    if (!isCounted) reported.crashes = undefined
    else if (isFinal) this.#countCrash(key, reported, { failures, nextStartAt: retryAt, message: failure.why })
  }

  #countCrash(key: string, reported: ReportedState, failure: Parameters<typeof crashLoopMessage>[0]): void {
    const { events } = this.#options.cluster() ?? {}
    const service = this.#object(key)
    if (!service || !events) return
    reported.crashes ??= events.series(service.metadata, { type: 'Warning', reason: 'CrashLooping' })
    reported.crashes.tell(crashLoopMessage(failure), failure.failures)
  }

  /** Once per refusal, also over restarts of the agent: the condition on the object remembers it. */
  #refused(key: string, reported: ReportedState, { plan, observed }: ReportInputs): void {
    const { state, reason, message } = plan
    if (state !== 'refused' && reason !== 'ModelMissing') {
      reported.refusal = undefined
      return
    }
    if (reported.refusal === message) return
    reported.refusal = message
    const known = this.#condition(key)
    if (known?.message === message && known.reason === reason) return
    // A model that cannot be fetched was reported when the fetch failed.
    const rule = reason === 'EnvironmentRejected' ? reason : schedulingStatusOf(plan, observed)
    if (state === 'refused')
      this.tell(key, { kind: 'refused', message, ...(rule && { rule }), isReportedBefore: reason === 'FetchFailed' })
    else this.tell(key, { kind: 'modelMissing', message })
  }

  #condition(key: string) {
    return this.#object(key)?.status.conditions.find(({ type }) => type === metalAgentCondition)
  }

  #reportedOf(key: string, uid = this.#object(key)?.metadata.uid): ReportedState {
    const known = this.#reported.get(key)
    if (known && (uid === undefined || known.uid === undefined || known.uid === uid)) {
      known.uid ??= uid
      return known
    }
    const reported = reportedAfter(known, uid)
    this.#reported.set(key, reported)
    return reported
  }

  #object(key: string): InferenceService | undefined {
    const { namespace, name } = splitKey(key)
    return this.#options.cluster()?.cluster.inferenceServices.get(namespace, name)
  }
}
