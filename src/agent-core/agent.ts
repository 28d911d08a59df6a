import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { LinkError, type Listener, type Unsubscribe } from '../contract/client.ts'
import type { ClusterView } from '../contract/cluster.ts'
import type { CommandRequest, CommandResult, ServiceRef } from '../contract/commands.ts'
import type { Answer, Query } from '../contract/queries.ts'
import type { AgentSnapshot } from '../contract/snapshot.ts'
import type { StreamItem, StreamRequest } from '../contract/streams.ts'
import { Commands } from './commands/commands.ts'
import type { Rooms, ShutdownRequest } from './commands/rooms.ts'
import { serverFeed, snapshotFeed } from './history/history-feed.ts'
import { History } from './history/history.ts'
import { Cluster } from './kube/cluster.ts'
import { EventRecorder } from './kube/event-recorder.ts'
import { keyOf, splitKey } from './kube/object-cache.ts'
import { KubeconfigError, PinnedContext } from './kube/pinned-context.ts'
import { parseEndpointSlice, parseService, resources } from './kube/resources.ts'
import { StatusWriter } from './kube/status-writer.ts'
import { parseRecommendedWorkingSet } from './memory/gpu-limit.ts'
import { Memory, type MemorySettings } from './memory/memory.ts'
import { Models } from './models/models.ts'
import type { DownloadSettings } from './models/remote.ts'
import type { Readiness } from './observability/health-server.ts'
import type { Logger } from './observability/logger.ts'
import { AgentMetrics } from './observability/metrics.ts'
import { memoryMetricsFeed } from './observability/memory-metrics.ts'
import { serviceMetricsFeed } from './observability/service-metrics.ts'
import type { Platform } from './platform/platform.ts'
import { adoptServers } from './process/adopt-servers.ts'
import type { GeneralRules, PortPolicy } from './process/launch.ts'
import { Ledger } from './process/ledger.ts'
import type { LivenessTimings } from './process/liveness.ts'
import { isOver } from './process/server-state.ts'
import type { ReadableOutput } from './process/output-log.ts'
import type { OutputLimits } from './process/output-rotation.ts'
import { serverFiles, serverFolders } from './process/server-files.ts'
import { Servers } from './process/servers.ts'
import { chosenHostAddress } from './publishing/chosen-address.ts'
import { hostAddress, type HostAddress } from './publishing/host-address.ts'
import { Publisher } from './publishing/publisher.ts'
import { answer } from './queries/queries.ts'
import { followLog } from './queries/server-log.ts'
import { Holds } from './reconcile/holds.ts'
import { modelUsers } from './reconcile/model-users.ts'
import { Evictions, type EvictionSettings } from './reconcile/evictions.ts'
import { MemoryState } from './reconcile/memory-state.ts'
import { Reconciler } from './reconcile/reconciler.ts'
import { countServers, followServers, measuredServers } from './reconcile/server-memory.ts'
import { findLlamaServer } from './runtimes/binary.ts'
import { devicesAsTold } from './runtimes/devices.ts'
import { PersonSettings } from './person-settings.ts'
import type { AgentSettings, LogLevel } from './settings.ts'
import { memoryFiguresOf, memoryViewOf } from './snapshot/memory-view.ts'
import { figuresOf, serviceViewOf } from './snapshot/service-view.ts'
import { SnapshotStore } from './snapshot/snapshot-store.ts'
import type { NodeIdentity } from './state/node-id.ts'
import { within } from './support/within.ts'

/** A kubeconfig that is missing or broken is looked at again this often: a person is likely at work on it. */
const kubeconfigRetryMs = 5_000
/** Addresses come and go with networks; reading the interfaces costs microseconds. */
const hostAddressEveryMs = 5_000
/** At shutdown a cluster that does not answer holds up each step no longer; all of them stay below half a minute. */
const passLimitMs = 2_000
const farewellLimitMs = 5_000

