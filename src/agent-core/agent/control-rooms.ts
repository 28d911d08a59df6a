import { createHash } from 'node:crypto'
import { availableParallelism, loadavg } from 'node:os'
import { join } from 'node:path'
import { findHere, llamaServer, type MachineRooms, type RoomContext } from './machine-rooms.ts'
import { figuresOf, memoryViewOf, serviceViewOf } from './snapshot-views.ts'
import type { Rooms } from '../api/command.ts'
import { Commands } from '../api/commands.ts'
import { ModelLooks } from '../api/model-looks.ts'
import { launchRules, portPolicy, specPolicy } from '../api/settings.ts'
import { ContextPin } from '../cluster/cluster-choice.ts'
import { ClusterLink, type SessionHooks } from '../cluster/cluster-link.ts'
import { clusterSession, type ClusterSession } from '../cluster/cluster-session.ts'
import { ApiKeys } from '../gateway/api-keys.ts'
import { Gateway } from '../gateway/gateway.ts'
import { RelayIngress } from '../gateway/relay-ingress.ts'
import { Routes } from '../gateway/routes.ts'
import { History } from '../history/history.ts'
import { LeftPods } from '../doctor/from-cluster.ts'
import { KubeconfigWatch } from '../kube/kubeconfig.ts'
import { kubeconfigFiles, type PinnedContext } from '../kube/pinned-context.ts'
import { sessionCounters } from '../observability/metric-feeds.ts'
import { Sleep } from '../power/sleep.ts'
import { Supply } from '../power/supply.ts'
import { servicePortsOf } from '../publishing/objects.ts'
import { FirewallWatch } from '../publishing/firewall-watch.ts'
import type { NodeFacts } from '../publishing/lease-content.ts'
import { PublishedAddress } from '../publishing/host-address.ts'
import { localCluster } from '../publishing/local-cluster.ts'
import { Visitors } from '../publishing/visitors.ts'
import { UnloadReasons } from '../reconcile/unload-reasons.ts'
import { StartTurns } from '../reconcile/start-turns.ts'
import { Narrator } from '../reconcile/narrator.ts'
import { PressureEviction } from '../reconcile/pressure-eviction.ts'
import { ServerLaunches } from '../reconcile/server-launches.ts'
import { hostFor, loopback } from '../servers/listening.ts'
import { longestStopMs } from '../servers/termination.ts'
import { PersonSettings } from '../settings/person-settings.ts'
import { socketPathFor } from '../state/socket-path.ts'
import { withoutUnfinished } from '../util/files.ts'
import { splitKey } from '../util/object-key.ts'
import { isIpv6 } from '../../contract/addresses.ts'
import { seesFigures } from '../../contract/client.ts'

/** What a session with a cluster stands on, beside the machine's rooms. */
interface SessionRooms extends Pick<
  Rooms,
  'settings' | 'unloadReasons' | 'leftPods' | 'history' | 'address' | 'relays' | 'gateway' | 'visitors'
> {
  readonly pin: ContextPin
  readonly narrator: Narrator
  readonly turns: StartTurns
  readonly sleep: Sleep
  readonly apiKeys: ApiKeys
}

/** What outlives the agent in its state folder, and what stands on it. */
export interface ControlRooms extends Rooms, SessionRooms {
  readonly commands: Commands
  /** Problems found in the state files, as sentences. */
  readonly notices: readonly string[]
}

/** What a session needs to know of this machine, read when it begins. */
export interface Machine {
  readonly performanceCores: number | undefined
  readonly hasMetal: boolean
}

interface ControlContext extends RoomContext {
  readonly rooms: MachineRooms
  readonly machine: () => Machine
  /** The agent is ending. */
  readonly isEnding: () => boolean
}

