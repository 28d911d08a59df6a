import type { Hold } from '../../contract/service.ts'
import { isApiError, rootMessage } from '../kube/api-error.ts'
import type { Cluster } from '../kube/cluster.ts'
import { splitKey } from '../support/object-key.ts'
import type { InferenceService, Model, ObjectMeta } from '../kube/resources.ts'
import { metalAgentCondition } from '../kube/status-writer.ts'
import type { Memory } from '../memory/memory.ts'
import type { Models } from '../models/models.ts'
import type { Logger } from '../observability/logger.ts'
import type { IdleWatch } from '../process/idle-watch.ts'
import type { PortPolicy } from '../process/launch.ts'
import type { ServerRole } from '../process/server-state.ts'
import type { Servers } from '../process/servers.ts'
import { isOver, type Exited, type ServerState } from '../process/server-state.ts'
import type { Publisher } from '../publishing/publisher.ts'
import type { WriteResult } from '../publishing/write-result.ts'
import { holdOf, isShedding, type Absence } from './absence.ts'
import type { Absences, AbsenceTarget } from './absences.ts'
import type { Admission, AdmissionReport } from './admission.ts'
import { annotationKeys } from './annotations.ts'
import { disagreement } from './cluster-agreement.ts'
import { nextClusterRetry, type ClusterRetry } from './cluster-retry.ts'
import type { Desired } from './desired.ts'
import { ModelFetch } from './model-fetch.ts'
import { fetchRequest } from './model-request.ts'
import type { Narrator } from './narrator.ts'
import { drainFigures, publicationView } from './observe.ts'
import {
  plan,
  type Beside,
  type MemoryReason,
  type Observation,
  type Plan,
  type ServerView,
  type Step,
} from './plan.ts'
import { modelOf, noDurations, read, type Durations, type Reading } from './reading.ts'
import { sleepsWhenIdle } from './runtime-choice.ts'
import type { ServerLaunches } from './server-launches.ts'
import { pidOf, ServerStarts } from './server-starts.ts'
import type { ServiceNames } from './service-names.ts'

/** No honest story has more steps than this without waiting for something; more means two rules disagree. */
const maxStepsPerPass = 30

/** A model that has to go lets its requests finish for a few seconds: memory is what is short. */
const shedDrainMs = 5_000

export interface ServiceSettings {
  /** Names of the InferenceServices this agent may claim; empty = all. */
  readonly allowlist: readonly string[]
  readonly port: PortPolicy
  /** How often the source of a Model with `refreshPolicy: OnChange` is asked, in milliseconds. */
  readonly refreshEveryMs: () => number
  /** How long a minute of `metalbar.dev/idle-minutes` is. */
  readonly idleMinuteMs: number
}

/** What the services of one cluster share. */
export interface ServiceRooms {
  readonly cluster: Cluster
  readonly models: Models
  readonly servers: Servers
  readonly publisher: Publisher
  readonly memory: Pick<Memory, 'view'>
  readonly absences: Absences
  readonly admission: Admission
  readonly narrator: Narrator
  readonly launches: ServerLaunches
  readonly idle: IdleWatch
  readonly names: Pick<ServiceNames, 'sharing'>
  readonly settings: ServiceSettings
  readonly hostAddress: () => { readonly ip: string | undefined; readonly message: string }
  readonly log: Logger
  readonly enqueue: (key: string) => void
  /** Something that a snapshot shows has changed. */
  readonly onChange: () => void
  /** Of all services, when this machine leaves the cluster for good. */
  readonly leaving: () => Extract<Absence, { kind: 'held' }> | undefined
  /** The agent decides nothing any more. */
  readonly isStopped: () => boolean
  readonly now: () => number
  readonly random: () => number
}

