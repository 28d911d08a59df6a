import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { localUrl } from '../../contract/ask.ts'
import { LinkError, type Listener, type Looker, type Unsubscribe } from '../../contract/client.ts'
import type { ClusterView } from '../../contract/cluster.ts'
import type { CommandRequest, CommandResult } from '../../contract/commands.ts'
import type { Answer, Query } from '../../contract/queries.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'
import type { StreamItem, StreamRequest } from '../../contract/log.ts'
import type { AgentOptions, ServersAtEnd } from './agent-options.ts'
import { notConnected } from '../cluster/cluster-link.ts'
import { keyOf, refKey } from '../util/object-key.ts'
import type { AgentRooms } from './agent-rooms.ts'
import { openRooms } from './rooms.ts'
import type { Readiness } from '../observability/health-server.ts'
import { AgentMetrics } from '../observability/agent-metrics.ts'
import { runtimes } from '../runtimes/runtimes.ts'
import { adoptServers } from '../servers/adoption.ts'
import type { ServerRuntime } from '../servers/probe.ts'
import type { Servers } from '../servers/servers.ts'
import { isOver } from '../servers/server-state.ts'
import { noAddress } from '../publishing/host-address.ts'
import { askModel } from '../api/ask.ts'
import { Commands } from '../api/commands.ts'
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
  /** Ends the rooms in the reverse order of their beginning. */
  readonly #ends = new AsyncDisposableStack()
  readonly #notices: string[]
  /** Settles in `start`, once what an earlier agent left running is taken over. */
  readonly #opened = Promise.withResolvers<AgentRooms>()
  /** Undefined until what is kept in the state folder was read. */
  #rooms: AgentRooms | undefined
  #commands: Commands | undefined
  #stopping: Promise<void> | undefined

  constructor(options: AgentOptions) {
    const { notices, identity } = options
    this.#options = options
    this.#notices = [...notices, ...(identity.notice === undefined ? [] : [identity.notice])]
    this.#opened.promise.catch(() => undefined)
    this.#ends.use(this.metrics)
    this.#ends.use(this.#snapshots)
    this.#snapshots.register(() => ({ notices: this.#notices }))
  }

  /** The machine is about to sleep: nothing is published until {@link resume}. */
  async suspend(): Promise<void> {
    await this.#rooms?.sleep.suspend()
  }

  /** The machine woke, or may have slept: everything is read and verified again. */
  async resume(): Promise<void> {
    await this.#rooms?.sleep.resume()
  }

  /** The machine runs on mains or on a battery now, unlike before. */
  supplyChanged(): void {
    void this.#rooms?.supply.changed()
  }

  snapshot(looker?: Looker): AgentSnapshot {
    return this.#snapshots.get(looker)
  }

  /** One look: servers are asked for their figures first, for as long as a second. */
  async look(): Promise<AgentSnapshot> {
    await Promise.all([this.#rooms?.figures.refresh(), this.#rooms?.supply.fresh()])
    return this.#snapshots.get()
  }

  subscribe(listener: () => void, looker?: Looker): () => void {
    return this.#snapshots.subscribe(listener, looker)
  }

  /** Never rejects but where the state folder cannot be used. */
  async command(request: CommandRequest): Promise<CommandResult> {
    const rooms = await this.#opened.promise
    this.#commands ??= new Commands(rooms)
    return this.#commands.run(request)
  }

  /** Throws LinkError where there is no answer, or the signal is aborted before there is one. */
  async query(query: Query, signal?: AbortSignal): Promise<Answer> {
    return answer(await this.#opened.promise, query, signal)
  }

  stream(request: StreamRequest, listener: Listener<StreamItem>): Unsubscribe {
    let leave: Unsubscribe | undefined
    let hasLeft = false
    const begin = ({ servers }: AgentRooms) => {
      if (hasLeft) return
      leave =
        request.name === 'ask'
          ? this.#ask(request, listener)
          : followLog(servers.outputOf(refKey(request.service)), request, listener)
    }
    this.#opened.promise.then(begin, (error: unknown) => {
      if (!hasLeft) listener.end(new LinkError('gone', 'The agent could not be started.', { cause: error }))
    })
    return () => {
      hasLeft = true
      leave?.()
    }
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
    return this.#rooms?.link.session?.reconciler.restart(keyOf(namespace, name)) ?? false
  }

  /** Useful = it sees the cluster, or knows that what it sees is old, and there is an address to publish. */
  readiness(): Readiness {
    const cluster = this.#clusterView()
    if (cluster.state !== 'live' && cluster.state !== 'stale') return { ready: false, message: cluster.message }
    const { ip, message } = this.#rooms?.address.facts ?? noAddress
    if (ip === undefined) return { ready: false, message }
    return { ready: true, message: cluster.message }
  }

  /** Returns at once where the cluster is not there: the agent keeps looking for it. Throws what the state folder's disk answers. */
  async start(): Promise<void> {
    const rooms = await this.#begin().catch((error: unknown) => {
      this.#opened.reject(error)
      throw error
    })
    this.#opened.resolve(rooms)
    await rooms.link.connect()
    rooms.address.watch()
  }

  /**
   * `stop` withdraws what is published, lets the servers finish and releases the claims: nothing is left that says ready. `keep` leaves
   * servers and what is published to the next agent, which must renew the claims within three minutes. The first call decides.
   */
  stop({ servers = 'stop' }: { servers?: ServersAtEnd } = {}): Promise<void> {
    this.#stopping ??= this.#end(servers)
    return this.#stopping
  }

  /** A stop under way, or one that comes, waits for no requests in flight from now on. */
  cutDrains(): void {
    this.#rooms?.servers.cutDrains()
  }

  async #end(servers: ServersAtEnd): Promise<void> {
    if (this.#rooms) await (servers === 'stop' ? this.#stop(this.#rooms) : this.#leave(this.#rooms))
    await this.#ends.disposeAsync()
  }

  async #stop({ narrator, ledger, link, gateway, servers, daemons }: AgentRooms): Promise<void> {
    narrator.leave()
    await ledger.leaving()
    await link.stopDeciding()
    await link.withdraw({ hasServers: runningServers(servers).length > 0 })
    await Promise.all([servers.stopAll(), link.sayStopped(this.#options.identity.displayName)])
    await link.release()
    // Requests that went through it have been answered by the servers, which drained.
    await gateway?.end()
    await servers.letGo()
    // Nothing is in their memory now.
    await daemons.stop()
  }

  async #leave({ ledger, link, servers, daemons }: AgentRooms): Promise<void> {
    await ledger.leaving()
    await link.stopDeciding()
    const kept = runningServers(servers)
    await Promise.all([servers.letGo(), daemons.letGo()])
    this.#options.log.info('servers keep running', {
      services: kept,
      heartbeats: 'stopped: without an agent the cluster calls them stale after 180 s',
    })
  }

  /** Everything but the cluster. */
  async #begin(): Promise<AgentRooms> {
    const { options, metrics } = { options: this.#options, metrics: this.metrics }
    const { platform, log, onLogLevel } = options
    const isEnding = () => this.#stopping !== undefined
    const rooms = await openRooms({ options, metrics, snapshots: this.#snapshots, ends: this.#ends, isEnding })
    this.#rooms = rooms
    const { settings, servers, daemons, memory, models, power, installed, gateway } = rooms
    this.#warn(rooms.notices)
    platform.onLimitation?.((sentence) => this.#warn([sentence]))
    onLogLevel?.(settings.current.logLevel)
    this.#warn(await daemons.adopt())
    await this.#adopt(rooms)
    daemons.begin()
    gateway?.start()
    countServers(servers, memory)
    await memory.start()
    await this.#makeModelStore()
    models.start()
    const notLooked = (error: unknown) => log.warn('runtimes not checked', { error })
    // Before the first service is read: a model that names no runtime gets one that is here.
    await installed.find().catch(notLooked)
    installed.look().catch(notLooked)
    power.settingsChanged()
    return rooms
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

  async #adopt({ turns, history, ledger, servers }: AgentRooms): Promise<void> {
    const { platform, log, settings } = this.#options
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

  #ask({ service, question }: Extract<StreamRequest, { name: 'ask' }>, listener: Listener<StreamItem>): Unsubscribe {
    const { services, host } = this.#snapshots.get()
    const view = services.find(({ namespace, name }) => namespace === service.namespace && name === service.name)
    const url = view && localUrl(view, host.clientProxy)
    if (url !== undefined) return askModel(url, question, listener)
    listener.end(
      new LinkError('refused', `${refKey(service)} is not serving: ${view?.message ?? 'it is not known here.'}`),
    )
    return () => undefined
  }

  /** What counts now: what the agent was started with, and what a person set since. */
  get #settings(): AgentSettings {
    return this.#rooms?.settings.current ?? this.#options.settings
  }

  #clusterView(): ClusterView {
    return this.#rooms?.link.view() ?? notConnected(this.#options.settings.context)
  }

  #snapshotBase(): SnapshotBase {
    const { identity, platform, version } = this.#options
    const { ip, message } = this.#rooms?.address.facts ?? noAddress
    const clientProxy = this.#rooms?.gateway?.url
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
        paused: this.#rooms?.unloadReasons.pausedSince !== undefined,
      },
      cluster: this.#clusterView(),
    }
  }
}

const runningServers = (servers: Servers): string[] =>
  [...servers.state()].filter(([, state]) => !isOver(state)).map(([key]) => key)