/** Throws what the disk of the state folder answers. */
export async function openControlRooms(context: ControlContext): Promise<ControlRooms> {
  const { options, ends, snapshots, session, rooms, isEnding } = context
  const { settings: started, version, log, identity, platform } = options
  const { servers } = rooms
  await withoutUnfinished(started.stateDir)
  const settings = await PersonSettings.open(started, join(started.stateDir, 'settings.json'))
  const unloadReasons = await UnloadReasons.open({ stateDir: started.stateDir, log })
  const pin = await ContextPin.open({ stateDir: started.stateDir, log })
  const leftPods = await LeftPods.open(started.stateDir)
  const history = await History.open({
    file: join(started.stateDir, 'history.jsonl'),
    log,
    onAdded: () => snapshots.changed(),
  })
  snapshots.register(() => ({ newestHistoryId: history.newestId }))
  history.add({ kind: 'agentStarted', message: `The agent was started, version ${version || 'unknown'}.` })
  ends.defer(async () => {
    history.add({ kind: 'agentStopped', message: 'The agent was stopped.' })
    await Promise.all([history.flush(), unloadReasons.flush()])
  })
  snapshots.register(() => ({
    settingsRevision: settings.revision,
    notices: pauseNotices(unloadReasons.pausedSince),
  }))
  const whyStopped = (key: string) =>
    isEnding() ? 'The agent was stopped.' : session()?.reconciler.report(key)?.plan.message
  const narrator = new Narrator({
    log,
    history,
    servers,
    cluster: session,
    whyStopped,
  })
  servers.onChange((key, state) => narrator.serverChanged(key, state))
  evictionRoom(context, { unloadReasons, narrator })
  const address = addressRoom(context, { settings, history }, () => gateway?.routesChanged())
  firewallRoom(context)
  const turns = turnsRoom(context)
  const supply = await supplyRoom(context)
  const sleep = sleepRoom(context, () => Promise.all([address.check(), supply.changed()]))
  const apiKeys = apiKeyRoom(context, () => gateway)
  const relays = relayRoom(context, address, () => gateway)
  const gateway = gatewayRoom(context, { address, apiKeys, relays })
  const visitors = ends.use(
    new Visitors({
      platform,
      nodeId: identity.nodeId,
      slices: () => session()?.cluster.slices.values() ?? [],
      log,
      onChange: () => snapshots.changed(),
    }),
  )
  const besides = { pin, narrator, turns, sleep, apiKeys }
  const below = { settings, unloadReasons, leftPods, history, address, supply, relays, gateway, visitors }
  const link = linkRoom(context, { ...besides, ...below })
  // The gateway is disconnected before the cluster is left, so that it keeps its last routes.
  ends.use(gateway)
  const notices = [...settings.notices, pin.notice, leftPods.notice, history.notice, ...unloadReasons.notices].filter(
    (notice) => notice !== undefined,
  )
  const reached: Rooms = {
    ...{ ...rooms, ...below, link, platform, log, env: options.env, nodeId: identity.nodeId },
    llamaServer: () => llamaServer(context),
    hasMetal: () => context.machine().hasMetal,
    looks: new ModelLooks(),
    keptHubToken: options.keptHubToken,
    powerTrial: options.powerTrial,
    snapshot: () => snapshots.get(),
    changed: () => snapshots.changed(),
    onLogLevel: options.onLogLevel,
    onShutdown: options.onShutdown,
  }
  return { ...besides, ...reached, commands: new Commands(reached), notices }
}

function apiKeyRoom({ ends, session, options: { log } }: RoomContext, gateway: () => Gateway | undefined): ApiKeys {
  const onChange = (key: string): void => {
    gateway()?.routesChanged()
    session()?.reconciler.enqueue(key)
  }
  return ends.use(new ApiKeys({ api: () => session()?.cluster.api, onChange, log }))
}

function relayRoom(
  { ends, session, snapshots, options: { settings, log } }: RoomContext,
  address: PublishedAddress,
  gateway: () => Gateway | undefined,
): RelayIngress {
  const relays = ends.use(
    new RelayIngress({
      ...{ stateDir: settings.stateDir, port: settings.ingressPort, log, api: () => session()?.cluster.api },
      isIpv6: () => isIpv6(address.facts.ip ?? ''),
      door: (at, port) => gateway()?.door(at, port) ?? noGateway,
      onTold: (when) => (when === 'soon' ? gateway()?.reasonsChanged() : gateway()?.routesChanged()),
      onState: () => {
        snapshots.changed()
        session()?.reconciler.enqueueAll()
      },
    }),
  )
  // Where the cluster has no relays, it is no news that none reaches this machine.
  snapshots.register(() => ({ notices: [session()?.publisher.isRelayWanted === true ? relays.notice : undefined] }))
  return relays
}

