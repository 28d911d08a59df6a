import { access } from 'node:fs/promises'
import { formatBytes } from '../../contract/format.ts'
import type { Hold, ServiceReason, ServiceState } from '../../contract/service.ts'
import { isApiError, rootMessage, type ApiError } from '../kube/api-error.ts'
import type { Cluster } from '../kube/cluster.ts'
import type { EventNote, EventRecorder } from '../kube/event-recorder.ts'
import { keyOf } from '../kube/object-cache.ts'
import type { InferenceService, InferenceServiceSpec, Model, ModelSpec } from '../kube/resources.ts'
import { metalAgentCondition, type StatusWriter } from '../kube/status-writer.ts'
import type { Memory, MemoryRefusal, SizedRequest } from '../memory/memory.ts'
import type { PressureChange } from '../memory/watchdog.ts'
import type { ServerChange } from '../memory/ways-to-fit.ts'
import type { LocalModel, Models } from '../models/models.ts'
import type { Logger } from '../observability/logger.ts'
import { unknownDigest } from '../process/adoption.ts'
import { IdleWatch } from '../process/idle-watch.ts'
import type { Platform } from '../platform/platform.ts'
import { launchEnvironment, type GeneralRules, type PortPolicy, type ServerLaunch } from '../process/launch.ts'
import { serverFiles } from '../process/server-files.ts'
import type { ServerRole } from '../process/lanes.ts'
import type { Servers } from '../process/servers.ts'
import { isOver, type Exited, type ServerState } from '../process/server-state.ts'
import { collidesWith, isOwnedBy, labels, serviceNameOf, type PublishTarget } from '../publishing/objects.ts'
import type { Publisher } from '../publishing/publisher.ts'
import { isOnlyHeartbeat } from '../publishing/slice-news.ts'
import type { WriteResult } from '../publishing/write-result.ts'
import type { Binary } from '../runtimes/binary.ts'
import { LlamaServerDialects, type LlamaServerDialect } from '../runtimes/llama-server-dialect.ts'
import { jitteredMs } from '../support/back-off.ts'
import { annotationKeys } from './annotations.ts'
import { desired, type Desired } from './desired.ts'
import type { DownloadNote } from './download-story.ts'
import { environmentOf } from './environment.ts'
import type { Holds } from './holds.ts'
import { FetchActivity, type FetchOutcome } from './fetch-activity.ts'
import { contentKey, digestWith, fetchRequest } from './model-request.ts'
import { fetchView, publicationView, serverView } from './observe.ts'
import {
  crashLoopMessage,
  isCrashLoop,
  plan,
  successorFailedMessage,
  type Beside,
  type Observation,
  type Plan,
  type ServerView,
  type Step,
} from './plan.ts'
import { report, sayFinally } from './report.ts'
import { chooseRuntime, commandLine, sleepsWhenIdle, type RuntimeSettings } from './runtime-choice.ts'
import type { MemoryState } from './memory-state.ts'
import { sizeUp, type Need } from './sizing.ts'
import { ServiceNames } from './service-names.ts'
import { isOnlyStatusNoise } from './service-news.ts'
import { newRecord, type ServiceRecord } from './service-record.ts'
import { startInputs } from './start-inputs.ts'
import { WorkQueue } from './work-queue.ts'

/** No honest story has more steps than this without waiting for something; more means two rules disagree. */
const maxStepsPerPass = 30
/** First and longest wait before the next attempt at what the cluster, or a model's source, did not do. */
const clusterBackOff = { firstMs: 500, maxMs: 30_000 }
const fetchBackOff = { firstMs: 1_000, maxMs: 300_000 }

/** Until a status that was written on an old version of the object is written again: the new one is here by then. */
const conflictRetryMs = 500

/** Edits of one person or tool that come within this of each other cost one restart; a load costs minutes. */
const settleMs = 500

/** While a start waits for its back-off: a new binary or model file is a reason to try at once, and looking costs microseconds. */
const lookForChangesEveryMs = 5_000

/** Who applies a Model and its service together must not read that one is missing. */
const modelGraceMs = 2_000

export interface ReconcilerSettings extends RuntimeSettings {
  readonly allowlist: readonly string[]
  readonly port: PortPolicy
  /** For every server, as they are at its start. */
  readonly rules: () => GeneralRules
  /** Working directories and logs of the servers live under it. */
  readonly stateDir: string
  /** How often the source of a Model with `refreshPolicy: OnChange` is asked, in milliseconds. */
  readonly refreshEveryMs: () => number
}

export interface ReconcilerOptions {
  readonly cluster: Cluster
  readonly models: Models
  readonly servers: Servers
  readonly publisher: Publisher
  readonly events: EventRecorder
  readonly status: StatusWriter
  readonly holds: Holds
  readonly settings: ReconcilerSettings
  /** How people call this machine. */
  readonly displayName: string
  readonly findBinary: () => Promise<Binary>
  readonly memory: Memory
  readonly memoryState: Pick<MemoryState, 'isProtected'>
  /** The GPU shares the memory of this machine. */
  readonly metal: boolean
  /** Of the connections that servers have. */
  readonly platform: Pick<Platform, 'establishedConnections'>
  /** For tests: how long a minute of `metalbar.dev/idle-minutes` is. */
  readonly idleMinuteMs?: number
  readonly hostAddress: () => { readonly ip: string | undefined; readonly message: string }
  readonly log: Logger
  /** Something that a snapshot shows has changed. */
  readonly onChange: () => void
  readonly now?: () => number
  readonly random?: () => number
}

/** What is to be served. */
interface WantedServer {
  readonly service: InferenceService
  readonly spec: InferenceServiceSpec
  readonly model: ModelSpec
  readonly modelStatus: Model['status']
  readonly digest: string
}

/** What a snapshot needs to know of one service. */
export interface ServiceReport {
  readonly record: Readonly<ServiceRecord>
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
  readonly service: InferenceService | undefined
  readonly model: Model | undefined
  readonly logFile: string
  readonly hold: Hold | undefined
  /** Of the server that runs, as expected at its start. */
  readonly needBytes: number | undefined
  readonly place: number | undefined
  readonly isProtected: boolean
}

/**
 * Makes what runs and what is published agree with what the cluster asks for, one key at a time, from the level of
 * things and never from an event: observe, plan, take one step, observe again.
 */
export class Reconciler {
  readonly #options: ReconcilerOptions
  readonly #queue: WorkQueue
  readonly #records = new Map<string, ServiceRecord>()
  readonly #now: () => number
  readonly #random: () => number
  readonly #idle: IdleWatch
  readonly #dialects = new LlamaServerDialects()
  readonly #names = new ServiceNames()
  readonly #changedModels = new Set<string>()
  readonly #chooseRuntime: ReturnType<typeof chooseRuntime>
  #unsubscribe: readonly (() => void)[] = []
  #stopped = false
  #leaving: Hold | undefined

