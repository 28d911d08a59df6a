import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { LinkError, type Listener, type Looker, type Unsubscribe } from '../../contract/client.ts'
import type { ClusterView } from '../../contract/cluster.ts'
import type { CommandRequest, CommandResult, ServiceRef } from '../../contract/commands.ts'
import type { Answer, Query } from '../../contract/queries.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'
import type { StreamItem, StreamRequest } from '../../contract/log.ts'
import type { AgentOptions, ServersAtEnd } from './agent-options.ts'
import { type ControlRooms, type Machine, openControlRooms } from './control-rooms.ts'
import { notConnected } from '../cluster/cluster-link.ts'
import { keyOf, refKey } from '../util/object-key.ts'
import { followForScrapes, machineRooms, type MachineRooms, type RoomContext } from './machine-rooms.ts'
import type { Readiness } from '../observability/health-server.ts'
import { AgentMetrics } from '../observability/agent-metrics.ts'
import { runtimes } from '../runtimes/runtimes.ts'
import { adoptServers } from '../servers/adoption.ts'
import type { ServerRuntime } from '../servers/probe.ts'
import { isOver } from '../servers/server-state.ts'
import type { ReadableOutput } from '../servers/output.ts'
import { noAddress } from '../publishing/host-address.ts'
import { answer } from '../api/queries.ts'
import { followLog } from '../api/server-queries.ts'
import { countServers } from '../reconcile/server-memory.ts'
import { hasCode } from '../util/files.ts'
import { launchRules } from '../api/settings.ts'
import type { AgentSettings } from '../settings/settings.ts'
import { type SnapshotBase, SnapshotStore } from './snapshot.ts'

/** The composition root of the core: builds the rooms, starts and stops them in order. */
export class Agent {
  readonly metrics = new AgentMetrics()
  readonly #options: AgentOptions
  readonly #bootId = randomUUID()
  readonly #startedAt = Date.now()
  readonly #snapshots = new SnapshotStore(() => this.#snapshotBase())
  readonly #context: RoomContext
  readonly #rooms: MachineRooms
  readonly #notices: string[]
  /** Settles in `start`, once what an earlier agent left running is taken over. */
  readonly #opened = Promise.withResolvers<ControlRooms>()
  #kept: ControlRooms | undefined
  #machine: Machine = { performanceCores: undefined, hasMetal: false }
  #stopping: Promise<void> | undefined

  constructor(options: AgentOptions) {
    const { notices, identity } = options
    this.#options = options
    this.#notices = [...notices, ...(identity.notice === undefined ? [] : [identity.notice])]
    this.#opened.promise.catch(() => undefined)
    this.#context = {
      options,
      metrics: this.metrics,
      snapshots: this.#snapshots,
      ends: new AsyncDisposableStack(),
      settings: () => this.#settings,
      session: () => this.#kept?.link.session,
    }
    this.#context.ends.use(this.metrics)
    this.#context.ends.use(this.#snapshots)
    this.#snapshots.register(() => ({ notices: this.#notices }))
    this.#rooms = machineRooms(this.#context)
    followForScrapes(this.#context, this.#rooms, () => this.#kept?.gateway)
  }

  /** The machine is about to sleep: nothing is published until {@link resume}. */
  async suspend(): Promise<void> {
    await this.#kept?.sleep.suspend()
  }

  /** The machine woke, or may have slept: everything is read and verified again. */
  async resume(): Promise<void> {
    await this.#kept?.sleep.resume()
  }

  /** The machine runs on mains or on a battery now, unlike before. */
  supplyChanged(): void {
    void this.#kept?.supply.changed()
  }

  snapshot(looker?: Looker): AgentSnapshot {
    return this.#snapshots.get(looker)
  }