function gatewayRoom(
  { options, snapshots, session, rooms: { servers } }: ControlContext,
  { address, apiKeys, relays }: Pick<ControlRooms, 'address' | 'apiKeys' | 'relays'>,
): Gateway | undefined {
  const { settings, platform, log, version, gateway: how } = options
  const { stateDir, clientPort } = settings
  if (!how) {
    if (clientPort > 0) {
      const text = `Nothing listens at port ${clientPort} for programs on this machine: an app that runs from source has no client proxy.`
      log.info('no client proxy', { text })
    }
    return undefined
  }
  const published = (key: string) => {
    const { ip } = address.facts
    if (address.isKnown && ip === undefined) return undefined
    const { namespace, name } = splitKey(key)
    const service = session()?.cluster.inferenceServices.get(namespace, name)
    const asked = apiKeys.askedFor(key)
    const servicePorts = servicePortsOf(service?.spec.value.endpoint?.port).map(({ port }) => port)
    return {
      ...(ip !== undefined && { address: ip }),
      ...(service && asked && { access: { servicePorts, ...asked } }),
    }
  }
  const routes = new Routes({ servers, published, relayed: (key) => relays.how(key) })
  const gateway = new Gateway({
    ...{ port: clientPort, stateDir, command: how.command, version, log, onChange: () => snapshots.changed() },
    socketPath: socketPathFor(stateDir, how.temporaryDir, 'gateway.sock'),
    routes: () => routes.now(session()?.reconciler.outlooks() ?? []),
    ingress: relays,
    holders: async (port) => (await platform.portListeners(port, noGroup)).others,
    onDoors: () => {
      snapshots.changed()
      session()?.reconciler.enqueueAll()
    },
    onKeys: (keys) => apiKeys.adopt(keys),
    commandLine: async (pid) => (await platform.process(pid))?.commandLine,
  })
  servers.onChange(() => gateway.routesChanged())
  snapshots.register(() => ({ notices: [gateway.notice] }))
  snapshots.onLooker((looker) => gateway.watch(seesFigures(looker)))
  return gateway
}

/** Another for each state folder, since agents of one person may share a daemon. */
const ownerOf = (stateDir: string): string => createHash('sha256').update(stateDir).digest('hex').slice(0, 8)

/** No process group has this number, so that every listener is named. */
const noGroup = -1

const servedCluster = (session: ClusterSession | undefined) =>
  session && { reconciler: session.reconciler, clusterUrl: session.cluster.api.context.server }

function evictionRoom(
  { metrics, ends, snapshots, settings, session, options, rooms: { memory, servers } }: ControlContext,
  { unloadReasons, narrator }: Pick<ControlRooms, 'unloadReasons' | 'narrator'>,
): void {
  const { log, memoryTrial } = options
  const evictions = ends.use(
    new PressureEviction({
      memory,
      unloadReasons,
      narrator,
      servers: () => servers.counted(),
      session: () => servedCluster(session()),
      isEnabled: () => settings().evictionEnabled,
      share: memoryTrial?.evictionShare,
      comeBackMs: memoryTrial?.comeBackMs,
      log,
      onEvicted: () => metrics.add('evictions_total', 1),
      onSkipped: (reason) => metrics.add('evictions_skipped_total', 1, { reason }),
    }),
  )
  snapshots.register(() => ({
    memory: memoryViewOf(memory, { evictionEnabled: settings().evictionEnabled, next: evictions.next() }),
  }))
}

function addressRoom(
  { ends, snapshots, session, options: { platform, log } }: RoomContext,
  { settings, history }: Pick<ControlRooms, 'settings' | 'history'>,
  onMoved: () => void,
): PublishedAddress {
  const address = ends.use(
    new PublishedAddress({
      interfaces: () => platform.interfaces(),
      wanted: () => settings.hostAddress,
      server: () => session()?.cluster.api.context.server,
      local: () => {
        const context = session()?.cluster.api.context
        return context && localCluster(context.stated, platform)
      },
      history,
      log,
      onChange: () => {
        session()?.reconciler.enqueueAll()
        onMoved()
        snapshots.changed()
      },
    }),
  )
  snapshots.register(() => ({ notices: [address.facts.warning] }))
  return address
}