  constructor(options: ReconcilerOptions) {
    this.#options = options
    this.#now = options.now ?? Date.now
    this.#random = options.random ?? Math.random
    this.#chooseRuntime = chooseRuntime(options.settings)
    const { platform, log } = options
    this.#idle = new IdleWatch({ platform, log, onIdle: (key) => this.#becameIdle(key) })
    this.#queue = new WorkQueue({
      reconcile: (key) => this.#reconcile(key),
      log: options.log,
      now: this.#now,
      random: this.#random,
    })
  }

  start(): void {
    const { cluster, servers, memory } = this.#options
    this.#unsubscribe = [
      cluster.inferenceServices.onChange((change) => {
        this.#names.follow(change)
        if (!isOnlyStatusNoise(change.before, change.after)) this.enqueue(change.key)
      }),
      cluster.models.onChange(({ key }) => this.#enqueueUsersOf(key)),
      cluster.services.onChange(({ before, after }) => this.#enqueueOwner(after ?? before)),
      cluster.slices.onChange(({ before, after }) => {
        if (!isOnlyHeartbeat(before, after)) this.#enqueueOwner(after ?? before)
      }),
      servers.onChange((key, state, role) => this.#serverChanged(key, state, role)),
      memory.listen({
        onFreed: (keys) => this.#askAgain(keys),
        onSample: () => this.#memorySeen(),
        onPressure: (change) => this.#pressureChanged(change),
      }),
    ]
    this.#learnDialect().catch((error: unknown) => this.#options.log.debug('llama-server not asked yet', { error }))
  }

  enqueue(key: string): void {
    this.#queue.add(key)
  }

  enqueueAll(): void {
    const { cluster, servers } = this.#options
    for (const { metadata } of cluster.inferenceServices.values())
      this.enqueue(keyOf(metadata.namespace, metadata.name))
    for (const object of [...cluster.slices.values(), ...cluster.services.values()]) this.#enqueueOwner(object)
    for (const { namespace, name } of this.#options.holds.in(cluster.api.context.server))
      this.enqueue(keyOf(namespace, name))
    for (const key of [...this.#records.keys(), ...servers.state().keys()]) this.enqueue(key)
  }

  /** The cluster answers again: what waited for it waits no longer. */
  retryAll(): void {
    for (const record of this.#records.values()) {
      record.clusterRetry = undefined
      record.reportRetry = undefined
    }
    this.enqueueAll()
  }

  /**
   * A person wants a new server process, also in place of one that serves; asked again before that is there, it is one restart.
   * False where there is no such service.
   */
  restart(key: string): boolean {
    const record = this.#records.get(key)
    if (!record?.last || record.last.plan.forget) return false
    const isUnderWay = isOnItsWay(this.#options.servers.successor(key))
    if (record.restart === 'none' && !isUnderWay) record.restart = 'asked'
    record.idle = undefined
    this.#options.servers.clearBackOff(key)
    this.enqueue(key)
    return true
  }

  /** Somebody wants what left memory for want of requests; false where that is not so. */
  wake(key: string): boolean {
    const record = this.#records.get(key)
    if (record?.idle === undefined) return false
    record.idle = undefined
    this.enqueue(key)
    return true
  }

  /** There is more memory than there was: what starts failed over may be gone, so they are tried at once, with a clean slate. */
  retryFailedStarts(): void {
    for (const { key, last } of this.#records.values()) {
      if (last?.observed.server.kind !== 'failed') continue
      this.#options.servers.clearBackOff(key)
      this.enqueue(key)
    }
  }

  /** For good: everything comes down and is free for other agents, and the sentence is what is said of it. */
  leave(message: string): void {
    this.#leaving = { cause: 'released', since: new Date(this.#now()).toISOString(), message }
    this.enqueueAll()
  }

  /** After {@link leave}: nothing runs any more, and what the cluster could be told it was told. */
  get hasLeft(): boolean {
    return [...this.#records.values()].every(({ last }) => {
      if (last === undefined || last.plan.forget) return true
      const { desired: wish, server, successor, retiring } = last.observed
      const isDown = [server, successor].every(({ kind }) => kind === 'none' || kind === 'failed') && !retiring
      return last.plan.step.do === 'rest' && isDown && wish.kind !== 'serve' && wish.kind !== 'modelMissing'
    })
  }

  report(key: string): ServiceReport | undefined {
    const record = this.#records.get(key)
    return record && this.#reportOf(record)
  }

  /** Every service that is shown, in no order. */
  reports(): ServiceReport[] {
    return [...this.#records.values()].flatMap((record) => this.#reportOf(record) ?? [])
  }

  #reportOf(record: ServiceRecord): ServiceReport | undefined {
    const { cluster, servers, memory, settings } = this.#options
    if (!record.last || record.last.plan.forget) return undefined
    const service = cluster.inferenceServices.get(record.namespace, record.name)
    return {
      record,
      ...record.last,
      server: servers.get(record.key),
      retiring: servers.retiring(record.key),
      lastFailure: servers.lastFailure(record.key),
      failures: servers.backOff(record.key)?.failures ?? 0,
      service,
      model: service && this.#modelOf(service),
      // Asked of few.
      get logFile() {
        return serverFiles(settings.stateDir, record.key).logFile
      },
      hold: this.#holdOf(record),
      needBytes: servers.needOf(record.key),
      place: memory.placeOf(record.key),
      isProtected: this.#isProtected(service),
    }
  }

  #isProtected(service: InferenceService | undefined): boolean {
    if (!service) return false
    const bySpec = service.spec.ok && service.spec.value.evictionProtection
    return bySpec || this.#options.memoryState.isProtected(service.metadata.uid)
  }

  /** No further pass; downloads under way are dropped. What runs and is published stays as it is. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#idle[Symbol.dispose]()
    for (const unsubscribe of this.#unsubscribe) unsubscribe()
    for (const { fetch } of this.#records.values()) fetch?.cancel()
    await this.#queue.stop()
  }

  /** After `stop`: an agent that is gone corrects nothing that it said of what it held. */
  async sayStopped(): Promise<void> {
    const { displayName, status, cluster, log } = this.#options
    const message = `The agent on ${displayName} was stopped; the next agent that may serve this service takes it.`
    const saying = [...this.#records.values()].map(async ({ namespace, name, key, last }) => {
      const claim = last?.observed.publication.claim
      const service = cluster.inferenceServices.get(namespace, name)
      if (!service || (claim !== 'ours' && claim !== 'uncertain')) return
      await sayFinally(status, service, {
        type: metalAgentCondition,
        status: 'False',
        reason: 'Stopped',
        message,
      }).catch((error: unknown) => log.warn('status not written', { key, error }))
    })
    await Promise.all(saying)
  }

  async #reconcile(key: string): Promise<number | undefined> {
    const record = this.#record(key)
    for (let steps = 0; steps < maxStepsPerPass; steps += 1) {
      const observed = this.#observe(record)
      const next = plan(observed)
      this.#remember(record, next, observed)
      if (this.#stopped) return undefined
      if (next.step.do === 'rest') {
        this.#keepFresh(record, observed)
        return this.#rest(record, next, observed)
      }
      this.#options.log.debug('step', { key, step: next.step.do, reason: next.reason })
      await this.#perform(record, next.step)
    }
    throw new Error(`Reconciling ${key} did not come to rest after ${maxStepsPerPass} steps.`)
  }

  #observe(record: ServiceRecord): Observation {
    const { cluster, servers, publisher, hostAddress, holds } = this.#options
    const service = cluster.inferenceServices.get(record.namespace, record.name)
    const now = this.#now()
    if (service) this.#meet(record, service)
    if (service) this.#knowRank(service)
    if (cluster.synced) this.#dropHoldsOfOthers(record, service)
    const wish = this.#withPatience(record, this.#desired(record, service), now)
    // Who wants something else now, and this again later, starts over.
    if (wish.kind !== 'serve' && wish.kind !== 'unknown') servers.clearBackOff(record.key)
    if (wish.kind === 'serve' ? wish.idleMinutes === undefined : isEnded(wish)) record.idle = undefined
    const target = this.#target(record)
    const published = cluster.services.get(record.namespace, serviceNameOf(record.name))
    const ownsService = published !== undefined && isOwnedBy(published, target)
    const backOff = servers.backOff(record.key)
    const server = serverView(record, servers.get(record.key), backOff)
    const retiring = serverView({}, servers.retiring(record.key))
    return {
      now,
      desired: wish,
      address: hostAddress(),
      fetch: fetchView(record),
      server,
      successor: serverView(record.successor ?? {}, servers.successor(record.key), backOff),
      retiring: retiring.kind === 'stopping' ? retiring.message : undefined,
      beside: this.#beside(record, wish, server),
      ...this.#memoryOf(record),
      stopReason: record.stopReason ?? '',
      publication: publicationView(publisher.observe(target), { now, ownsService }),
      idle: record.idle,
      restartAsked: record.restart === 'asked',
      paused: holds.pausedSince !== undefined,
      clusterRetry: record.clusterRetry,
    }
  }

  #beside(record: ServiceRecord, wish: Desired, server: ServerView): Beside | undefined {
    const { settings, servers } = this.#options
    const runs = server.kind === 'ready' || server.kind === 'starting'
    const isAsked = runs && wish.kind === 'serve' && (server.digest !== wish.digest || record.restart === 'asked')
    if (!isAsked && record.successor === undefined) return silentlyNot
    const { swap } = record
    if (!swap || swap.of !== this.#admissionKeyNow(record)) return undefined
    const why = noPortBeside(settings.port, servers.running)
    return why === undefined ? swap.beside : { allowed: false, why }
  }

  /** What was answered to this very start; what was answered to another says nothing. */
  #memoryOf(record: ServiceRecord): Pick<Observation, 'instead' | 'noMemory' | 'displaced'> {
    const { refusal, swap, displaced } = record
    const of = refusal || swap ? this.#admissionKeyNow(record) : undefined
    const isAsked = refusal !== undefined && refusal.of === of
    return {
      instead: swap?.instead && swap.of === of ? insteadSentence(swap.instead) : undefined,
      noMemory: isAsked ? { reason: refusal.reason, message: refusalSentence(refusal) } : undefined,
      displaced: displaced?.why,
    }
  }

  /** Of what is wanted now: an answer that was worked out for an earlier wish does not have it. */
  #admissionKeyNow(record: ServiceRecord): string | undefined {
    const wanted = this.#wanted(record)
    return wanted && admissionKey(wanted)
  }

  #desired(record: ServiceRecord, service: InferenceService | undefined): Desired {
    const { cluster, settings, servers } = this.#options
    const wish = desired({
      key: record.key,
      synced: cluster.synced,
      service,
      model: service && this.#modelOf(service),
      allowlist: settings.allowlist,
      nameTakenBy: service && collidesWith(service.metadata, this.#names.sharing(service.metadata)),
      hold: this.#holdOf(record),
      chooseRuntime: this.#chooseRuntime,
    })
    if (wish.kind !== 'serve') return wish
    const { fetch } = record
    const here = fetch?.source === wish.source && fetch.outcome?.kind === 'done' ? fetch.outcome.model : undefined
    const server = record.digest ?? servers.digestOf(record.key)
    const notice = [wish.notice, fetch?.notice].filter((sentence) => sentence !== undefined).join(' ')
    return {
      ...wish,
      digest: digestWith(wish.digest, { server, revision: here?.revision, isNewer: fetch?.isNewer }),
      ...(notice !== '' && { notice }),
    }
  }

  /** What serves needs no fetch, but one that keeps it as new as its source. */
  #keepFresh(record: ServiceRecord, { desired: wish, server }: Observation): void {
    if (wish.kind !== 'serve' || server.kind === 'none' || server.kind === 'failed') return
    if (record.fetch?.source === wish.source || (record.fetch?.outcome === undefined && record.fetch)) return
    const model = this.#wanted(record)?.model
    if (model?.refreshPolicy === 'OnChange' && 'digest' in server && server.digest === wish.digest) this.#fetch(record)
  }

  #holdOf({ metadata }: ServiceRecord): Hold | undefined {
    return this.#leaving ?? this.#options.holds.get(metadata?.uid)
  }

  /** A hold is for one object: who deletes it and makes another of its name starts over. */
  #dropHoldsOfOthers({ namespace, name, key }: ServiceRecord, service: InferenceService | undefined): void {
    const { holds, cluster, log } = this.#options
    for (const other of holds.in(cluster.api.context.server)) {
      if (other.namespace !== namespace || other.name !== name || other.uid === service?.metadata.uid) continue
      holds.drop(other.uid).catch((error: unknown) => log.warn('hold not dropped', { key, error }))
    }
  }

  /** A wish that has only just come up may be half of what is meant. */
  #withPatience(record: ServiceRecord, wish: Desired, now: number): Desired {
    const asksForNoModel = wish.kind === 'modelMissing' || wish.kind === 'stopped' || wish.kind === 'held'
    record.modelMissingSince = asksForNoModel ? (record.modelMissingSince ?? now) : undefined
    if (wish.kind === 'serve' && record.wanted?.digest !== wish.digest)
      record.wanted = { digest: wish.digest, since: now }
    switch (wish.kind) {
      case 'modelMissing':
        return { ...wish, graceEndsAt: (record.modelMissingSince ?? now) + modelGraceMs }
      case 'serve':
        return { ...wish, settlesAt: (record.wanted?.since ?? now) + settleMs }
      default:
        return wish
    }
  }

  /** A re-created object starts with a clean memory; what runs for its predecessor is judged by its digest. */
  #meet(record: ServiceRecord, { metadata, status }: InferenceService): void {
    if (record.metadata !== undefined && record.metadata.uid !== metadata.uid) {
      record.toldReadyPid = undefined
      record.toldRefusal = undefined
      record.crashEvent = undefined
      record.stoppedAt = undefined
      record.restarts = 0
      record.idle = undefined
    }
    if (record.metadata === undefined) record.idle = this.#idleBefore(record, status)
    record.metadata = metadata
  }

  /** Who may be evicted for whom is decided by what is so now, and whoever waits asks again when that is another. */
  #knowRank(service: InferenceService): void {
    const { memory } = this.#options
    const { metadata, spec } = service
    if (!spec.ok) return
    const rank = { priority: spec.value.priority, isProtected: this.#isProtected(service) }
    const isNews = memory.know(keyOf(metadata.namespace, metadata.name), rank)
    if (isNews) this.#askAgain(memory.book.places().map(({ key }) => key))
  }

  /** What was out of memory for want of requests when an agent ended is no more wanted when the next one starts. */
  #idleBefore({ key }: ServiceRecord, { conditions }: InferenceService['status']): string | undefined {
    const told = conditions.find(({ type }) => type === metalAgentCondition)
    const runs = pidOf(this.#options.servers.get(key)) !== undefined
    return told?.reason === 'Idle' && !runs ? 'Unloaded after a time without a request.' : undefined
  }

  #remember(record: ServiceRecord, next: Plan, observed: Observation): void {
    const before = record.last
    const same = before?.plan.state === next.state && before.plan.reason === next.reason
    record.last = { plan: next, observed, since: same ? before.since : this.#now() }
    if (next.state !== 'stopped') record.stoppedAt = undefined
    if (!same && !next.forget) {
      const level = troubles.has(next.reason) ? 'warn' : passing.has(next.state) ? 'debug' : 'info'
      this.#options.log[level]('state', {
        key: record.key,
        state: next.state,
        reason: next.reason,
        message: next.message,
      })
    }
    this.#options.onChange()
  }

  async #rest(record: ServiceRecord, next: Plan, observed: Observation): Promise<number | undefined> {
    if (next.forget && observed.desired.kind === 'gone') {
      if (record.isQueued) this.#options.memory.release(record.key)
      this.#records.delete(record.key)
      this.#endDisplacements()
      this.#options.publisher.forget(record.key)
      this.#options.servers.forget(record.key)
      return undefined
    }
    // Its time came, and nothing is left to be written.
    if (record.clusterRetry && record.clusterRetry.at <= observed.now) record.clusterRetry = undefined
    this.#watchIdle(record, next, observed)
    this.#leaveQueue(record, next)
    const reportAt = await this.#report(record, next, observed)
    return earliest(next.retryAt, reportAt, record.clusterRetry?.at, await this.#soonerStart(record, observed))
  }

  /** Only what serves can be idle, and only what is told to. */
  #watchIdle(
    { key, namespace, name }: ServiceRecord,
    { state }: Plan,
    { desired: wish, successor }: Observation,
  ): void {
    const { servers, cluster, idleMinuteMs = 60_000 } = this.#options
    const server = servers.get(key)
    const { spec } = cluster.inferenceServices.get(namespace, name) ?? {}
    const isWatched = state === 'ready' && successor.kind === 'none' && server?.kind === 'ready'
    if (!isWatched || wish.kind !== 'serve' || wish.idleMinutes === undefined || spec?.ok !== true) {
      this.#idle.watch(key, undefined)
      return
    }
    const { pid, port } = server
    this.#idle.watch(key, {
      pid,
      port,
      idleMs: wish.idleMinutes * idleMinuteMs,
      sleepsWhenIdle: sleepsWhenIdle(spec.value),
    })
  }

  #becameIdle(key: string): void {
    const record = this.#records.get(key)
    const wish = record?.last?.observed.desired
    if (!record || wish?.kind !== 'serve' || wish.idleMinutes === undefined) return
    const { idleMinutes } = wish
    record.idle = `Unloaded after ${idleMinutes} ${idleMinutes === 1 ? 'minute' : 'minutes'} without a request (${annotationKeys.idleMinutes}).`
    this.#options.log.info('idle inference service leaves memory', { key, idleMinutes })
    this.enqueue(key)
  }

  /** A start that waits for its back-off waits no longer when what it is made of has changed. */
  async #soonerStart(
    record: ServiceRecord,
    { server, successor, desired: wish }: Observation,
  ): Promise<number | undefined> {
    const { servers, findBinary } = this.#options
    if ((server.kind !== 'failed' && successor.kind !== 'failed') || wish.kind !== 'serve') return undefined
    const inputs = await this.#startInputs(record, await findBinary())
    const waitsForBackOff = servers.backOff(record.key) !== undefined
    if (inputs === record.startInputs || !waitsForBackOff) return this.#now() + lookForChangesEveryMs
    servers.clearBackOff(record.key)
    return this.#now()
  }

  /** A status tells what is so and decides nothing: one that cannot be written waits by itself and holds up nothing. */
  async #report(record: ServiceRecord, next: Plan, observed: Observation): Promise<number | undefined> {
    const { cluster, status, events, log, memory } = this.#options
    const level = memory.view?.level
    const pressure = level === 'unknown' ? undefined : level
    const service = cluster.inferenceServices.get(record.namespace, record.name)
    const now = this.#now()
    if (!service) return undefined
    if (record.reportRetry && record.reportRetry.at > now) return record.reportRetry.at
    try {
      const hold = this.#holdOf(record)
      const again = await report({ record, plan: next, observed, service, hold, status, events, pressure, now })
      record.reportRetry = undefined
      return again
    } catch (error) {
      if (!isApiError(error)) throw error
      // Its end is on its way to us and brings the key back; a newer version may be none that does.
      if (isApiError(error, 404)) return undefined
      if (isApiError(error, 409)) return now + conflictRetryMs
      const retry = this.#retryAfter(error, record.reportRetry)
      record.reportRetry = retry
      if (retry.failures === 1) log.warn('status not written', { key: record.key, error, retryAt: retry.at })
      return retry.at
    }
  }

  async #perform(record: ServiceRecord, step: Step): Promise<void> {
    const { publisher, servers } = this.#options
    const target = this.#target(record)
    switch (step.do) {
      case 'claim':
        return this.#inCluster(record, async () => {
          const isDead = record.last?.observed.publication.claim === 'dead'
          const result = await (isDead ? publisher.takeOver(target) : publisher.claim(target))
          if (result.kind === 'done') {
            this.#tell(
              record,
              'Normal',
              'Claimed',
              isDead ? 'Taken over from an agent that is gone.' : 'Claimed by this machine.',
            )
          }
          return result
        })
      case 'ensureService':
        return this.#inCluster(record, () => publisher.ensureService(target))
      case 'publish':
        return this.#inCluster(record, async () => {
          const result = await publisher.publish(target, { address: step.address, port: step.port, ready: true })
          if (result.kind === 'done') this.#tellReady(record, step)
          return result
        })
      case 'withdraw':
        return this.#inCluster(record, () => publisher.withdraw(target))
      case 'withdrawDead':
        return this.#inCluster(record, () => publisher.withdrawDead(target))
      case 'release':
        return this.#inCluster(record, () => publisher.release(target))
      case 'unpublish':
        return this.#inCluster(record, () => publisher.unpublish(target))
      case 'remove':
        return this.#inCluster(record, () => publisher.remove(target))
      case 'fetch':
        this.#fetch(record)
        return
      case 'cancelFetch':
        record.fetch?.cancel()
        record.fetch = undefined
        return
      case 'sizeUp':
        return this.#compare(record)
      case 'start':
        return this.#start(record, 'current')
      case 'startBeside':
        return this.#start(record, 'successor')
      case 'promote':
        this.#promote(record)
        return
      case 'dropSuccessor':
        record.successor = undefined
        servers.clearBackOff(record.key)
        this.#stopping(record, servers.dropSuccessor(record.key))
        return
      case 'stop':
        record.stopReason = record.last?.plan.message
        this.#stopping(record, servers.stop(record.key, this.#isEvicted(record) ? { drainMs: evictionDrainMs } : {}))
        return
      case 'rest':
        return
    }
  }

  /** A cluster that does not take a write holds up what needs it, not what is local. */
  async #inCluster(record: ServiceRecord, write: () => Promise<WriteResult>): Promise<void> {
    try {
      const result = await write()
      record.clusterRetry = undefined
      if (result.kind !== 'done') this.#options.log.info('not written', { key: record.key, ...result })
    } catch (error) {
      if (!isApiError(error)) throw error
      const retry = this.#retryAfter(error, record.clusterRetry)
      record.clusterRetry = {
        ...retry,
        message: `The cluster did not take the last change (${rootMessage(error)}); it is tried again.`,
      }
      if (retry.failures === 1) {
        this.#options.log.warn('cluster write failed', { key: record.key, error, retryAt: retry.at })
      }
    }
  }

  #retryAfter({ retryAfterSeconds = 0 }: ApiError, before: { readonly failures: number } | undefined) {
    const failures = (before?.failures ?? 0) + 1
    const delay = Math.max(retryAfterSeconds * 1_000, jitteredMs(clusterBackOff, failures, this.#random))
    return { failures, at: this.#now() + delay }
  }

  #fetch(record: ServiceRecord): void {
    const wanted = this.#wanted(record)
    if (!wanted) return
    const { models } = this.#options
    if (record.fetch?.source !== contentKey(wanted.model)) record.fetchFailures = 0
    record.fetch?.cancel()
    record.fetch = new FetchActivity({
      models,
      request: fetchRequest({
        api: this.#options.cluster.api,
        namespace: record.namespace,
        name: wanted.spec.modelRef,
        spec: wanted.model,
        refreshEveryMs: this.#options.settings.refreshEveryMs,
      }),
      onProgress: () => this.#progressed(record),
      tell: ({ reason, message }) => this.#tell(record, 'Normal', reason, message),
      now: this.#now,
      random: this.#random,
      onEnd: (outcome) => this.#fetched(record, outcome),
    })
  }

  /** Figures change all the time; a sentence that changed is a reason to look at the service again. */
  #progressed(record: ServiceRecord): void {
    const { fetch, last } = record
    const said = last?.observed.fetch
    const isNews = said?.kind === 'running' && said.message !== fetch?.progress?.message
    if (isNews || fetch?.outcome !== undefined) this.enqueue(record.key)
    this.#options.onChange()
  }

  #fetched(record: ServiceRecord, outcome: FetchOutcome): void {
    if (outcome.kind === 'failed') {
      record.fetchFailures += 1
      const delay = Math.max(outcome.retryAfterMs, jitteredMs(fetchBackOff, record.fetchFailures, this.#random))
      record.fetchRetryAt = this.#now() + delay
      const next = outcome.terminal ? '' : ` Next attempt in ${Math.ceil(delay / 1_000)} s.`
      if (record.fetchFailures === 1) this.#tell(record, 'Warning', 'StartFailed', `${outcome.message}${next}`)
    } else {
      record.fetchFailures = 0
    }
    this.enqueue(record.key)
  }

  /** Asked in advance, so that the first start does not wait for the answer. */
  async #learnDialect(): Promise<void> {
    const binary = await this.#options.findBinary()
    if (binary.kind === 'found') await this.#dialects.of(binary.path, launchEnvironment())
  }

  async #start(record: ServiceRecord, role: 'current' | 'successor'): Promise<void> {
    const wanted = this.#wanted(record)
    const outcome = record.fetch?.outcome
    if (!wanted || outcome?.kind !== 'done') return
    const { servers, settings, log, findBinary, memory } = this.#options
    if (!(await isThere(outcome.model.path))) {
      record.fetch = undefined
      return
    }
    const binary = await findBinary()
    const inputs = await this.#startInputs(record, binary)
    const { digest } = wanted
    const before = role === 'current' ? record.digest : record.successor?.digest
    if (before !== digest || record.startInputs !== inputs) servers.clearBackOff(record.key)
    record.startInputs = inputs
    if (role === 'current') record.digest = digest
    record.successor = role === 'current' ? undefined : { digest }
    if (binary.kind === 'missing') {
      this.#startFailed(record, role, binary.message)
      return
    }
    const env = launchEnvironment(environmentOf(wanted.spec))
    const dialect = await this.#dialects.of(binary.path, env)
    const need = await this.#sizeUp(record, { wanted, model: outcome.model, env, dialect })
    await memory.prepare(this.#request(record, wanted, need))
    if (this.#stopped || !this.#isAdmitted(record, role, wanted, need)) return
    if (record.restart === 'asked') record.restart = 'underWay'
    log.info('starting inference service', { namespace: record.namespace, name: record.name })
    const launch: ServerLaunch = {
      uid: record.metadata?.uid ?? '',
      digest: wanted.digest,
      executable: binary.path,
      argv: commandLine(wanted.spec, wanted.model, settings, {
        modelPath: outcome.model.path,
        mmproj: outcome.model.mmproj,
        dialect,
        ...(dialect.boundsPromptCache && { cacheRamMiB: need.estimate?.cacheRamThatHolds }),
      }),
      env,
      ...serverFiles(settings.stateDir, record.key),
      port: settings.port,
      ...settings.rules(),
      sleepsWhenIdle: sleepsWhenIdle(wanted.spec),
      ...(need.estimate && { needBytes: need.estimate.total }),
    }
    if (role === 'successor') {
      // Its predecessor may have gone while the binary was looked at.
      if (isOnItsWay(servers.get(record.key))) servers.startBeside(record.key, launch)
      else {
        record.successor = undefined
        memory.gone(record.key, 'all')
      }
      return
    }
    record.startFailure = undefined
    record.stopReason = undefined
    servers.start(record.key, launch)
  }

  /** In this turn: between the answer and the start nobody else is answered. */
  #isAdmitted(record: ServiceRecord, role: 'current' | 'successor', wanted: WantedServer, need: Need): boolean {
    const { memory, log } = this.#options
    const of = admissionKey(wanted)
    const request = this.#request(record, wanted, need)
    if (role === 'successor') {
      const verdict = memory.beside(request, { reserve: true })
      if (verdict.allowed) return true
      record.successor = undefined
      record.swap = { of, beside: verdict, instead: memory.instead(request, need.changeable) }
      return false
    }
    const admission = memory.admit(request, need.changeable)
    const wasQueued = record.isQueued
    record.isQueued = !admission.admitted
    if (wasQueued !== record.isQueued) queueMicrotask(() => this.#placesMoved())
    if (admission.admitted) {
      record.refusal = undefined
      record.waitingSince = undefined
      record.toldMemory = undefined
      if (admission.warning !== undefined) log.warn('memory not checked', { key: record.key, text: admission.warning })
      return true
    }
    record.refusal = { ...admission, of }
    this.#tellMemory(record, admission)
    for (const key of admission.evictFirst) this.#displace(key, record.key)
    return false
  }

  #request(record: ServiceRecord, { service, spec, model }: WantedServer, need: Need): SizedRequest {
    const { memoryBudget: modelBudget, memoryFraction: modelFraction } = model.hardware ?? {}
    record.waitingSince ??= this.#now()
    return {
      key: record.key,
      uid: service.metadata.uid,
      needBytes: need.estimate?.total,
      ...(need.whyUnknown !== undefined && { whyUnknown: need.whyUnknown }),
      priority: spec.priority,
      isProtected: this.#isProtected(service),
      since: record.waitingSince,
      modelBudget,
      modelFraction,
    }
  }

  /** What the wanted server will hold; worked out once for each server. */
  async #sizeUp(record: ServiceRecord, { wanted, model, env, dialect }: Sizing): Promise<Need> {
    const { models, settings, metal } = this.#options
    const of = `${wanted.digest} ${model.path} ${model.revision}`
    if (record.need?.of === of) return record.need
    const need = await sizeUp({
      of,
      models,
      model,
      status: wanted.modelStatus,
      argv: (change) => {
        const where = { modelPath: model.path, mmproj: model.mmproj, ...(dialect && { dialect }) }
        return commandLine(changed(wanted.spec, change), wanted.model, settings, where)(0)
      },
      env,
      metal,
    })
    record.need = need
    this.#options.onChange()
    return need
  }

  /** Whether the wanted server fits beside the one that runs, or in its place. */
  async #compare(record: ServiceRecord): Promise<void> {
    const { memory, findBinary } = this.#options
    const wanted = this.#wanted(record)
    const outcome = record.fetch?.outcome
    if (!wanted || outcome?.kind !== 'done') return
    const binary = await findBinary()
    const env = launchEnvironment(environmentOf(wanted.spec))
    // Without one the start says what is missing; the answer is about memory alone.
    const dialect = binary.kind === 'found' ? await this.#dialects.of(binary.path, env) : undefined
    const need = await this.#sizeUp(record, { wanted, model: outcome.model, env, dialect })
    const request = this.#request(record, wanted, need)
    await memory.prepare(request)
    record.waitingSince = undefined
    record.swap = {
      of: admissionKey(wanted),
      beside: memory.beside(request),
      instead: memory.instead(request, need.changeable),
    }
  }

  /** Whoever does not wait for memory has no place among those that do. */
  #leaveQueue(record: ServiceRecord, { reason }: Plan): void {
    if (memoryReasons.has(reason)) return
    record.refusal = undefined
    record.waitingSince = undefined
    if (!record.isQueued) return
    record.isQueued = false
    this.#options.memory.release(record.key)
    this.#placesMoved()
  }

  /** In the turn of the change: only noted here. */
  #askAgain(keys: readonly string[]): void {
    for (const key of keys) {
      const record = this.#records.get(key)
      if (record) record.refusal = undefined
      this.enqueue(key)
    }
  }

  /** What was answered about a change holds no longer where memory is another; nor does a place that is another. */
  #memorySeen(): void {
    const { memory } = this.#options
    for (const record of this.#records.values()) {
      const { key, swap, need } = record
      const wanted = swap?.instead && this.#wanted(record)
      const request = wanted && need && this.#request(record, wanted, need)
      if (request) record.waitingSince = undefined
      const fitsNow = request !== undefined && memory.instead(request, {}) === undefined
      if (!fitsNow) continue
      record.swap = undefined
      this.enqueue(key)
    }
    this.#placesMoved()
  }

  /** Whose place is another one asks again, so that what is said of it is true. */
  #placesMoved(): void {
    this.#endDisplacements()
    const places = new Map(this.#options.memory.book.places().map(({ key, place }) => [key, place]))
    for (const record of this.#records.values()) {
      if (!record.isQueued || record.refusal === undefined) continue
      if (places.get(record.key) === record.refusal.place) continue
      record.refusal = undefined
      this.enqueue(record.key)
    }
  }

  /** Settings that decide about memory are other ones: everybody asks again. */
  memoryRulesChanged(): void {
    for (const record of this.#records.values()) {
      if (record.refusal === undefined && record.swap === undefined) continue
      record.refusal = undefined
      record.swap = undefined
      this.enqueue(record.key)
    }
  }

  #pressureChanged({ from, to, view }: PressureChange): void {
    const { servers, log } = this.#options
    log[to === 'normal' ? 'info' : 'warn']('memory pressure', { from, to })
    const isNews = from !== 'unknown' && to !== 'unknown'
    const type = to === 'normal' ? 'Normal' : 'Warning'
    const models = [...view.footprints.values()].reduce((sum, bytes) => sum + bytes, 0)
    const total = view.figures === undefined ? '' : ` of ${formatBytes(view.figures.totalBytes)}`
    const message = `Memory pressure went from ${from} to ${to}; the models here have ${formatBytes(models)}${total}.`
    for (const record of this.#records.values()) {
      record.swap = undefined
      if (isNews && isOnItsWay(servers.get(record.key))) this.#tell(record, type, 'MemoryPressureLevelChanged', message)
      this.enqueue(record.key)
    }
  }

  /** Once for as long as it waits for this reason, over restarts of the agent as well. */
  #tellMemory(record: ServiceRecord, refusal: MemoryRefusal): void {
    const { cluster, memory } = this.#options
    const { reason } = refusal
    if (record.toldMemory === reason) return
    record.toldMemory = reason
    const service = cluster.inferenceServices.get(record.namespace, record.name)
    const known = service?.status.conditions.find(({ type }) => type === metalAgentCondition)
    if (known?.reason === reason) return
    if (reason === 'MemoryPressure') {
      const level = memory.view?.level ?? 'unknown'
      this.#tell(record, 'Warning', 'RespawnBlocked', `${refusal.message}. Memory pressure is ${level}.`)
    } else {
      this.#tell(record, 'Warning', reason, refusalSentence(refusal))
    }
  }

  /** For a service of higher priority, where a person allowed that. */
  #displace(key: string, winner: string): void {
    const record = this.#records.get(key)
    if (!record || record.displaced !== undefined || !isOnItsWay(this.#options.servers.get(key))) return
    // A person's word may have come since the book was told.
    if (this.#isProtected(this.#options.cluster.inferenceServices.get(record.namespace, record.name))) return
    const why = `Evicted so that ${winner} can start, which has a higher priority.`
    record.displaced = { why, winner, isFreed: false }
    this.#tell(record, 'Warning', 'Evicted', why)
    this.#options.log.info('evicted', { key, for: winner })
    this.enqueue(key)
  }

  /** Nothing of it is left: whoever it gave way to is answered first, with what that made free. */
  async #displacedEnded(record: ServiceRecord): Promise<void> {
    const { servers, memory } = this.#options
    const { key } = record
    const left = [servers.get(key), servers.successor(key), servers.retiring(key)]
    if (!record.displaced || left.some((state) => state !== undefined && !isOver(state))) return
    await memory.look()
    const now = this.#records.get(key)
    if (now?.displaced) now.displaced = { ...now.displaced, isFreed: true }
    this.#endDisplacements()
  }

  /** Who gave way asks for memory again when the other one has got it, or wants it no more. */
  #endDisplacements(): void {
    for (const record of this.#records.values()) {
      const { displaced } = record
      if (!displaced?.isFreed || this.#records.get(displaced.winner)?.isQueued === true) continue
      record.displaced = undefined
      this.enqueue(record.key)
    }
  }

  #isEvicted(record: ServiceRecord): boolean {
    return record.displaced !== undefined || this.#holdOf(record)?.by === 'pressure'
  }

  /** Tells about the service in an Event. */
  tell(
    key: string,
    note: { readonly type: EventNote['type']; readonly reason: EventReason; readonly message: string },
  ): void {
    const record = this.#records.get(key)
    if (record) this.#tell(record, note.type, note.reason, note.message)
  }

  #startFailed(record: ServiceRecord, role: 'current' | 'successor', message: string): void {
    const { digest } = record.successor ?? {}
    if (role === 'current') record.startFailure = message
    else if (digest !== undefined) record.successor = { digest, startFailure: message }
    record.restart = 'none'
    this.#options.servers.countFailure(record.key)
    this.#tellFailure(record, 'StartFailed', message, role)
  }

  #startInputs(record: ServiceRecord, binary: Binary): Promise<string> {
    const { cluster } = this.#options
    const service = cluster.inferenceServices.get(record.namespace, record.name)
    const outcome = record.fetch?.outcome
    return startInputs(service && this.#modelOf(service), [
      binary.kind === 'found' ? binary.path : undefined,
      outcome?.kind === 'done' ? outcome.model.path : undefined,
    ])
  }

  #promote(record: ServiceRecord): void {
    record.digest = record.successor?.digest
    record.startedPid = record.successor?.startedPid
    record.startFailure = undefined
    record.successor = undefined
    record.restart = 'none'
    this.#options.servers.promote(record.key)
  }

  #stopping(record: ServiceRecord, stopped: Promise<unknown>): void {
    stopped.catch((error: unknown) => {
      this.#options.log.error('server not stopped', { key: record.key, error })
      this.enqueue(record.key)
    })
  }

  #serverChanged(key: string, state: ServerState, role: ServerRole): void {
    const record = this.#record(key)
    if (state.kind === 'exited' && state.settled) this.#serverEnded(record, state, role)
    if (state.kind === 'failedToSpawn' && state.failures > 0)
      this.#tellFailure(record, 'StartFailed', state.message, role)
    if (isOver(state)) void this.#displacedEnded(record)
    if (isOutcome(state) && record.restart === 'underWay') record.restart = 'none'
    if (state.kind === 'ready') this.#markUsed(record, state.pid)
    if (state.kind === 'starting' || state.kind === 'loading' || state.kind === 'ready')
      this.#tellStarted(record, role, state)
    this.enqueue(key)
  }

  #markUsed(record: ServiceRecord, pid: number | undefined): void {
    const { fetch } = record
    if (pid === undefined || record.usedPid === pid || fetch?.outcome?.kind !== 'done') return
    record.usedPid = pid
    void this.#options.models.markUsed(fetch.request, fetch.outcome.model)
  }

  #serverEnded(record: ServiceRecord, state: Extract<ServerState, { kind: 'exited' }>, role: ServerRole): void {
    if (state.left !== undefined) this.#tell(record, 'Warning', 'Stopped', state.left)
    for (const other of this.#records.values()) {
      if (other.swap?.instead === undefined) continue
      other.swap = undefined
      this.enqueue(other.key)
    }
    if (state.cause === 'stopped') {
      this.#options.servers.clearBackOff(record.key)
      this.retryFailedStarts()
      this.#tell(record, 'Normal', 'Stopped', role === 'retiring' ? replaced : (record.stopReason ?? state.message))
      return
    }
    if (role === 'current') record.restarts += 1
    this.#tellFailure(record, state.outOf === 'start' ? 'StartFailed' : 'Stopped', state.message, role)
  }

  /** The first is an Event of its own; those that follow are one, which counts them. */
  #tellFailure(record: ServiceRecord, reason: EventReason, why: string, role: ServerRole): void {
    const { servers, events } = this.#options
    const { failures, retryAt } = servers.backOff(record.key) ?? { failures: 1, retryAt: this.#now() }
    const message = role === 'successor' ? successorFailedMessage({ message: why, nextStartAt: retryAt }) : why
    if (!isCrashLoop({ failures })) {
      record.crashEvent = undefined
      this.#tell(record, 'Warning', reason, message)
    } else if (record.metadata && this.#isKnown(record)) {
      record.crashEvent ??= events.series(record.metadata, { type: 'Warning', reason: 'CrashLooping' })
      record.crashEvent.tell(crashLoopMessage({ failures, nextStartAt: retryAt, message }), failures)
    }
  }

  #tellStarted(record: ServiceRecord, role: ServerRole, { pid, port }: { pid?: number; port?: number }): void {
    const told = role === 'successor' ? record.successor : record
    if (pid === undefined || port === undefined || !told || told.startedPid === pid) return
    told.startedPid = pid
    this.#options.log.info('started inference service', { namespace: record.namespace, name: record.name, pid, port })
    this.#tell(record, 'Normal', 'Started', `llama-server started with process id ${pid} on port ${port}.`)
  }

  #tellReady(record: ServiceRecord, { address, port }: { address: string; port: number }): void {
    const { servers } = this.#options
    const isIt = (state: ServerState | undefined) => state?.kind === 'ready' && state.port === port
    const state = [servers.get(record.key), servers.successor(record.key)].find(isIt)
    const pid = state?.kind === 'ready' ? state.pid : undefined
    if (pid === undefined || record.toldReadyPid === pid) return
    record.toldReadyPid = pid
    this.#tell(record, 'Normal', 'Ready', `Serving at ${address}:${port}.`)
  }

  #tell(record: ServiceRecord, type: EventNote['type'], reason: EventReason, message: string): void {
    const { metadata } = record
    if (metadata && this.#isKnown(record)) this.#options.events.record(metadata, { type, reason, message })
  }

  #isKnown({ namespace, name }: ServiceRecord): boolean {
    return this.#options.cluster.inferenceServices.get(namespace, name) !== undefined
  }

  /** The parsed objects and the digest of a service that is to be served. */
  #wanted(record: ServiceRecord): WantedServer | undefined {
    const service = this.#options.cluster.inferenceServices.get(record.namespace, record.name)
    const model = service && this.#modelOf(service)
    const wish = this.#desired(record, service)
    if (!service?.spec.ok || !model?.spec.ok || wish.kind !== 'serve') return undefined
    const { digest } = wish
    return { service, spec: service.spec.value, model: model.spec.value, modelStatus: model.status, digest }
  }

  #modelOf({ metadata, spec }: InferenceService): Model | undefined {
    return spec.ok ? this.#options.cluster.models.get(metadata.namespace, spec.value.modelRef) : undefined
  }

  #target({ namespace, name, metadata }: ServiceRecord): PublishTarget {
    const { cluster } = this.#options
    const service = cluster.inferenceServices.get(namespace, name)
    const endpointPort = service?.spec.ok === true ? service.spec.value.endpoint?.port : undefined
    return { namespace, name, uid: metadata?.uid ?? this.#uidOfLeftovers(namespace, name), endpointPort }
  }

  /** What an earlier life of this agent published for an object that is gone still names that object's uid. */
  #uidOfLeftovers(namespace: string, name: string): string {
    const { slices, services } = this.#options.cluster
    for (const { metadata } of [...slices.values(), ...services.values()]) {
      if (metadata.namespace !== namespace || metadata.labels[labels.inferenceService] !== name) continue
      const owner = metadata.ownerReferences.find(({ kind }) => kind === 'InferenceService')
      if (owner) return owner.uid
    }
    return ''
  }

  /** Models that change in one turn, as in a list, cost one look at the services. */
  #enqueueUsersOf(modelKey: string): void {
    if (this.#changedModels.size === 0) queueMicrotask(() => this.#enqueueUsersOfChanged())
    this.#changedModels.add(modelKey)
  }

  #enqueueUsersOfChanged(): void {
    for (const { metadata, spec } of this.#options.cluster.inferenceServices.values()) {
      if (!spec.ok || !this.#changedModels.has(keyOf(metadata.namespace, spec.value.modelRef))) continue
      this.enqueue(keyOf(metadata.namespace, metadata.name))
    }
    this.#changedModels.clear()
  }

  #enqueueOwner(object: { readonly metadata: InferenceService['metadata'] } | undefined): void {
    const name = object?.metadata.labels[labels.inferenceService]
    if (object && name !== undefined) this.enqueue(keyOf(object.metadata.namespace, name))
  }

  #record(key: string): ServiceRecord {
    const known = this.#records.get(key)
    if (known) return known
    const record = { ...newRecord(key), ...this.#found(key) }
    this.#records.set(key, record)
    return record
  }

  /** What an earlier agent started and told of, or this one for an earlier look at the cluster. */
  #found(key: string): Partial<ServiceRecord> {
    const { servers } = this.#options
    const pid = pidOf(servers.get(key))
    const next = { digest: servers.digestOf(key, 'successor'), startedPid: pidOf(servers.successor(key)) }
    return {
      ...(pid !== undefined && { digest: servers.digestOf(key), startedPid: pid, toldReadyPid: pid }),
      ...(next.startedPid !== undefined && { successor: { ...next, digest: next.digest ?? unknownDigest } }),
    }
  }
}