export interface AgentOptions {
  readonly settings: AgentSettings
  readonly platform: Platform
  readonly identity: NodeIdentity
  readonly version: string
  readonly env: NodeJS.ProcessEnv
  readonly log: Logger
  /** True sentences about this agent that belong in every snapshot. */
  readonly notices: readonly string[]
  /** Somebody asked the agent to end; undefined = it is not for them to do. */
  readonly onShutdown?: (request: ShutdownRequest) => void
  /** A person set how much is logged. */
  readonly onLogLevel?: (level: LogLevel) => void
  /** For tests: how soon a server that hangs is noticed. */
  readonly liveness?: LivenessTimings
  /** For tests: the jitter of the back-off after crashes. */
  readonly random?: () => number
  /** For tests: the Hub's token may go over http to this machine. */
  readonly allowInsecureLoopback?: boolean
  /** For tests: the clock by which memory pressure comes and goes, in milliseconds. */
  readonly memoryClock?: () => number
  /** For tests: how long a minute without a request is. */
  readonly idleMinuteMs?: number
}

/** What becomes of what runs and is published: taken down in good order, or left to the next agent on this state folder. */
export type ServersAtEnd = 'stop' | 'keep'

/** What hangs on one cluster; the servers and models outlive it. */
interface Session {
  readonly cluster: Cluster
  readonly publisher: Publisher
  readonly events: EventRecorder
  readonly reconciler: Reconciler
}

/** What outlives the agent in its state folder, and what stands on it. */
interface Kept {
  readonly holds: Holds
  readonly history: History
  readonly settings: PersonSettings
  readonly memoryState: MemoryState
  readonly evictions: Evictions
  readonly commands: Commands
}

/** The composition root of the core: builds the rooms, starts and stops them in order. */
export class Agent {
  readonly metrics = new AgentMetrics()
  readonly #options: AgentOptions
  readonly #log: Logger
  readonly #bootId = randomUUID()
  readonly #startedAt = Date.now()
  readonly #snapshots: SnapshotStore
  readonly #models: Models
  readonly #ledger: Ledger
  readonly #servers: Servers
  readonly #memory: Memory
  readonly #notices: string[]
  /** Settles in `start`, once what an earlier agent left running is taken over. */
  readonly #opened = Promise.withResolvers<Kept>()
  #kept: Kept | undefined
  #session: Session | undefined
  /** Of moves to another context, one after the other. */
  #moving: Promise<void> = Promise.resolve()
  /** Of the latest move, until it is over. */
  #target: PinnedContext | undefined
  #waiting: ClusterView
  #address: HostAddress
  #performanceCores: number | undefined
  #hasMetal = false
  #wasLive = false
  #addressTimer: NodeJS.Timeout | undefined
  #connectTimer: NodeJS.Timeout | undefined
  #stopping: Promise<void> | undefined

  constructor(options: AgentOptions) {
    const { settings, platform, log, env, notices, identity, liveness, random, allowInsecureLoopback } = options
    this.#options = options
    this.#log = log
    this.#notices = [...notices, ...(identity.notice === undefined ? [] : [identity.notice])]
    this.#models = new Models({
      directory: settings.modelStore,
      homeFile: join(settings.stateDir, 'model-store.json'),
      log,
      env,
      settings: () => downloadSettings(this.#settings),
      onChange: () => this.#snapshots.changed(),
      users: () => modelUsers(this.#session?.cluster),
      ...(allowInsecureLoopback && { allowInsecureLoopback }),
    })
    this.#ledger = new Ledger({ file: join(settings.stateDir, 'ledger.json'), platform, log })
    this.#servers = new Servers({
      platform,
      log,
      ledger: this.#ledger,
      ...(liveness && { liveness }),
      ...(random && { random }),
      onProbe: (key, seconds) => this.metrics.observeHealthCheck(splitKey(key), seconds),
      outputLimits: () => outputLimits(this.#settings),
    })
    this.#memory = new Memory({
      platform,
      log,
      settings: () => memorySettings(this.#settings),
      thresholds: { warning: settings.memoryPressureWarning, critical: settings.memoryPressureCritical },
      intervalMs: settings.memoryWatchdogIntervalMs,
      servers: () => measuredServers(this.#servers),
      recommendedGpuBytes: () => this.#recommendedGpuBytes(),
      ...(options.memoryClock && { now: options.memoryClock }),
    })
    followServers(this.#servers, this.#memory)
    this.#memory.listen(memoryMetricsFeed(this.metrics, this.#memory))
    this.#memory.listen({ onSample: () => this.#snapshots.figuresChanged() })
    this.#address = { kind: 'none', message: 'The host address has not been chosen yet.', rejected: [] }
    this.#waiting = {
      context: settings.context ?? '',
      server: '',
      state: 'connecting',
      message: 'Reading the kubeconfig.',
      since: new Date().toISOString(),
    }
    this.#snapshots = new SnapshotStore(() => this.#parts())
    this.#opened.promise.catch(() => undefined)
    this.#snapshots.follow(serviceMetricsFeed(this.metrics))
    this.metrics.beforeRender(() => void this.#snapshots.get())
  }