function firewallRoom(context: ControlContext): void {
  const { ends, snapshots, rooms, options } = context
  const { platform, log } = options
  const { servers } = rooms
  const firewall = ends.use(
    new FirewallWatch({
      platform,
      log,
      program: async () => {
        const binary = await llamaServer(context)
        return binary.kind === 'found' ? binary.path : undefined
      },
      isServing: () => [...servers.state().values()].some(({ kind }) => kind === 'ready'),
      onChange: () => snapshots.changed(),
    }),
  )
  servers.onChange((_key, { kind }) => {
    if (kind === 'ready') void firewall.look()
  })
  snapshots.register(() => ({ notices: [firewall.notice] }))
}

function turnsRoom({ options, ends, snapshots, session, rooms: { servers } }: ControlContext): StartTurns {
  const turns = ends.use(
    new StartTurns({
      servers,
      enqueue: (key) => session()?.reconciler.enqueue(key),
      onChange: () => snapshots.changed(),
      ...options.turnsTrial,
    }),
  )
  snapshots.register(() => ({ notices: [turns.notice] }))
  return turns
}

async function supplyRoom(context: ControlContext): Promise<Supply> {
  const { options, ends, snapshots, settings, rooms } = context
  const { platform, log, holdAwake, supplyEveryMs } = options
  const { servers } = rooms
  const supply = ends.use(
    new Supply({
      ...{ platform, servers, holdAwake, log, everyMs: supplyEveryMs },
      settings,
      hasReaders: () => snapshots.hasReaders,
      onChange: () => snapshots.changed(),
    }),
  )
  snapshots.register(() => ({ supply: supply.view }))
  snapshots.onLooker(() => supply.review())
  await supply.look()
  return supply
}

function sleepRoom(
  { options: { log, platform }, ends, metrics, snapshots, session, rooms: { servers } }: ControlContext,
  refresh: () => Promise<unknown>,
): Sleep {
  const sleep = ends.use(
    new Sleep({
      ...{ servers, session, log, system: platform.name, refresh },
      onLateTimer: () => metrics.add('late_timers_total', 1),
      onNotice: () => snapshots.changed(),
    }),
  )
  snapshots.register(() => ({ notices: sleep.notices }))
  return sleep
}

function linkRoom(context: ControlContext, kept: SessionRooms): ClusterLink {
  const { metrics, ends, snapshots, settings, options } = context
  const link = new ClusterLink({
    kubeconfig: () => settings().kubeconfig,
    context: () => settings().context,
    isContextStated: () => kept.settings.hasContextFlag,
    pin: kept.pin,
    env: options.env,
    open: (pinned, hooks) => openSession(context, kept, pinned, hooks),
    beforeStart: () => kept.address.check(),
    onReached: (api) => kept.leftPods.clear(api),
    namespace: () => settings().namespace,
    onLeft: (isLeft) => {
      kept.narrator.forgetWhere(isLeft)
      kept.turns.forgetWhere(isLeft)
      kept.apiKeys.forgetWhere(isLeft)
      kept.relays.forgetWhere(isLeft)
    },
    // A server keeps the drain limit that it was started with.
    leaveLimitMs: () =>
      options.leaveLimitMs ?? longestStopMs(Math.max(options.settings.drainLimitMs, settings().drainLimitMs)),
    onLeftBehind: (message) => kept.history.add({ kind: 'settingsChanged', message }),
    onMoved: () => watch.lookAgain(),
    onWatchFailures: (failures) => metrics.set('watch_consecutive_failures', failures),
    log: options.log,
    onChange: () => {
      snapshots.changed()
      kept.gateway?.reasonsChanged()
    },
  })
  snapshots.register(() => {
    const reports = link.session?.reconciler.reports() ?? []
    const { memory, figures, energy } = context.rooms
    const runtime = (key: string) => figures.view(key)
    const share = (key: string) => energy.shareWatts(key)
    const inFlight = (key: string) => kept.gateway?.openOf(key) ?? []
    return {
      services: reports.map(serviceViewOf),
      figures: figuresOf(
        reports,
        { footprints: memory.view?.footprints, held: memory.held() },
        runtime,
        share,
        inFlight,
        (key) => kept.visitors.of(key),
      ),
    }
  })
  snapshots.register(() => ({ notices: link.notices() }))
  const watch: KubeconfigWatch = ends.use(
    new KubeconfigWatch({
      files: () => kubeconfigFiles({ file: settings().kubeconfig, env: options.env }),
      onChange: () => {
        const failed = (error: unknown) => options.log.error('kubeconfig not read', { error })
        void link.kubeconfigChanged().catch(failed)
      },
      log: options.log,
    }),
  )
  ends.defer(() => link.close())
  return link
}

