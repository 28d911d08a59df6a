import { basename } from 'node:path'
import type { InferenceService, ObjectMeta } from '../kube/resources.ts'
import { ClusterWrites } from './cluster-writes.ts'
import type { Desired } from './desired.ts'
import { Idleness } from './idleness.ts'
import { ModelFetch } from './model-fetch.ts'
import { observe } from './observe.ts'
import { plan, withdrawSilent } from './plan/plan.ts'
import { isAlive, isHeld, sendsAstray } from './plan/facts.ts'
import type { MemoryReason, Observation, Plan } from './plan/observation.ts'
import { type Durations, noDurations, read, type Reading } from './reading.ts'
import { ServerStarts } from './server-starts.ts'
import { isProtected, serviceReport, type ServiceReport } from './service-report.ts'
import type { ServiceRooms } from './service-rooms.ts'
import { type UnloadReason, holdOf, isShedding } from './unload-reasons.ts'
import { lifeOf, type ServerState } from '../servers/server-state.ts'
import { splitKey } from '../util/object-key.ts'

/** An evicted model gets a few seconds for its requests, since memory is short. */
const shedDrainMs = 5_000

/** No honest story has more steps than this without waiting for something; more means two rules disagree. */
const maxStepsPerPass = 30

/** When the key wants its next pass, or that nothing of it is left. */
type Rest = { readonly kind: 'rest'; readonly again: number | undefined } | { readonly kind: 'gone' }

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
  readonly #idleness: Idleness
  /** Metadata of the object as last seen. */
  #metadata: ObjectMeta | undefined
  #durations: Durations = noDurations
  #restarts = 0
  /** A pass is under way. */
  #isBusy = false
  #last: { readonly plan: Plan; readonly observed: Observation; readonly since: number } | undefined

  constructor(key: string, rooms: ServiceRooms) {
    const { namespace, name } = splitKey(key)
    const { narrator, onChange } = rooms
    this.key = key
    this.#namespace = namespace
    this.#name = name
    this.#rooms = rooms
    this.#writes = new ClusterWrites(key, rooms)
    this.#idleness = new Idleness(key, rooms)
    this.#fetch = new ModelFetch({
      ...rooms,
      tell: (note) => narrator.tell(key, { kind: 'download', note }),
      onFailure: (message) => narrator.tell(key, { kind: 'fetchFailed', message }),
      onNews: () => rooms.enqueue(key),
      onProgress: onChange,
    })
    this.#starts = new ServerStarts(key, rooms)
  }

  /** Runs one pass. */
  async reconcile(): Promise<Rest> {
    this.#isBusy = true
    try {
      return await this.#pass()
    } finally {
      this.#isBusy = false
    }
  }

  async #pass(): Promise<Rest> {
    for (let steps = 0; steps < maxStepsPerPass; steps += 1) {
      const reading = this.#read()
      this.#heed(reading)
      const observed = this.#observe(reading)
      const next = plan(observed)
      this.#remember(next, observed)
      if (this.#rooms.isStopped()) return { kind: 'rest', again: undefined }
      if (next.step.do === 'rest') return this.#rest(reading, next, observed)
      this.#rooms.log.debug('step', { key: this.key, step: next.step.do, reason: next.reason })
      await this.#take(next, reading, observed)
    }
    throw new Error(`Reconciling ${this.key} did not settle after ${maxStepsPerPass} steps.`)
  }

  /** Takes the step that was planned: which part of it does what. */
  async #take({ step, message }: Plan, reading: Reading, { publication }: Observation): Promise<void> {
    const [fetch, starts] = [this.#fetch, this.#starts]
    const { desiredServer, target } = reading
    switch (step.do) {
      case 'claim':
      case 'ensureService':
      case 'publish':
      case 'withdraw':
      case 'withdrawDead':
      case 'release':
      case 'unpublish':
      case 'remove':
        return this.#writes.perform(step, target, publication)
      case 'fetch':
        if (desiredServer) fetch.begin(desiredServer)
        return
      case 'cancelFetch':
        fetch.cancel()
        return
      case 'sizeUp':
        if (desiredServer && fetch.model) await starts.compare(reading, desiredServer, fetch.model)
        return
      case 'start':
        if (!desiredServer || !fetch.model) return
        if (!(await starts.start(reading, desiredServer, fetch.model))) fetch.cancel()
        return
      case 'stop':
        starts.stop(message, isShedding(this.#unloadReason()) ? { drainMs: shedDrainMs } : {})
        return
      case 'rest':
        return
    }
  }

  /** Undefined where it is none of ours and nothing of it is here. */
  report(): ServiceReport | undefined {
    if (!this.#last || this.#last.plan.forget) return undefined
    return serviceReport(this.#rooms, {
      key: this.key,
      uid: this.#metadata?.uid,
      ...this.#last,
      restarts: this.#restarts,
      unloadReason: this.#unloadReason(),
      fetch: this.#fetch,
    })
  }

  /** What this machine has decided about it, whether it is shown or none of ours; undefined before the first pass. */
  get decision(): { readonly isServed: boolean; readonly isForOthers: boolean; readonly message: string } | undefined {
    if (!this.#last) return undefined
    const { plan, observed } = this.#last
    const { desired } = observed
    // Where nothing more is to be done about it the plan says nothing.
    const message = plan.message === '' && 'message' in desired ? desired.message : plan.message
    return { isServed: plan.state === 'ready', isForOthers: desired.kind === 'notOurs', message }
  }

  /** Undefined where it is not shown. */
  get outlook() {
    if (!this.#last || this.#last.plan.forget) return undefined
    const service = this.#rooms.cluster.inferenceServices.get(this.#namespace, this.#name)
    const files = this.modelFiles.filter((file) => file !== this.#fetch.model?.draft).map((file) => basename(file))
    const names = [service?.spec.value.modelRef ?? '', ...files]
    const createdAt = service?.metadata.creationTimestamp
    return { key: this.key, message: this.#last.plan.message, names, createdAt }
  }

  get isProtected(): boolean {
    const service = this.#rooms.cluster.inferenceServices.get(this.#namespace, this.#name)
    return service !== undefined && isProtected(this.#rooms.unloadReasons, service)
  }

  /** Whether this machine has a claim on it that its last word would be about. */
  get isClaimed(): boolean {
    return this.#last !== undefined && isHeld(this.#last.observed.publication)
  }

  /** What still runs or still has to be written to the cluster before the service has left; undefined = it has left. */
  get stillHere(): string | undefined {
    if (this.#last === undefined || this.#last.plan.forget) return undefined
    const { plan: next, observed } = this.#last
    const hasLeft = next.step.do === 'rest' && !isAlive(observed.server) && !keepsServing.has(observed.desired.kind)
    return hasLeft ? undefined : next.message
  }

  /** False if this machine does not serve it. */
  restart(): boolean {
    if (!this.#last || this.#last.plan.forget) return false
    this.#starts.askRestart()
    this.wake()
    this.#rooms.enqueue(this.key)
    return true
  }

  /** A request is expected: an idle service comes back into memory. False if it was not unloaded for idleness. */
  wake(): boolean {
    return this.#idleness.wake(this.#metadata?.uid)
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

  serverChanged(state: ServerState): void {
    if (state.kind === 'exited' && state.settled && state.cause !== 'stopped') this.#restarts += 1
    this.#starts.changed(state)
    this.#rooms.enqueue(this.key)
    if (this.#isBusy) void this.#withdrawAtOnce()
  }

  /** The files of the model that its next server would be started with; none while that is not here. */
  get modelFiles(): readonly string[] {
    const { path, mmproj, draft } = this.#fetch.model ?? {}
    return [path, mmproj, draft].filter((file) => file !== undefined)
  }

  /** Downloads under way are dropped. What runs and is published stays as it is. */
  stop(): void {
    this.#fetch.cancel()
    this.#idleness.stop()
  }

  /** A pass may wait for long, such as for the size of the next server: pods are not sent to one that has ended until it is over. */
  async #withdrawAtOnce(): Promise<void> {
    const { isStopped, log } = this.#rooms
    const reading = this.#read()
    const observed = this.#observe(reading)
    const next = isHeld(observed.publication) ? withdrawSilent(observed) : undefined
    if (isStopped() || !next) return
    this.#remember(next, observed)
    try {
      await this.#writes.perform({ do: 'withdraw' }, reading.target, observed.publication)
    } catch (error) {
      log.warn('not withdrawn at once', { key: this.key, error })
    }
  }

  #read(): Reading {
    const { cluster, settings, launches, names, servers, now } = this.#rooms
    const running = servers.runningRuntimeOf(this.key)
    return read({
      now: now(),
      key: this.key,
      namespace: this.#namespace,
      name: this.#name,
      cluster,
      names,
      lastSeen: this.#metadata,
      allowlist: settings.allowlist,
      hold: holdOf(this.#unloadReason()),
      chooseRuntime: (service, spec, model) =>
        launches.chooseRuntime(service, spec, model, {
          running,
          modelNamed: (name) => cluster.models.get(this.#namespace, name),
        }),
      fetched: this.#fetch.content,
      servedDigest: this.#starts.digest,
      before: this.#durations,
    })
  }

  /** What follows from the reading before anything is decided. */
  #heed({ service, desired, desiredServer, durations, apiKeySecret }: Reading): void {
    const { cluster, unloadReasons, memory, servers, apiKeys } = this.#rooms
    this.#durations = durations
    this.#starts.want(desiredServer?.digest)
    if (service) {
      apiKeys.want(this.key, apiKeySecret)
      this.#meet(service)
      memory.book.know(this.key, {
        priority: service.spec.value.priority,
        isProtected: isProtected(unloadReasons, service),
      })
    }
    if (cluster.synced && (cluster.namespace ?? this.#namespace) === this.#namespace) {
      const place = { namespace: this.#namespace, name: this.#name, cluster: cluster.api.context.server }
      unloadReasons.listed(service?.metadata.uid, place)
    }
    // A spec that changes, and later changes back, starts over.
    if (desired.kind !== 'serve' && desired.kind !== 'unknown') servers.clearBackOff(this.key)
    this.#idleness.heed(desired, this.#metadata?.uid)
  }

  /** A re-created object starts with a clean count; what runs for its predecessor is judged by its digest. */
  #meet(service: InferenceService): void {
    const before = this.#metadata
    this.#metadata = service.metadata
    if (!before || before.uid === service.metadata.uid) return
    this.#restarts = 0
    this.#rooms.unloadReasons.forget(before.uid)
  }

  #observe(reading: Reading): Observation {
    const observed = observe(reading, this.#rooms, {
      key: this.key,
      fetch: this.#fetch,
      starts: this.#starts,
      writes: this.#writes,
      unloadReason: this.#unloadReason(),
      before: this.#last?.observed,
    })
    return sendsAstray(observed) && this.#writes.hurry() ? { ...observed, clusterRetry: this.#writes.retry } : observed
  }

  #remember(next: Plan, observed: Observation): void {
    const before = this.#last
    const same = before?.plan.state === next.state && before.plan.reason === next.reason
    this.#last = { plan: next, observed, since: same ? before.since : observed.now }
    this.#rooms.narrator.planned(this.key, next)
    this.#rooms.onChange()
  }

  async #rest(reading: Reading, next: Plan, observed: Observation): Promise<Rest> {
    const { unloadReasons, admission, turns, publisher, servers, narrator, apiKeys } = this.#rooms
    if (next.state !== 'starting' && next.reason !== 'StartsInTurn') turns.forget(this.key)
    if (next.forget && observed.desired.kind === 'gone') {
      admission.forget(this.key)
      publisher.forget(this.key)
      servers.forget(this.key)
      narrator.forget(this.key)
      apiKeys.forget(this.key)
      if (this.#metadata) unloadReasons.forget(this.#metadata.uid)
      return { kind: 'gone' }
    }
    const running = servers.get(this.key)
    if (running?.kind === 'ready' && servers.factsOf(this.key)?.digest === reading.desiredServer?.digest) {
      this.#fetch.markUsed(lifeOf(running))
    }
    const lookAgainAt = reading.desiredServer && this.#fetch.keepFresh(reading.desiredServer, observed)
    this.#writes.nothingIsLeft(observed.now)
    this.#idleness.watch(next, observed, () => this.#becameIdle())
    if (!memoryReasons.has(next.reason)) admission.leaveQueue(this.key)
    const again = [
      next.retryAt,
      lookAgainAt,
      await this.#report(next, observed),
      this.#writes.retry?.at,
      await this.#soonerStart(reading, observed),
    ].filter((time) => time !== undefined)
    return { kind: 'rest', again: again.length === 0 ? undefined : Math.min(...again) }
  }

  /** No request came for as long as its annotation says. */
  #becameIdle(): void {
    if (this.#metadata && this.#last) this.#idleness.begin(this.#metadata, this.#last.observed.desired)
  }

  async #soonerStart({ model, desiredServer }: Reading, { desired }: Observation) {
    if (!this.#starts.hasFailed || desired.kind !== 'serve') return undefined
    return this.#starts.soonerStart(model, desiredServer?.runtime, this.#fetch.model)
  }

  /** The object as it is now, with the writes since the reading. */
  async #report(next: Plan, observed: Observation): Promise<number | undefined> {
    const { cluster, memory, narrator, servers, now } = this.#rooms
    const level = memory.view?.level
    const service = cluster.inferenceServices.get(this.#namespace, this.#name)
    if (!service) return undefined
    return narrator.report(this.key, {
      plan: next,
      observed,
      service,
      unloadReason: this.#unloadReason(),
      runtime: servers.runningRuntimeOf(this.key),
      pressure: level === 'unknown' ? undefined : level,
      now: now(),
    })
  }

  #unloadReason(): UnloadReason | undefined {
    const { leaving, unloadReasons, cluster } = this.#rooms
    const service = cluster.inferenceServices.get(this.#namespace, this.#name)
    return leaving(this.key) ?? unloadReasons.of(service?.metadata.uid ?? this.#metadata?.uid)
  }
}

const memoryReasons: ReadonlySet<string> = new Set<MemoryReason>([
  'InsufficientMemory',
  'MemoryCheckFailed',
  'MemoryPressure',
])

/** Desired states in which a running server stays. */
const keepsServing: ReadonlySet<Desired['kind']> = new Set(['serve', 'modelMissing', 'unreadable'])