  /** As of now. */
  snapshot(): AgentSnapshot {
    return this.#snapshots.get()
  }

  subscribe(listener: () => void): () => void {
    return this.#snapshots.subscribe(listener)
  }

  /** Never rejects but where the state folder cannot be used. */
  async command(request: CommandRequest): Promise<CommandResult> {
    const { commands } = await this.#opened.promise
    return commands.run(request)
  }

  /** Throws LinkError where there is no answer. */
  async query(query: Query): Promise<Answer> {
    const { history, settings } = await this.#opened.promise
    const { env, platform } = this.#options
    return answer(
      {
        history,
        settings,
        session: () => this.#session,
        clusterMessage: () => this.#clusterView().message,
        kubeconfig: { file: this.#settings.kubeconfig, env },
        interfaces: () => platform.interfaces(),
        hostAddress: () => this.#address,
        models: this.#models,
        output: (service) => this.#output(service),
      },
      query,
    )
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

  #output({ namespace, name }: ServiceRef): ReadableOutput {
    const key = keyOf(namespace, name)
    return this.#servers.outputOf(key, serverFiles(this.#options.settings.stateDir, key).logFile)
  }

  /** How long requests in flight may hold up a stop, in milliseconds: a server keeps the limit it was started with. */
  get longestDrainMs(): number {
    return Math.max(this.#options.settings.drainTimeoutMs, this.#settings.drainTimeoutMs)
  }

  /** Adds a true sentence that every reader of a snapshot should know. */
  notice(sentence: string): void {
    this.#notices.push(sentence)
    this.#snapshots.changed()
  }

  /** Gives a service a new server process; false where it is not known. */
  restart(namespace: string, name: string): boolean {
    return this.#session?.reconciler.restart(keyOf(namespace, name)) ?? false
  }

  /** Useful = it sees the cluster, or knows that what it sees is old, and there is an address to publish. */
  readiness(): Readiness {
    const cluster = this.#clusterView()
    if (cluster.state !== 'live' && cluster.state !== 'stale') return { ready: false, message: cluster.message }
    const { ip, message } = hostFacts(this.#address)
    if (ip === undefined) return { ready: false, message }
    return { ready: true, message: cluster.message }
  }

  /** Returns at once where the cluster is not there: the agent goes on looking for it. Throws what the state folder's disk answers. */
  async start(): Promise<void> {
    try {
      this.#kept = await this.#open()
      this.#performanceCores = await this.#options.platform.performanceCores().catch((error: unknown) => {
        this.#log.warn('performance cores not known', { error })
        return undefined
      })
      this.#hasMetal = (await this.#options.platform.metal()).available
      await this.#adopt()
      countServers(this.#servers, this.#memory)
      await this.#memory.start()
      this.#models.start()
      this.#opened.resolve(this.#kept)
    } catch (error) {
      this.#opened.reject(error)
      throw error
    }
    await this.#connect()
    this.#addressTimer = setInterval(() => this.#inBackground(this.#checkAddress()), hostAddressEveryMs)
  }

  /**
   * `stop` withdraws what is published, lets the servers finish and releases the claims: nothing is left that says ready. `keep` leaves
   * servers and what is published to the next agent, which must renew the claims within three minutes. The first call decides.
   */
  stop({ servers = 'stop' }: { servers?: ServersAtEnd } = {}): Promise<void> {
    this.#stopping ??= servers === 'stop' ? this.#stop() : this.#leave()
    return this.#stopping
  }

  async #stop(): Promise<void> {
    const session = this.#session
    await this.#stopDeciding()
    this.#complain('not withdrawn', (await session?.publisher.withdrawAll()) ?? [])
    await Promise.all([this.#servers.stopAll(), within(farewellLimitMs, session?.reconciler.sayStopped())])
    this.#complain('not released', (await session?.publisher.releaseAll()) ?? [])
    await this.#servers.letGo()
    await this.#close()
  }

  async #leave(): Promise<void> {
    await this.#stopDeciding()
    const kept = [...this.#servers.state()].filter(([, state]) => !isOver(state)).map(([key]) => key)
    await this.#servers.letGo()
    this.#log.info('servers keep running', {
      services: kept,
      heartbeats: 'stopped: without an agent the cluster calls them stale after 180 s',
    })
    await this.#close()
  }

  async #stopDeciding(): Promise<void> {
    clearInterval(this.#addressTimer)
    clearTimeout(this.#connectTimer)
    await within(passLimitMs, this.#session?.reconciler.stop())
  }

  async #close(): Promise<void> {
    const session = this.#session
    await within(passLimitMs, session?.events.flush())
    await session?.publisher[Symbol.asyncDispose]()
    await session?.cluster.stop()
    await this.#models.stop()
    this.#kept?.evictions[Symbol.dispose]()
    await this.#memory[Symbol.asyncDispose]()
    this.#kept?.history.add({ kind: 'agentStopped', message: 'The agent was stopped.' })
    await this.#kept?.history.flush()
    this.#snapshots[Symbol.dispose]()
    this.metrics[Symbol.dispose]()
  }

  async #adopt(): Promise<void> {
    const { settings, platform } = this.#options
    const notices = await adoptServers({
      ledger: this.#ledger,
      servers: this.#servers,
      platform,
      log: this.#log,
      folders: serverFolders(settings.stateDir),
      rules: launchRules(this.#settings),
    })
    for (const notice of notices) {
      this.#log.warn('notice', { text: notice })
      this.notice(notice)
    }
  }

  /** Where the system does not say what the GPU may hold, llama-server may know. */
  async #recommendedGpuBytes(): Promise<number | undefined> {
    if (this.#options.platform.name !== 'darwin') return undefined
    const binary = await this.#findBinary()
    return binary.kind === 'missing' ? undefined : parseRecommendedWorkingSet(await devicesAsTold(binary.path))
  }

  #complain(message: string, unfinished: readonly { readonly key: string; readonly message: string }[]): void {
    for (const { key, message: why } of unfinished) this.#log.warn(message, { key, reason: why })
  }

  /** What counts now: what the agent was started with, and what a person set since. */
  get #settings(): AgentSettings {
    return this.#kept?.settings.current ?? this.#options.settings
  }