export type EventReason =
  | DownloadNote['reason']
  | 'Claimed'
  | 'Started'
  | 'Ready'
  | 'StartFailed'
  | 'Stopped'
  | 'Evicted'
  | 'EvictionSkipped'
  | 'RespawnBlocked'
  | 'MemoryPressureLevelChanged'
  | Extract<ServiceReason, 'Refused' | 'InsufficientMemory' | 'MemoryCheckFailed'>

/** Somebody may have cleared the store since the model was fetched; why it cannot be read is for the next fetch to say. */
const isThere = (file: string): Promise<boolean> =>
  access(file).then(
    () => true,
    () => false,
  )

/** It is not asked for, so that when it is again, somebody wants it. */
const isEnded = ({ kind }: Desired): boolean =>
  kind === 'gone' || kind === 'stopped' || kind === 'held' || kind === 'notOurs'

/** A model that has to go lets its requests finish for a few seconds: memory is what is short. */
const evictionDrainMs = 5_000

const memoryReasons: ReadonlySet<ServiceReason> = new Set(['InsufficientMemory', 'MemoryCheckFailed', 'MemoryPressure'])

interface Sizing {
  readonly wanted: WantedServer
  readonly model: LocalModel
  readonly env: Readonly<Record<string, string>>
  readonly dialect: LlamaServerDialect | undefined
}