  /** One look: servers are asked for their figures first, for as long as a second. */
  async look(): Promise<AgentSnapshot> {
    await Promise.all([this.#rooms.figures.refresh(), this.#kept?.supply.fresh()])
    return this.#snapshots.get()
  }

  subscribe(listener: () => void, looker?: Looker): () => void {
    return this.#snapshots.subscribe(listener, looker)
  }

  /** Never rejects but where the state folder cannot be used. */
  async command(request: CommandRequest): Promise<CommandResult> {
    const { commands } = await this.#opened.promise
    return commands.run(request)
  }

  /** Throws LinkError where there is no answer, or the signal is aborted before there is one. */
  async query(query: Query, signal?: AbortSignal): Promise<Answer> {
    return answer(await this.#opened.promise, query, signal)
  }

  stream(request: StreamRequest, listener: Listener<StreamItem>): Unsubscribe {
    let leave: Unsubscribe | undefined
    let hasLeft = false
    const begin = () => {
      if (!hasLeft) leave = followLog(this.#output(request.service), request, listener)
    }
    this.#opened.promise.then(begin, (error: unknown) => {
      if (!hasLeft) listener.end(new LinkError('gone', 'The agent could not be started.', { cause: error }))
    })
    return () => {
      hasLeft = true
      leave?.()
    }
  }

  #output(service: ServiceRef): ReadableOutput {
    return this.#rooms.servers.outputOf(refKey(service))
  }

  /** How long requests in flight may hold up a stop, in milliseconds: a server keeps the limit it was started with. */
  get longestDrainMs(): number {
    return Math.max(this.#options.settings.drainLimitMs, this.#settings.drainLimitMs)
  }

  /** Adds a true sentence that every reader of a snapshot should know. */
  notice(sentence: string): void {
    this.#notices.push(sentence)
    this.#snapshots.changed()
  }

  /** Gives a service a new server process; false where it is not known. */
  restart(namespace: string, name: string): boolean {
    return this.#kept?.link.session?.reconciler.restart(keyOf(namespace, name)) ?? false
  }

  /** Useful = it sees the cluster, or knows that what it sees is old, and there is an address to publish. */
  readiness(): Readiness {
    const cluster = this.#clusterView()
    if (cluster.state !== 'live' && cluster.state !== 'stale') return { ready: false, message: cluster.message }
    const { ip, message } = this.#kept?.address.facts ?? noAddress
    if (ip === undefined) return { ready: false, message }
    return { ready: true, message: cluster.message }
  }

  /** Returns at once where the cluster is not there: the agent keeps looking for it. Throws what the state folder's disk answers. */
  async start(): Promise<void> {
    const kept = await this.#begin().catch((error: unknown) => {
      this.#opened.reject(error)
      throw error
    })
    this.#opened.resolve(kept)
    await kept.link.connect()
    kept.address.watch()
  }

  /**
   * `stop` withdraws what is published, lets the servers finish and releases the claims: nothing is left that says ready. `keep` leaves
   * servers and what is published to the next agent, which must renew the claims within three minutes. The first call decides.
   */
  stop({ servers = 'stop' }: { servers?: ServersAtEnd } = {}): Promise<void> {
    this.#stopping ??= servers === 'stop' ? this.#stop() : this.#leave()
    return this.#stopping
  }

  /** A stop under way, or one that comes, waits for no requests in flight from now on. */
  cutDrains(): void {
    this.#rooms.servers.cutDrains()
  }