function openSession(
  context: ControlContext,
  { unloadReasons, narrator, address, sleep, turns, gateway, apiKeys, relays }: SessionRooms,
  pinned: PinnedContext,
  { onClusterState, onChange }: SessionHooks,
): ClusterSession {
  const { identity, version, platform, log, settings: started, idleMinuteMs = 60_000, refreshEveryMs } = context.options
  const { rooms } = context
  const { models, servers, memory, installed } = rooms
  const { performanceCores, hasMetal } = context.machine()
  const settings = context.settings()
  const listen = () => context.settings().listen
  apiKeys.readAgain()
  const launches = new ServerLaunches({
    settings: {
      defaultRuntime: settings.runtime,
      offered: settings.runtimes,
      installed: () => installed.found,
      unverified: () => installed.unverified,
      // As the agent was started: a path that a person sets counts from a server's next start, and restarts none.
      program: (runtime) => started[runtime.programSetting],
      programNow: (runtime) => context.settings()[runtime.programSetting],
      performanceCores,
      policy: specPolicy(settings),
      port: (runtime) => portPolicy(settings, runtime),
      host: (runtime, key) => {
        const { ip, warning } = address.facts
        const publisher = context.session()?.publisher
        const isRelayed = publisher?.isRelayWanted === true || publisher?.wayFor(key) === 'relay'
        // Where pods come directly all the same, the gateway listens at the published address, if that is one of this machine.
        const isAlone = isRelayed && (warning === undefined || context.settings().publish === 'relay')
        return runtime.isBehindGateway || isAlone ? loopback : hostFor(listen(), ip)
      },
      daemonPort: ({ port }) => settings[port],
      owner: ownerOf(settings.stateDir),
      rules: (runtime) => launchRules(context.settings(), runtime),
    },
    models,
    dialects: rooms.dialects,
    findBinary: (runtime) => findHere(context, runtime, rooms.daemons),
    allowsFile: (path, namespace) => models.allowsFile(path, namespace),
    metal: hasMetal,
  })
  return clusterSession({
    context: pinned,
    namespace: settings.namespace,
    identity,
    agentVersion: version,
    nodeFacts: () => nodeFacts(context, unloadReasons),
    publishMode: () => context.settings().publish,
    ingress: relays,
    onClusterState,
    ...sessionCounters(context.metrics),
    whyUnreachable: platform.whyUnreachable?.bind(platform),
    models,
    servers,
    memory,
    unloadReasons,
    turns,
    narrator,
    launches,
    settings: {
      allowlist: settings.inferenceServiceAllowlist,
      port: (runtime) => portPolicy(settings, runtime),
      listen,
      idleMinuteMs,
    },
    refreshEveryMs,
    hostAddress: () => address.facts,
    apiKeys,
    door: (at, port) => gateway?.door(at, port) ?? noGateway,
    silenceOf: (key) => sleep.silenceOf(key),
    log,
    onChange,
  })
}

/** The facts about this machine that its Lease tells the cluster. A fact that cannot be read now is left out. */
async function nodeFacts({ options, rooms }: ControlContext, unloadReasons: UnloadReasons): Promise<NodeFacts> {
  const { identity, version, log } = options
  const { models, servers, memory, power, installed } = rooms
  const onDisk = models.onDisk().catch((error: unknown) => {
    log.debug('models on disk not listed', { error })
    return []
  })
  const [load = 0] = loadavg()
  return {
    displayName: identity.displayName,
    agentVersion: version,
    runtimes: await installed.look(),
    budgetBytes: memory.budget?.bytes,
    availableBytes: memory.view?.figures?.availableBytes,
    models: await onDisk,
    modelsServed: [...servers.state().values()].filter(({ kind }) => kind === 'ready').length,
    load: load / availableParallelism(),
    watts: power.figures?.combinedWatts,
    paused: unloadReasons.pausedSince !== undefined,
  }
}

/** The state of every door on a host that has no command to start the gateway. */
const noGateway = {
  kind: 'closed',
  message:
    'The gateway is not running here, so nothing is listening at the published address: set --listen all or published.',
} as const

const pauseNotices = (since: string | undefined): string[] =>
  since === undefined
    ? []
    : [`This machine was paused at ${since}: its models stay in memory, and no requests are sent here.`]