/** Whatever the answer to a start depends on that a person can change. */
function admissionKey({ digest, model, spec }: WantedServer): string {
  const { memoryBudget, memoryFraction } = model.hardware ?? {}
  return JSON.stringify([digest, memoryBudget, memoryFraction, spec.priority])
}

/** As a person would have to write it. */
const changed = (spec: InferenceServiceSpec, { contextTokens, kvType, slots }: ServerChange): InferenceServiceSpec => ({
  ...spec,
  ...(contextTokens !== undefined && { contextSize: contextTokens }),
  ...(slots !== undefined && { parallelSlots: slots }),
  ...(kvType !== undefined && {
    cacheTypeK: kvType,
    cacheTypeV: kvType,
    cacheTypeCustomK: undefined,
    cacheTypeCustomV: undefined,
  }),
})

/** A sentence is read to its end where it names few. */
const waysNamed = 2

function refusalSentence({ message, ways }: MemoryRefusal): string {
  const named = ways.slice(0, waysNamed).map(({ sentence }) => sentence.charAt(0).toLowerCase() + sentence.slice(1))
  return named.length === 0 ? `${message}.` : `${message}. What would make it fit: ${named.join('; or ')}.`
}

const insteadSentence = (refusal: MemoryRefusal): string =>
  `The specification changed, but the new server would not fit, so the previous one keeps serving: ${refusalSentence(refusal)}`

const silentlyNot: Beside = { allowed: false, why: '' }

const replaced = 'A new server took its place.'

const pidOf = (state: ServerState | undefined): number | undefined =>
  state && !isOver(state) && 'pid' in state ? state.pid : undefined

/** It serves, or will. */
const isOnItsWay = (state: ServerState | undefined): boolean =>
  state?.kind === 'starting' || state?.kind === 'loading' || state?.kind === 'ready'

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

/** Whether a start came to something. */
const isOutcome = (state: ServerState): boolean =>
  state.kind === 'ready' || state.kind === 'failedToSpawn' || (state.kind === 'exited' && state.cause !== 'stopped')

/** What a person should look at. */
const troubles = new Set<ServiceReason>([
  'FetchFailed',
  'StartFailed',
  'CrashLooping',
  'Refused',
  'ModelMissing',
  'ServiceNameTaken',
  'NoHostAddress',
  'ClaimOverwritten',
])

/** On the way to somewhere, and told by the lines of the step that is taken. */
const passing = new Set<ServiceState>(['fetching', 'starting', 'stopping'])

const earliest = (...times: readonly (number | undefined)[]): number | undefined => {
  const known = times.filter((time) => time !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}