  async #stop(): Promise<void> {
    const { narrator, link, gateway } = this.#kept ?? {}
    narrator?.leave()
    await this.#rooms.ledger.leaving()
    await link?.stopDeciding()
    await link?.withdraw({ hasServers: this.#runningServers().length > 0 })
    await Promise.all([this.#rooms.servers.stopAll(), link?.sayStopped(this.#options.identity.displayName)])
    await link?.release()
    // Requests that went through it have been answered by the servers, which drained.
    await gateway?.end()
    await this.#rooms.servers.letGo()
    // Nothing is in their memory now.
    await this.#rooms.daemons.stop()
    await this.#context.ends.disposeAsync()
  }

  #runningServers(): string[] {
    return [...this.#rooms.servers.state()].filter(([, state]) => !isOver(state)).map(([key]) => key)
  }

  async #leave(): Promise<void> {
    await this.#rooms.ledger.leaving()
    await this.#kept?.link.stopDeciding()
    const kept = this.#runningServers()
    await Promise.all([this.#rooms.servers.letGo(), this.#rooms.daemons.letGo()])
    this.#options.log.info('servers keep running', {
      services: kept,
      heartbeats: 'stopped: without an agent the cluster calls them stale after 180 s',
    })
    await this.#context.ends.disposeAsync()
  }

  /** Everything but the cluster. */
  async #begin(): Promise<ControlRooms> {
    const { platform, log, onLogLevel } = this.#options
    const { servers, daemons, memory, models, power, installed } = this.#rooms
    const kept = await openControlRooms({
      ...this.#context,
      rooms: this.#rooms,
      machine: () => this.#machine,
      isEnding: () => this.#stopping !== undefined,
    })
    this.#kept = kept
    this.#warn(kept.notices)
    platform.onLimitation?.((sentence) => this.#warn([sentence]))
    onLogLevel?.(kept.settings.current.logLevel)
    const performanceCores = await platform.performanceCores().catch((error: unknown) => {
      log.warn('performance cores not known', { error })
      return undefined
    })
    this.#machine = { performanceCores, hasMetal: (await platform.metal()).available }
    this.#warn(await daemons.adopt())
    await this.#adopt(kept)
    daemons.begin()
    kept.gateway?.start()
    countServers(servers, memory)
    await memory.start()
    await this.#makeModelStore()
    models.start()
    const notLooked = (error: unknown) => log.warn('runtimes not checked', { error })
    // Before the first service is read: a model that names no runtime gets one that is here.
    await installed.find().catch(notLooked)
    installed.look().catch(notLooked)
    power.settingsChanged()
    return kept
  }

  /**
   * A store that this agent makes is left out of backups, once: a person may want it in them again. Where the folder above is missing it may be
   * on a volume that is not there now.
   */
  async #makeModelStore(): Promise<void> {
    const { platform, log, settings } = this.#options
    if (!platform.leaveOutOfBackups) return
    try {
      await mkdir(settings.modelStore)
      await platform.leaveOutOfBackups(settings.modelStore)
    } catch (error) {
      if (hasCode(error, 'EEXIST') || hasCode(error, 'ENOENT') || hasCode(error, 'EACCES')) return
      log.warn('the model store is in backups', { store: settings.modelStore, error })
    }
  }

  async #adopt({ turns, history }: ControlRooms): Promise<void> {
    const { platform, log, settings } = this.#options
    const { ledger, servers } = this.#rooms
    const { stateDir } = settings
    const rules = (runtime: ServerRuntime) => launchRules(this.#settings, runtimes[runtime])
    const onUncleanBoot = () => {
      turns.begin()
      history.add({ kind: 'machineEnded', message: turns.notice ?? '' })
    }
    this.#warn(await adoptServers({ ledger, servers, platform, log, stateDir, rules, onUncleanBoot }))
    servers.sweepRuns().catch((error: unknown) => log.warn('output of earlier servers not read', { error }))
  }

  #warn(notices: readonly string[]): void {
    for (const notice of notices) {
      this.#options.log.warn('notice', { text: notice })
      this.notice(notice)
    }
  }

  /** What counts now: what the agent was started with, and what a person set since. */
  get #settings(): AgentSettings {
    return this.#kept?.settings.current ?? this.#options.settings
  }

  #clusterView(): ClusterView {
    return this.#kept?.link.view() ?? notConnected(this.#options.settings.context)
  }

  #snapshotBase(): SnapshotBase {
    const { identity, platform, version } = this.#options
    const { ip, message } = this.#kept?.address.facts ?? noAddress
    const clientProxy = this.#kept?.gateway?.url
    return {
      bootId: this.#bootId,
      version,
      startedAt: this.#startedAt,
      now: Date.now(),
      host: {
        nodeId: identity.nodeId,
        displayName: identity.displayName,
        platform: platform.name,
        ...(ip !== undefined && { address: ip }),
        ...(clientProxy !== undefined && { clientProxy }),
        message,
        paused: this.#kept?.unloadReasons.pausedSince !== undefined,
      },
      cluster: this.#clusterView(),
    }
  }
}
