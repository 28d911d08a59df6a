import { isDeepStrictEqual } from 'node:util'
import type { InferenceService } from '../kube/resources.ts'
import { isOurCondition } from '../kube/status-writer.ts'
import type { PressureChange } from '../memory/watchdog.ts'
import { labels } from '../publishing/objects.ts'
import { isOnlyHeartbeat } from '../publishing/publisher.ts'
import { Admission } from './admission.ts'
import { ManagedService } from './managed-service.ts'
import { ServiceNames } from './reading.ts'
import { isOnItsWay } from './server-view.ts'
import type { ServiceReport } from './service-report.ts'
import type { ServiceRooms, SessionRooms } from './service-rooms.ts'
import type { UnloadReason } from './unload-reasons.ts'
import { WorkQueue, type WorkQueueOptions } from './work-queue.ts'
import type { ServerState } from '../servers/server-state.ts'
import { keyOf } from '../util/object-key.ts'
import { steadyNow, wallTimeOf } from '../util/steady-clock.ts'
import type { UnservedView } from '../../contract/doctor.ts'
import { formatBytes } from '../../contract/format.ts'

/**
 * LLMKube's controller rewrites the status after every heartbeat, mostly with only other times. A change in nothing that is read here
 * is no reason for a pass.
 */
export function isOnlyStatusNoise(before: InferenceService | undefined, after: InferenceService | undefined): boolean {
  return before !== undefined && after !== undefined && isDeepStrictEqual(essence(before), essence(after))
}

function essence({ metadata, spec, status }: InferenceService): object {
  const { phase, readyReplicas, desiredReplicas, schedulingStatus } = status
  return {
    metadata: { ...metadata, resourceVersion: '', managedFields: [] },
    spec,
    status: { phase, readyReplicas, desiredReplicas, schedulingStatus },
    conditions: status.conditions.filter(({ type }) => isOurCondition(type)),
  }
}

export interface ReconcilerOptions extends SessionRooms {
  readonly onPass?: WorkQueueOptions['onPass']
  readonly now?: () => number
  readonly random?: () => number
}

/**
 * Brings each service into the work queue when something it depends on has changed: an object of the cluster, a server, memory, the clock.
 * Its {@link ManagedService} then decides what to do.
 */
export class Reconciler {
  readonly #options: ReconcilerOptions
  readonly #queue: WorkQueue
  readonly #services = new Map<string, ManagedService>()
  readonly #rooms: ServiceRooms
  readonly #admission: Admission
  readonly #names = new ServiceNames()
  /** Models that changed in this turn of the event loop. */
  readonly #changedModels = new Set<string>()
  #unsubscribe: readonly (() => void)[] = []
  #isStopped = false
  #leaving:
    { readonly hold: Extract<UnloadReason, { kind: 'held' }>; readonly isLeft: (key: string) => boolean } | undefined