/** What a snapshot and commands need to know of one service. */
export interface ServiceReport {
  readonly key: string
  readonly namespace: string
  readonly name: string
  /** Of the object as last seen. */
  readonly uid: string | undefined
  readonly plan: Plan
  readonly observed: Observation
  readonly since: number
  readonly server: ServerState | undefined
  /** The server whose place was taken, until it is gone. */
  readonly retiring: ServerState | undefined
  /** Of the last server that ended without being asked to. */
  readonly lastFailure: Exited | undefined
  /** In a row. */
  readonly failures: number
  readonly restarts: number
  readonly service: InferenceService | undefined
  readonly model: Model | undefined
  /** Absent where no server was started yet. */
  readonly logFile: string | undefined
  readonly absence: Absence | undefined
  readonly hold: Hold | undefined
  readonly fetch: Pick<ModelFetch, 'progress' | 'isRunning'>
  readonly admission: AdmissionReport
  /** Of the server that runs, as expected at its start. */
  readonly needBytes: number | undefined
  readonly isProtected: boolean
}

/** When the key wants its next pass, or that nothing of it is left. */
export type Rest = { readonly kind: 'rest'; readonly again: number | undefined } | { readonly kind: 'gone' }

/**
 * Makes what runs and what is published agree with what the cluster asks for one service, from the level of things and never from an
 * event: read, plan, take one step, read again.
 */
export class ManagedService {
  readonly key: string
  readonly #namespace: string
  readonly #name: string
  readonly #rooms: ServiceRooms
  readonly #fetch: ModelFetch
  readonly #starts: ServerStarts
  /** Of the object as last seen. */
  #metadata: ObjectMeta | undefined
  #durations: Durations = noDurations
  #disagreement: Observation['disagreement']
  /** Why the server was asked to stop. */
  #stopReason = ''
  /** Set while the cluster does not take our writes for this service. */
  #clusterRetry: (ClusterRetry & { readonly message: string }) | undefined
  #restarts = 0
  #last: { readonly plan: Plan; readonly observed: Observation; readonly since: number } | undefined