  async #open(): Promise<Kept> {
    const { settings: started, version } = this.#options
    const log = this.#log
    const inState = (file: string) => join(started.stateDir, file)
    const settings = await PersonSettings.open(started, inState('settings.json'))
    const holds = await Holds.open(inState('holds.json'))
    const history = await History.open({ file: inState('history.jsonl'), log })
    const memoryState = await MemoryState.open(inState('memory.json'))
    for (const notice of [settings.notice, holds.notice, history.notice, memoryState.notice]) {
      if (notice === undefined) continue
      log.warn('notice', { text: notice })
      this.notice(notice)
    }
    this.#options.onLogLevel?.(settings.current.logLevel)
    this.#servers.onChange(serverFeed(history, (key) => this.#whyStopped(key)))
    this.#snapshots.follow(snapshotFeed(history))
    history.add({ kind: 'agentStarted', message: `The agent was started, version ${version || 'unknown'}.` })
    const evictions = new Evictions({
      memory: this.#memory,
      memoryState,
      holds,
      history,
      session: () => {
        const { cluster, reconciler } = this.#session ?? {}
        return cluster && reconciler && { reconciler, clusterUrl: cluster.api.context.server }
      },
      settings: () => evictionSettings(this.#settings),
      log,
      onEvicted: () => this.metrics.countEviction(),
      onSkipped: (reason) => this.metrics.countEvictionSkipped(reason),
    })
    const kept = { holds, history, settings, memoryState, evictions }
    return { ...kept, commands: new Commands({ rooms: this.#rooms(kept) }) }
  }

  #whyStopped(key: string): string | undefined {
    return this.#stopping ? 'The agent was stopped.' : this.#session?.reconciler.report(key)?.plan.message
  }

  #rooms(kept: Omit<Kept, 'commands'>): Rooms {
    const { platform, env, onShutdown, onLogLevel } = this.#options
    return {
      ...kept,
      servers: this.#servers,
      models: this.#models,
      memory: this.#memory,
      log: this.#log,
      session: () => this.#session,
      interfaces: () => platform.interfaces(),
      agent: {
        clusterMessage: () => this.#clusterView().message,
        loadContext: (context) => PinnedContext.load({ file: this.#settings.kubeconfig, context, env }),
        servedContext: () => this.#target ?? this.#session?.cluster.api.context,
        moveTo: (context) => {
          this.#target = context
          const moved = this.#moving.then(() => this.#moveTo(context))
          this.#moving = moved.finally(() => {
            if (this.#target === context) this.#target = undefined
          })
          this.#inBackground(this.#moving)
        },
        connect: () => this.#connect(),
        checkAddress: () => this.#checkAddress(),
        setLogLevel: onLogLevel,
        shutDown: onShutdown,
        changed: () => this.#snapshots.changed(),
      },
    }
  }

  /** What runs for the present cluster comes down in good order, visibly; then the other is served. */
  async #moveTo(context: PinnedContext): Promise<void> {
    clearTimeout(this.#connectTimer)
    const session = this.#session
    if (session) {
      session.reconciler.leave(`Released: this machine moves to the cluster of context "${context.name}".`)
      await this.#untilSnapshot(() => session.reconciler.hasLeft || this.#stopping !== undefined)
      if (this.#stopping) return
      await within(passLimitMs, session.reconciler.stop())
      this.#complain('not released', await session.publisher.releaseAll())
      await within(passLimitMs, session.events.flush())
      await session.publisher[Symbol.asyncDispose]()
      await session.cluster.stop()
      this.#session = undefined
    }
    if (!this.#stopping) await this.#serve(context)
  }

  /** Looks at every change. */
  async #untilSnapshot(isSo: () => boolean): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<undefined>()
    const look = () => {
      if (isSo()) resolve(undefined)
    }
    const unsubscribe = this.#snapshots.subscribe(look)
    look()
    await promise
    unsubscribe()
  }

  async #connect(): Promise<void> {
    const { env } = this.#options
    const { kubeconfig, context: name } = this.#settings
    clearTimeout(this.#connectTimer)
    try {
      const context = await PinnedContext.load({ file: kubeconfig, context: name, env })
      if (!this.#stopping && !this.#session) await this.#serve(context)
    } catch (error) {
      if (!(error instanceof KubeconfigError)) throw error
      if (this.#waiting.message !== error.message) this.#log.error('no cluster', { reason: error.message })
      this.#waiting = {
        ...this.#waiting,
        state: 'offline',
        message: error.message,
        retryAt: new Date(Date.now() + kubeconfigRetryMs).toISOString(),
      }
      this.#snapshots.changed()
      if (this.#stopping || this.#session) return
      this.#connectTimer = setTimeout(() => this.#inBackground(this.#connect()), kubeconfigRetryMs)
    }
  }

  async #serve(context: PinnedContext): Promise<void> {
    const { identity, version } = this.#options
    if (!this.#kept) return
    const { holds } = this.#kept
    const settings = this.#settings
    const log = this.#log
    log.info('cluster', { context: context.name, server: context.server, namespace: settings.namespace ?? '(all)' })
    const cluster: Cluster = new Cluster({
      context,
      namespace: settings.namespace,
      log,
      onState: () => this.#clusterChanged(),
      onSliceWatch: (live) => {
        publisher.setWatchLive(live)
        if (!live) publisher.watchGap()
      },
    })
    const publisher = new Publisher({
      api: cluster.api,
      services: { resource: resources.services, parse: parseService, cache: cluster.services },
      slices: { resource: resources.endpointSlices, parse: parseEndpointSlice, cache: cluster.slices },
      endpoints: resources.endpoints,
      node: { id: identity.nodeId, displayName: identity.displayName },
      agentVersion: version,
      log,
      onChange: (key) => reconciler.enqueue(key),
    })
    const events = new EventRecorder({ api: cluster.api, log, host: identity.displayName })
    const reconciler: Reconciler = new Reconciler({
      cluster,
      models: this.#models,
      servers: this.#servers,
      publisher,
      events,
      status: new StatusWriter(cluster.api, cluster.inferenceServices),
      holds,
      displayName: identity.displayName,
      settings: {
        allowlist: settings.inferenceServiceAllowlist,
        defaultRuntime: settings.runtime,
        // As the agent was started: a path that a person sets counts from a server's next start, and restarts none.
        llamaServer: this.#options.settings.llamaServer,
        performanceCores: this.#performanceCores,
        port: portPolicy(settings),
        rules: () => launchRules(this.#settings),
        stateDir: settings.stateDir,
        refreshEveryMs: () => this.#settings.refreshEveryMs,
      },
      findBinary: () => this.#findBinary(),
      memory: this.#memory,
      memoryState: this.#kept.memoryState,
      metal: this.#hasMetal,
      platform: this.#options.platform,
      ...(this.#options.idleMinuteMs !== undefined && { idleMinuteMs: this.#options.idleMinuteMs }),
      hostAddress: () => hostFacts(this.#address),
      log,
      onChange: () => this.#snapshots.changed(),
    })
    this.#session = { cluster, publisher, events, reconciler }
    await this.#checkAddress()
    reconciler.start()
    cluster.start()
  }

  #findBinary() {
    const { platform, env } = this.#options
    return findLlamaServer({ given: this.#settings.llamaServer, system: platform.name, path: env['PATH'] })
  }

  #clusterChanged(): void {
    const { cluster, reconciler } = this.#session ?? {}
    if (cluster) this.metrics.setWatchFailures(cluster.consecutiveFailures())
    const wasLive = this.#wasLive
    this.#wasLive = cluster?.view().state === 'live'
    if (this.#wasLive && !wasLive) reconciler?.retryAll()
    else if (cluster?.synced === true) reconciler?.enqueueAll()
    this.#snapshots.changed()
  }

  async #checkAddress(): Promise<void> {
    const { platform } = this.#options
    const session = this.#session
    if (!session || !this.#kept) return
    const { server } = session.cluster.api.context
    const wanted = this.#kept.settings.hostAddress
    const found =
      wanted.by === 'person'
        ? chosenHostAddress(wanted.address, platform.interfaces())
        : await hostAddress({
            explicit: wanted.by === 'flag' ? wanted.address : undefined,
            server,
            interfaces: () => platform.interfaces(),
            before: this.#address,
          })
    if (isDeepStrictEqual(found, this.#address)) return
    this.#address = found
    if (found.kind === 'chosen') {
      const { address, why, rejected } = found
      const name = platform.interfaces().find((one) => one.address === address)?.name
      const message = wanted.by === 'automatic' ? 'auto-detected host IP' : 'using host IP'
      this.#log.info(message, { ip: address, interface: name, why, rejected })
    } else {
      this.#log.warn('no host IP', { text: found.message })
    }
    session.reconciler.enqueueAll()
    this.#snapshots.changed()
  }

  /** For work that reports what it expects itself: whatever else goes wrong is a defect, and must not end the agent. */
  #inBackground(work: Promise<void>): void {
    work.catch((error: unknown) => this.#log.error('background work failed', { error }))
  }

  #clusterView(): ClusterView {
    return this.#session?.cluster.view() ?? this.#waiting
  }

  #parts() {
    const { identity, platform, version } = this.#options
    const address = hostFacts(this.#address)
    const reports = this.#session?.reconciler.reports() ?? []
    const { problem, downloads } = this.#models.state()
    return {
      bootId: this.#bootId,
      version,
      startedAt: this.#startedAt,
      now: Date.now(),
      host: {
        nodeId: identity.nodeId,
        displayName: identity.displayName,
        platform: platform.name,
        ...(address.ip !== undefined && { address: address.ip }),
        message: address.message,
        paused: this.#kept?.holds.pausedSince !== undefined,
      },
      cluster: this.#clusterView(),
      services: reports.map(serviceViewOf),
      figures: figuresOf(reports, this.#memory.view?.footprints),
      memory: memoryViewOf(this.#memory, {
        evictionEnabled: this.#settings.evictionEnabled,
        next: this.#kept?.evictions.next() ?? { sentence: '' },
      }),
      memoryFigures: memoryFiguresOf(this.#memory.view),
      downloads,
      notices: [
        ...this.#notices,
        ...(problem === undefined ? [] : [problem]),
        ...pauseNotices(this.#kept?.holds.pausedSince),
      ],
    }
  }
}

const pauseNotices = (since: string | undefined): string[] =>
  since === undefined
    ? []
    : [`This machine was paused at ${since}: its models stay in memory, and no requests are sent here.`]

const hostFacts = (address: HostAddress): { ip: string | undefined; message: string } =>
  address.kind === 'chosen'
    ? { ip: address.address, message: `Pods are sent to ${address.address}: ${address.why}.` }
    : { ip: undefined, message: address.message }

const launchRules = ({ llamaServerStartupTimeoutMs, drainTimeoutMs }: AgentSettings): GeneralRules => ({
  startupStallMs: llamaServerStartupTimeoutMs,
  drainLimitMs: drainTimeoutMs,
  settingNames: { startupStall: '--llama-server-startup-timeout', port: '--llama-server-port or --port-range' },
})

const memorySettings = (settings: AgentSettings): MemorySettings => ({
  fraction: settings.memoryFraction,
  budgetBytes: settings.memoryBudgetBytes,
  enforcement: settings.memoryCheckMode,
  mayEvict: settings.evictionAtAdmission,
})

const evictionSettings = (settings: AgentSettings): EvictionSettings => ({
  isEnabled: settings.evictionEnabled,
  share: settings.evictionShare,
  comeBackMs: settings.comeBackMs,
})

const downloadSettings = (settings: AgentSettings): DownloadSettings => ({
  bytesPerSecond: settings.downloadBytesPerSecond,
  atOnce: settings.downloadsAtOnce,
  reserveBytes: settings.diskReserveBytes,
  partialKeepMs: settings.partialKeepMs,
  hubEndpoint: settings.hubEndpoint,
  hubTokenFile: settings.hubTokenFile,
  caFile: settings.caFile,
})

const outputLimits = ({ serverLogBytes, serverLogCount }: AgentSettings): OutputLimits => ({
  bytes: serverLogBytes,
  count: serverLogCount,
})

function portPolicy({ llamaServerPort, portRange }: AgentSettings): PortPolicy {
  if (portRange) return { kind: 'range', ...portRange }
  return llamaServerPort > 0 ? { kind: 'fixed', port: llamaServerPort } : { kind: 'ephemeral' }
}