  constructor(options: ReconcilerOptions) {
    const { memory, narrator, log, onPass } = options
    const { now = steadyNow, random = Math.random } = options
    const enqueue = (key: string): void => this.enqueue(key)
    this.#options = options
    this.#admission = new Admission({
      memory,
      narrator,
      log,
      isProtected: (key) => this.#services.get(key)?.isProtected ?? false,
      enqueue,
      onChange: options.onChange,
      now,
    })
    this.#rooms = {
      ...options,
      admission: this.#admission,
      names: this.#names,
      enqueue,
      leaving: (key) => (this.#leaving?.isLeft(key) === true ? this.#leaving.hold : undefined),
      isStopped: () => this.#isStopped,
      now,
      random,
    }
    this.#queue = new WorkQueue({
      reconcile: (key) => this.#reconcile(key),
      log,
      ...(onPass && { onPass }),
      now,
      random,
    })
  }

  start(): void {
    const { cluster, servers, memory, launches, log } = this.#options
    this.#unsubscribe = [
      cluster.inferenceServices.onChange((change) => {
        this.#names.follow(change)
        const { key, before, after } = change
        if (!isOnlyStatusNoise(before, after)) this.enqueue(key)
        // A name that is taken or free now concerns all that need it.
        if (!before || !after) this.#enqueueSharers(after ?? before)
      }),
      cluster.models.onChange(({ key }) => this.#enqueueUsersOf(key)),
      cluster.services.onChange(({ before, after }) => this.#enqueueOwner(after ?? before)),
      cluster.slices.onChange(({ before, after }) => {
        if (!isOnlyHeartbeat(before, after)) this.#enqueueOwner(after ?? before)
      }),
      servers.onChange((key, state) => this.#serverChanged(key, state)),
      memory.listen({ onPressure: (change) => this.#pressureChanged(change) }),
    ]
    launches.learnDialect().catch((error: unknown) => log.debug('llama-server not asked yet', { error }))
  }

  enqueue(key: string): void {
    this.#queue.add(key)
  }

  enqueueAll(): void {
    const { cluster, servers, unloadReasons } = this.#options
    for (const { metadata } of cluster.inferenceServices.values())
      this.enqueue(keyOf(metadata.namespace, metadata.name))
    for (const object of [...cluster.slices.values(), ...cluster.services.values()]) this.#enqueueOwner(object)
    for (const { namespace, name } of unloadReasons.placesIn(cluster.api.context.server))
      this.enqueue(keyOf(namespace, name))
    for (const key of [...this.#services.keys(), ...servers.state().keys()]) this.enqueue(key)
  }

  /** The cluster answers again: what waited for it waits no longer. */
  retryAll(): void {
    for (const service of this.#services.values()) service.retryCluster()
    this.#options.narrator.retryReports()
    this.enqueueAll()
  }

  /**
   * A person wants a new server process, also in place of one that serves; asked again before that is there, it is one restart.
   * False where there is no such service.
   */
  restart(key: string): boolean {
    return this.#services.get(key)?.restart() ?? false
  }

  /** What left memory for want of requests comes back; false where that is not so. */
  wake(key: string): boolean {
    return this.#services.get(key)?.wake() ?? false
  }

  /** Settings that decide about memory have changed. */
  memoryRulesChanged(): void {
    this.#admission.rulesChanged()
  }

  /** For good: servers of these services are stopped and their claims released, and the sentence is what people read of it. */
  leave(message: string, isLeft: (key: string) => boolean): void {
    const since = wallTimeOf(this.#rooms.now()).toISOString()
    this.#leaving = { hold: { kind: 'held', cause: 'stopped', since, message }, isLeft }
    this.enqueueAll()
  }

  /**
   * After {@link leave}: what has not come down yet, with its sentence for people. Of the others nothing runs, and they are withdrawn as
   * far as the cluster takes it.
   */
  get stillHere(): { readonly key: string; readonly message: string }[] {
    return [...this.#services.values()].flatMap(({ key, stillHere }) =>
      stillHere === undefined || this.#leaving?.isLeft(key) !== true ? [] : [{ key, message: stillHere }],
    )
  }

  report(key: string): ServiceReport | undefined {
    return this.#services.get(key)?.report()
  }

  /** Every InferenceService that the cluster has and this machine does not serve, with the sentence why. */
  unserved(): UnservedView[] {
    return [...this.#options.cluster.inferenceServices.values()].flatMap(({ metadata: { namespace, name } }) => {
      const decision = this.#services.get(keyOf(namespace, name))?.decision
      if (decision?.isServed === true) return []
      const { message, isForOthers } = decision ?? { message: 'The agent has not checked it yet.', isForOthers: false }
      return [{ namespace, name, isForOthers, message }]
    })
  }

  /** What the next servers would be started with, by service. */
  modelFiles(): { readonly service: string; readonly files: readonly string[] }[] {
    return [...this.#services.values()]
      .map(({ key, modelFiles }) => ({ service: key, files: modelFiles }))
      .filter(({ files }) => files.length > 0)
  }

  /** Every service that is shown, in no order. */
  reports(): ServiceReport[] {
    return [...this.#services.values()].flatMap((service) => service.report() ?? [])
  }

  /** The sentence and the model names of every service that is shown, for less work than their reports. */
  outlooks(): NonNullable<ManagedService['outlook']>[] {
    return [...this.#services.values()].flatMap((service) => service.outlook ?? [])
  }

  /** No further pass; downloads under way are dropped. What runs and is published stays as it is. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#admission[Symbol.dispose]()
    for (const unsubscribe of this.#unsubscribe) unsubscribe()
    for (const service of this.#services.values()) service.stop()
    await this.#queue.stop()
  }

  /** After `stop`: an agent that is gone cannot correct what its status says. */
  async sayStopped(displayName: string): Promise<void> {
    const { narrator } = this.#options
    const claimed = [...this.#services.values()].filter(({ isClaimed }) => isClaimed)
    await Promise.all(claimed.map(({ key }) => narrator.sayStopped(key, displayName)))
  }

  async #reconcile(key: string): Promise<number | undefined> {
    const rest = await this.#service(key).reconcile()
    if (rest.kind === 'rest') return rest.again
    this.#services.delete(key)
    return undefined
  }

  #service(key: string): ManagedService {
    const known = this.#services.get(key)
    if (known) return known
    const service = new ManagedService(key, this.#rooms)
    this.#services.set(key, service)
    return service
  }

  #serverChanged(key: string, state: ServerState): void {
    this.#service(key).serverChanged(state)
    if (state.kind !== 'exited' || !state.settled) return
    if (state.cause !== 'stopped') return
    this.#options.servers.clearBackOff(key)
    for (const service of this.#services.values()) service.retryFailedStart()
  }

  #pressureChanged({ from, to, view }: PressureChange): void {
    const { servers, memory, narrator, log } = this.#options
    const isNormal = to === 'normal'
    log[isNormal ? 'info' : 'warn']('memory pressure', { from, to })
    const total = view.figures === undefined ? '' : ` of ${formatBytes(view.figures.totalBytes)}`
    const message = `Memory pressure went from ${from} to ${to}; the models here hold ${formatBytes(memory.heldTogether())}${total}.`
    const isNews = from !== 'unknown' && to !== 'unknown'
    for (const key of this.#services.keys()) {
      if (isNews && isOnItsWay(servers.get(key))) narrator.tell(key, { kind: 'pressureChanged', isNormal, message })
      this.enqueue(key)
    }
  }

  /** Models that change in one turn, as in a list, cost one look at the services. */
  #enqueueUsersOf(modelKey: string): void {
    if (this.#changedModels.size === 0) queueMicrotask(() => this.#enqueueUsersOfChanged())
    this.#changedModels.add(modelKey)
  }

  #enqueueUsersOfChanged(): void {
    for (const { metadata, spec } of this.#options.cluster.inferenceServices.values()) {
      const { modelRef, speculativeDecoding: { draftModelRef = '' } = {} } = spec.value
      const names = [modelRef, draftModelRef]
      if (!names.some((name) => this.#changedModels.has(keyOf(metadata.namespace, name)))) continue
      this.enqueue(keyOf(metadata.namespace, metadata.name))
    }
    this.#changedModels.clear()
  }

  /** Enqueues the service that a published object was made for, and those that wait for its name. */
  #enqueueOwner(object: Named | undefined): void {
    const name = object?.metadata.labels[labels.inferenceService]
    if (object && name !== undefined) this.enqueue(keyOf(object.metadata.namespace, name))
    this.#enqueueSharers(object)
  }

  /** Enqueues every InferenceService whose Service has this object's name. */
  #enqueueSharers(object: Named | undefined): void {
    if (!object) return
    for (const { namespace, name } of this.#names.sharing(object.metadata)) this.enqueue(keyOf(namespace, name))
  }
}

interface Named {
  readonly metadata: InferenceService['metadata']
}