  constructor(key: string, rooms: ServiceRooms) {
    const { namespace, name } = splitKey(key)
    const { models, servers, launches, admission, narrator, log, onChange, isStopped, now, random } = rooms
    const enqueue = (): void => rooms.enqueue(key)
    this.key = key
    this.#namespace = namespace
    this.#name = name
    this.#rooms = rooms
    this.#fetch = new ModelFetch({
      models,
      tell: (note) => narrator.tell(key, { kind: 'download', note }),
      onFailure: (message) => narrator.tell(key, { kind: 'fetchFailed', message }),
      onNews: enqueue,
      onProgress: onChange,
      now,
      random,
    })
    this.#starts = new ServerStarts({
      key,
      servers,
      launches,
      admission,
      narrator,
      log,
      enqueue,
      isStopped,
      now,
    })
  }

  /** One pass. */
  async reconcile(): Promise<Rest> {
    for (let steps = 0; steps < maxStepsPerPass; steps += 1) {
      const reading = this.#read()
      this.#heed(reading)
      const observed = this.#observe(reading)
      const next = plan(observed)
      this.#remember(next, observed)
      if (this.#rooms.isStopped()) return { kind: 'rest', again: undefined }
      if (next.step.do === 'rest') return this.#rest(reading, next, observed)
      this.#rooms.log.debug('step', { key: this.key, step: next.step.do, reason: next.reason })
      await this.#perform(next.step, next, reading)
    }
    throw new Error(`Reconciling ${this.key} did not come to rest after ${maxStepsPerPass} steps.`)
  }

  /** Undefined where it is none of ours and nothing of it is here. */
  report(): ServiceReport | undefined {
    const { servers, cluster, absences, admission } = this.#rooms
    if (!this.#last || this.#last.plan.forget) return undefined
    const { plan: next, observed, since } = this.#last
    const service = cluster.inferenceServices.get(this.#namespace, this.#name)
    const absence = this.#absence()
    return {
      key: this.key,
      namespace: this.#namespace,
      name: this.#name,
      uid: this.#metadata?.uid,
      plan: next,
      observed,
      since,
      server: servers.get(this.key),
      retiring: servers.retiring(this.key),
      lastFailure: servers.lastFailure(this.key),
      failures: servers.backOff(this.key)?.failures ?? 0,
      restarts: this.#restarts,
      service,
      model: service && modelOf(cluster, service),
      logFile: servers.logFileOf(this.key),
      absence,
      hold: holdOf(absence),
      fetch: this.#fetch,
      admission: admission.report(this.key),
      needBytes: servers.needOf(this.key),
      isProtected: isProtected(absences, service),
    }
  }

  /** The service as others may have to take it out of memory. */
  target(): (AbsenceTarget & { readonly isProtected: boolean }) | undefined {
    const { cluster, absences } = this.#rooms
    const service = cluster.inferenceServices.get(this.#namespace, this.#name)
    return service && { ...this.#absenceTarget(service.metadata), isProtected: isProtected(absences, service) }
  }

  /** Whether this machine has a claim on it that its last word would be about. */
  get isClaimed(): boolean {
    const claim = this.#last?.observed.publication.claim
    return claim === 'ours' || claim === 'uncertain'
  }

  /** Nothing of it runs, and what the cluster could be told it was told. */
  get hasLeft(): boolean {
    if (this.#last === undefined || this.#last.plan.forget) return true
    const { desired: wish, server, successor, retiring } = this.#last.observed
    const isDown = [server, successor].every(({ kind }) => kind === 'none' || kind === 'failed') && !retiring
    return this.#last.plan.step.do === 'rest' && isDown && wish.kind !== 'serve' && wish.kind !== 'modelMissing'
  }

  /** False where it is none of ours. */
  restart(): boolean {
    if (!this.#last || this.#last.plan.forget) return false
    this.#starts.askRestart()
    this.wake()
    this.#rooms.enqueue(this.key)
    return true
  }

  /** A request is expected: what left memory for want of requests comes back. False where it had not. */
  wake(): boolean {
    const uid = this.#metadata?.uid
    const { absences, enqueue } = this.#rooms
    if (uid === undefined || absences.of(uid)?.kind !== 'idle') return false
    absences.end(uid)
    enqueue(this.key)
    return true
  }

  /** No request came for as long as its annotation says. */
  becameIdle(): void {
    const { absences, narrator, enqueue, now } = this.#rooms
    const wish = this.#last?.observed.desired
    if (!this.#metadata || wish?.kind !== 'serve' || wish.idleMinutes === undefined) return
    const { idleMinutes } = wish
    const minutes = `${idleMinutes} ${idleMinutes === 1 ? 'minute' : 'minutes'}`
    const message = `Unloaded after ${minutes} without a request (${annotationKeys.idleMinutes}).`
    absences.leave(this.#absenceTarget(this.#metadata), {
      kind: 'idle',
      since: new Date(now()).toISOString(),
      message,
    })
    narrator.tell(this.key, { kind: 'idle', idleMinutes })
    enqueue(this.key)
  }

  /** The cluster answers again: what waited for it waits no longer. */
  retryCluster(): void {
    this.#clusterRetry = undefined
  }

  /** There is more memory than there was: what its start failed over may be gone, so it is tried at once, with a clean slate. */
  retryFailedStart(): void {
    if (this.#last?.observed.server.kind !== 'failed') return
    this.#rooms.servers.clearBackOff(this.key)
    this.#rooms.enqueue(this.key)
  }

  serverChanged(state: ServerState, role: ServerRole): void {
    if (state.kind === 'exited' && state.settled && state.cause !== 'stopped' && role === 'current') this.#restarts += 1
    if (isOver(state)) void this.#rooms.admission.serverOver(this.key)
    this.#starts.changed(state)
    if (state.kind === 'ready') this.#fetch.markUsed(state.pid)
    this.#rooms.enqueue(this.key)
  }

  /** Downloads under way are dropped. What runs and is published stays as it is. */
  stop(): void {
    this.#fetch.cancel()
  }

  #read(): Reading {
    const { cluster, settings, launches, names, now } = this.#rooms
    return read({
      now: now(),
      key: this.key,
      namespace: this.#namespace,
      name: this.#name,
      cluster,
      names,
      lastSeen: this.#metadata,
      allowlist: settings.allowlist,
      hold: holdOf(this.#absence()),
      chooseRuntime: launches.chooseRuntime,
      fetched: this.#fetch.content,
      servedDigest: this.#starts.digest,
      before: this.#durations,
    })
  }

  /** What follows from the reading before anything is decided. */
  #heed({ service, desired: wish, durations }: Reading): void {
    const { cluster, absences, admission, servers } = this.#rooms
    this.#durations = durations
    if (service) this.#meet(service)
    if (service?.spec.ok === true) {
      admission.know(this.key, { priority: service.spec.value.priority, isProtected: isProtected(absences, service) })
    }
    // A hold is for one object: one that is deleted and made again under its name starts over.
    if (cluster.synced) absences.endOthers({ ...this.#absenceTarget(service?.metadata), uid: service?.metadata.uid })
    // What is wanted differently now, and like this again later, starts over.
    if (wish.kind !== 'serve' && wish.kind !== 'unknown') servers.clearBackOff(this.key)
    const endsIdleness = wish.kind === 'serve' ? wish.idleMinutes === undefined : isEnded(wish)
    const uid = this.#metadata?.uid
    if (endsIdleness && uid !== undefined && absences.of(uid)?.kind === 'idle') absences.end(uid)
  }

  /** A re-created object starts with a clean count; what runs for its predecessor is judged by its digest. */
  #meet({ metadata, status }: InferenceService): void {
    const { absences, servers, now } = this.#rooms
    if (this.#metadata !== undefined && this.#metadata.uid !== metadata.uid) this.#restarts = 0
    const isFirst = this.#metadata === undefined
    this.#metadata = metadata
    if (!isFirst || !absences.isNew || absences.of(metadata.uid) || pidOf(servers.get(this.key)) !== undefined) return
    const told = status.conditions.find(({ type }) => type === metalAgentCondition)
    if (told?.reason !== 'Idle') return
    const message = 'Unloaded after a time without a request.'
    absences.leave(this.#absenceTarget(metadata), { kind: 'idle', since: new Date(now()).toISOString(), message })
  }

  #observe(reading: Reading): Observation {
    const { publisher, servers, absences, hostAddress } = this.#rooms
    const { now, desired: wish, target, ownsService, wanted, service, model } = reading
    const { server, successor, retiring } = this.#starts.views()
    const publication = publicationView(publisher.observe(target), { now, ownsService })
    const absence = this.#absence()
    const figures = drainFigures([servers.get(this.key), servers.successor(this.key), servers.retiring(this.key)])
    this.#disagreement = sinceSaid(this.#disagreement, now, {
      message:
        publication.claim === 'ours' ? disagreement(publication.shown?.ready === true, service, model) : undefined,
    })
    return {
      now,
      desired: wish,
      address: hostAddress(),
      fetch: this.#fetch.view(),
      server,
      successor,
      retiring,
      ...this.#admissionView(wish, server, wanted),
      stopReason: this.#stopReason,
      publication,
      absent: absence?.kind === 'idle' || absence?.kind === 'displaced' ? absence : undefined,
      restartAsked: this.#starts.isRestartAsked,
      paused: absences.pausedSince !== undefined,
      clusterRetry: this.#clusterRetry,
      disagreement: this.#disagreement,
      ...(figures !== undefined && { drainFigures: figures }),
    }
  }

  #admissionView(
    wish: Desired,
    server: ServerView,
    wanted: Reading['wanted'],
  ): Pick<Observation, 'beside' | 'instead' | 'noMemory'> {
    const { settings, servers, admission } = this.#rooms
    const { beside, instead, noMemory } = admission.view(this.key, wanted)
    const runs = server.kind === 'ready' || server.kind === 'starting'
    const isReplaced = runs && wish.kind === 'serve' && (server.digest !== wish.digest || this.#starts.isRestartAsked)
    if (!isReplaced && !this.#starts.hasSuccessor) return { beside: notAsked, instead, noMemory }
    const why = beside && noPortBeside(settings.port, servers.running)
    return { beside: why === undefined ? beside : { allowed: false, why }, instead, noMemory }
  }

  #remember(next: Plan, observed: Observation): void {
    const before = this.#last
    const same = before?.plan.state === next.state && before.plan.reason === next.reason
    this.#last = { plan: next, observed, since: same ? before.since : observed.now }
    this.#rooms.narrator.planned(this.key, next)
    this.#rooms.onChange()
  }

  async #rest(reading: Reading, next: Plan, observed: Observation): Promise<Rest> {
    const { admission, publisher, servers, narrator } = this.#rooms
    if (next.forget && observed.desired.kind === 'gone') {
      admission.forget(this.key)
      publisher.forget(this.key)
      servers.forget(this.key)
      narrator.forget(this.key)
      return { kind: 'gone' }
    }
    this.#keepFresh(reading, observed)
    // Its time came, and nothing is left to be written.
    if (this.#clusterRetry && this.#clusterRetry.at <= observed.now) this.#clusterRetry = undefined
    this.#watchIdle(reading, next, observed)
    if (!memoryReasons.has(next.reason)) admission.leaveQueue(this.key)
    const again = [
      next.retryAt,
      await this.#report(next, observed),
      this.#clusterRetry?.at,
      await this.#soonerStart(reading, observed),
    ].filter((time) => time !== undefined)
    return { kind: 'rest', again: again.length === 0 ? undefined : Math.min(...again) }
  }

  /** What serves needs no fetch, but one that keeps it as new as its source. */
  #keepFresh(reading: Reading, { desired: wish, server }: Observation): void {
    if (wish.kind !== 'serve' || server.kind === 'none' || server.kind === 'failed') return
    if (this.#fetch.content?.source === wish.source || this.#fetch.isRunning) return
    const isOnChange = reading.wanted?.model.refreshPolicy === 'OnChange'
    if (isOnChange && 'digest' in server && server.digest === wish.digest) this.#beginFetch(reading)
  }

  /** Only what serves can be idle, and only what is told to. */
  #watchIdle({ wanted }: Reading, { state }: Plan, { desired: wish, successor }: Observation): void {
    const { servers, idle, settings } = this.#rooms
    const server = servers.get(this.key)
    const isWatched = state === 'ready' && successor.kind === 'none' && server?.kind === 'ready'
    if (!isWatched || wish.kind !== 'serve' || wish.idleMinutes === undefined || !wanted) {
      idle.watch(this.key, undefined)
      return
    }
    const { pid, port } = server
    const idleMs = wish.idleMinutes * settings.idleMinuteMs
    idle.watch(this.key, { pid, port, idleMs, sleepsWhenIdle: sleepsWhenIdle(wanted.spec) })
  }

  async #soonerStart({ model }: Reading, { server, successor, desired: wish }: Observation) {
    if ((server.kind !== 'failed' && successor.kind !== 'failed') || wish.kind !== 'serve') return undefined
    return this.#starts.soonerStart(model, this.#fetch.model)
  }

  /** The object as it is now: what was written since the reading belongs to it. */
  async #report(next: Plan, observed: Observation): Promise<number | undefined> {
    const { cluster, memory, narrator, now } = this.#rooms
    const level = memory.view?.level
    const service = cluster.inferenceServices.get(this.#namespace, this.#name)
    if (!service) return undefined
    return narrator.report(this.key, {
      plan: next,
      observed,
      service,
      absence: this.#absence(),
      pressure: level === 'unknown' ? undefined : level,
      now: now(),
    })
  }

  async #perform(step: Step, next: Plan, reading: Reading): Promise<void> {
    const { publisher, narrator } = this.#rooms
    const { target } = reading
    switch (step.do) {
      case 'claim':
        return this.#inCluster(async () => {
          const isTakenOver = this.#last?.observed.publication.claim === 'dead'
          const result = await (isTakenOver ? publisher.takeOver(target) : publisher.claim(target))
          if (result.kind === 'done') narrator.tell(this.key, { kind: 'claimed', isTakenOver })
          return result
        })
      case 'ensureService':
        return this.#inCluster(() => publisher.ensureService(target))
      case 'publish':
        return this.#inCluster(async () => {
          const result = await publisher.publish(target, { address: step.address, port: step.port, ready: true })
          if (result.kind === 'done') narrator.published(this.key, step)
          return result
        })
      case 'withdraw':
        return this.#inCluster(() => publisher.withdraw(target))
      case 'withdrawDead':
        return this.#inCluster(() => publisher.withdrawDead(target))
      case 'release':
        return this.#inCluster(() => publisher.release(target))
      case 'unpublish':
        return this.#inCluster(() => publisher.unpublish(target))
      case 'remove':
        return this.#inCluster(() => publisher.remove(target))
      case 'fetch':
        this.#beginFetch(reading)
        return
      case 'cancelFetch':
        this.#fetch.cancel()
        return
      case 'sizeUp':
        if (reading.wanted && this.#fetch.model) await this.#starts.compare(reading.wanted, this.#fetch.model)
        return
      case 'start':
        this.#stopReason = ''
        return this.#start('current', reading)
      case 'startBeside':
        return this.#start('successor', reading)
      case 'promote':
        this.#starts.promote()
        return
      case 'dropSuccessor':
        this.#starts.dropSuccessor()
        return
      case 'stop':
        this.#stopReason = next.message
        this.#starts.stop(isShedding(this.#absence()) ? { drainMs: shedDrainMs } : {})
        return
      case 'rest':
        return
    }
  }

  async #start(role: 'current' | 'successor', reading: Reading): Promise<void> {
    const { wanted } = reading
    const { model } = this.#fetch
    if (!wanted || !model) return
    if (!(await this.#starts.start(role, reading, wanted, model))) this.#fetch.cancel()
  }

  /** A cluster that does not take a write holds up what needs it, not what is local. */
  async #inCluster(write: () => Promise<WriteResult>): Promise<void> {
    const { log, now, random } = this.#rooms
    try {
      const result = await write()
      this.#clusterRetry = undefined
      if (result.kind !== 'done') log.info('not written', { key: this.key, ...result })
    } catch (error) {
      if (!isApiError(error)) throw error
      const retry = nextClusterRetry(error, this.#clusterRetry, { now: now(), random })
      const message = `The cluster did not take the last change (${rootMessage(error)}); it is tried again.`
      this.#clusterRetry = { ...retry, message }
      if (retry.failures === 1) log.warn('cluster write failed', { key: this.key, error, retryAt: retry.at })
    }
  }

  #beginFetch({ wanted }: Reading): void {
    const { cluster, settings } = this.#rooms
    if (!wanted) return
    this.#fetch.begin(
      fetchRequest({
        api: cluster.api,
        namespace: this.#namespace,
        name: wanted.spec.modelRef,
        spec: wanted.model,
        refreshEveryMs: settings.refreshEveryMs,
      }),
    )
  }

  #absence(): Absence | undefined {
    const { leaving, absences, cluster } = this.#rooms
    const service = cluster.inferenceServices.get(this.#namespace, this.#name)
    return leaving() ?? absences.of(service?.metadata.uid ?? this.#metadata?.uid)
  }

  #absenceTarget(metadata: ObjectMeta | undefined): AbsenceTarget {
    const { server } = this.#rooms.cluster.api.context
    return { uid: metadata?.uid ?? '', namespace: this.#namespace, name: this.#name, cluster: server }
  }
}

