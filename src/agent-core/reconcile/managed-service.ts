import { splitKey } from '../support/object-key.ts'
import type { InferenceService, ObjectMeta } from '../kube/resources.ts'
import { metalAgentCondition } from '../kube/status-writer.ts'
import type { PortPolicy } from '../process/launch.ts'
import { isOver, type ServerRole, type ServerState } from '../process/server-state.ts'
import { holdOf, isShedding, type Absence } from './absence.ts'
import type { AbsenceTarget } from './absences.ts'
import { annotationKeys } from './annotations.ts'
import { disagreement } from './cluster-agreement.ts'
import { ClusterWrites } from './cluster-writes.ts'
import type { Desired } from './desired.ts'
import { ModelFetch } from './model-fetch.ts'
import { fetchRequest } from './model-request.ts'
import { drainFigures, publicationView } from './observe.ts'
import { isHeld } from './plan/facts.ts'
import type { Beside, MemoryReason, Observation, ServerView } from './plan/observation.ts'
import { plan } from './plan/plan.ts'
import type { Plan } from './plan/step.ts'
import { noDurations, read, type Durations, type Reading } from './reading.ts'
import { sleepsWhenIdle } from './runtime-choice.ts'
import { pidOf, ServerStarts } from './server-starts.ts'
import { isProtected, serviceReport, type ServiceReport } from './service-report.ts'
import type { ServiceRooms } from './service-rooms.ts'
import { wallTimeOf } from '../support/steady-clock.ts'

/** No honest story has more steps than this without waiting for something; more means two rules disagree. */
const maxStepsPerPass = 30

/** An evicted model gets a few seconds for its requests, since memory is short. */
const shedDrainMs = 5_000

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
  readonly #writes: ClusterWrites
  /** Of the object as last seen. */
  #metadata: ObjectMeta | undefined
  #durations: Durations = noDurations
  #disagreement: Observation['disagreement']
  /** Why the server was asked to stop. */
  #stopReason = ''
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
    this.#writes = new ClusterWrites(key, rooms)
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
      await this.#perform(next, reading, observed)
    }
    throw new Error(`Reconciling ${this.key} did not come to rest after ${maxStepsPerPass} steps.`)
  }

  /** Undefined where it is none of ours and nothing of it is here. */
  report(): ServiceReport | undefined {
    if (!this.#last || this.#last.plan.forget) return undefined
    return serviceReport(this.#rooms, {
      key: this.key,
      uid: this.#metadata?.uid,
      ...this.#last,
      restarts: this.#restarts,
      absence: this.#absence(),
      fetch: this.#fetch,
    })
  }

  /** The service as others may have to take it out of memory. */
  target(): (AbsenceTarget & { readonly isProtected: boolean }) | undefined {
    const { cluster, absences } = this.#rooms
    const service = cluster.inferenceServices.get(this.#namespace, this.#name)
    return service && { ...this.#absenceTarget(service.metadata), isProtected: isProtected(absences, service) }
  }

  /** Whether this machine has a claim on it that its last word would be about. */
  get isClaimed(): boolean {
    return this.#last !== undefined && isHeld(this.#last.observed.publication)
  }

  /** Nothing of it runs, and what the cluster could be told it was told. */
  get hasLeft(): boolean {
    if (this.#last === undefined || this.#last.plan.forget) return true
    const { desired: wish, server, successor, retiring } = this.#last.observed
    const isDown = [server, successor].every(({ kind }) => kind === 'none' || kind === 'failed') && !retiring
    return this.#last.plan.step.do === 'rest' && isDown && !keepsServing.has(wish.kind)
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
      since: wallTimeOf(now()).toISOString(),
      message,
    })
    narrator.tell(this.key, { kind: 'idle', idleMinutes })
    enqueue(this.key)
  }

  /** The cluster answers again: what waited for it waits no longer. */
  retryCluster(): void {
    this.#writes.retryNow()
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
    if (service) {
      admission.know(this.key, { priority: service.spec.value.priority, isProtected: isProtected(absences, service) })
    }
    // A hold is for one object: an object that is deleted and made again under its name starts over.
    if (cluster.synced) absences.endOthers({ ...this.#absenceTarget(service?.metadata), uid: service?.metadata.uid })
    // A spec that changes, and later changes back, starts over.
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
    absences.leave(this.#absenceTarget(metadata), { kind: 'idle', since: wallTimeOf(now()).toISOString(), message })
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
      clusterRetry: this.#writes.retry,
      serviceRetry: this.#writes.serviceRetry,
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
    this.#writes.nothingIsLeft(observed.now)
    this.#watchIdle(reading, next, observed)
    if (!memoryReasons.has(next.reason)) admission.leaveQueue(this.key)
    const again = [
      next.retryAt,
      await this.#report(next, observed),
      this.#writes.retry?.at,
      await this.#soonerStart(reading, observed),
    ].filter((time) => time !== undefined)
    return { kind: 'rest', again: again.length === 0 ? undefined : Math.min(...again) }
  }

  /** A serving model needs no fetch, except to keep it as new as its source. */
  #keepFresh(reading: Reading, { desired: wish, server }: Observation): void {
    if (wish.kind !== 'serve' || server.kind === 'none' || server.kind === 'failed') return
    if (this.#fetch.content?.source === wish.source || this.#fetch.isRunning) return
    const isOnChange = reading.wanted?.model.refreshPolicy === 'OnChange'
    if (isOnChange && 'digest' in server && server.digest === wish.digest) this.#beginFetch(reading)
  }

  /** Only a server that serves, and is to be stopped when idle, is watched for it. */
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

  /** The object as it is now, with the writes since the reading. */
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

  async #perform({ step, message }: Plan, reading: Reading, observed: Observation): Promise<void> {
    switch (step.do) {
      case 'claim':
      case 'ensureService':
      case 'publish':
      case 'withdraw':
      case 'withdrawDead':
      case 'release':
      case 'unpublish':
      case 'remove':
        return this.#writes.perform(step, reading.target, observed.publication)
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
        this.#stopReason = message
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

const notAsked: Beside = { allowed: false, why: '' }

const memoryReasons: ReadonlySet<string> = new Set<MemoryReason>([
  'InsufficientMemory',
  'MemoryCheckFailed',
  'MemoryPressure',
])

/** A server goes on for it. */
const keepsServing: ReadonlySet<Desired['kind']> = new Set(['serve', 'modelMissing', 'unreadable'])

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