/** By its specification, or by a person on this machine. */
const isProtected = (absences: Absences, service: InferenceService | undefined): boolean =>
  service !== undefined &&
  ((service.spec.ok && service.spec.value.evictionProtection) || absences.isProtected(service.metadata.uid))

const notAsked: Beside = { allowed: false, why: '' }

const memoryReasons: ReadonlySet<string> = new Set<MemoryReason>([
  'InsufficientMemory',
  'MemoryCheckFailed',
  'MemoryPressure',
])

/** It is not asked for, so that when it is again, it is wanted in memory. */
const isEnded = ({ kind }: Desired): boolean =>
  kind === 'gone' || kind === 'stopped' || kind === 'held' || kind === 'notOurs'

/** The same words stay as old as they are. */
const sinceSaid = (
  before: Observation['disagreement'],
  now: number,
  { message }: { readonly message: string | undefined },
): Observation['disagreement'] =>
  message === undefined ? undefined : { message, since: before?.message === message ? before.since : now }

/** Why no further server can have a port while `running` have theirs; half of a sentence. */
function noPortBeside(policy: PortPolicy, running: number): string | undefined {
  switch (policy.kind) {
    case 'ephemeral':
      return undefined
    case 'fixed':
      return `port ${policy.port} is for one server only`
    case 'range':
      if (policy.to - policy.from + 1 > running) return undefined
      return `every port from ${policy.from} to ${policy.to} has a server`
  }
}
