import { join } from 'node:path'
import { type AgentRooms, type Machine, noGateway, type RoomContext } from './agent-rooms.ts'
import { openSession } from './session.ts'
import { figuresOf, memoryFiguresOf, memoryViewOf, serviceViewOf } from './snapshot-views.ts'
import { ModelLooks } from '../api/model-looks.ts'
import { downloadSettings, memorySettings, offered, powerSettings } from '../api/settings.ts'
import { ContextPin } from '../cluster/cluster-choice.ts'
import { ClusterLink } from '../cluster/cluster-link.ts'
import { ApiKeys } from '../gateway/api-keys.ts'
import { Gateway } from '../gateway/gateway.ts'
import { RelayIngress } from '../gateway/relay-ingress.ts'
import { Routes } from '../gateway/routes.ts'
import { History } from '../history/history.ts'
import { KubeconfigWatch } from '../kube/kubeconfig-watch.ts'
import { kubeconfigFiles } from '../kube/pinned-context.ts'
import { parseRecommendedWorkingSet } from '../memory/budget.ts'
import { Memory } from '../memory/memory.ts'
import { Models } from '../models/models.ts'
import {
  countEnergy,
  gatewayMetricsFeed,
  memoryMetricsFeed,
  runtimeMetricsFeed,
  serviceMetricsFeed,
  sessionMetricsFeed,
  setPower,
  startMetricsFeed,
} from '../observability/metric-feeds.ts'
import { Energy } from '../power/energy.ts'
import { findMacmon } from '../power/macmon.ts'
import { Power } from '../power/power.ts'
import { Sleep } from '../power/sleep.ts'
import { Supply } from '../power/supply.ts'
import { FirewallWatch } from '../publishing/firewall-watch.ts'
import { PublishedAddress } from '../publishing/host-address.ts'
import { localCluster } from '../publishing/local-cluster.ts'
import { publishedPorts, servicePortsOf } from '../publishing/objects.ts'
import { modelUsers } from '../reconcile/model-users.ts'
import { Narrator } from '../reconcile/narrator.ts'
import { PressureEviction } from '../reconcile/pressure-eviction.ts'
import { followServers, measuredServers } from '../reconcile/server-memory.ts'
import { StartTurns } from '../reconcile/start-turns.ts'
import { UnloadReasons } from '../reconcile/unload-reasons.ts'
import { Dialects } from '../runtimes/dialect.ts'
import { findRuntime, InstalledRuntimes } from '../runtimes/installed.ts'
import { listDevices } from '../runtimes/llama-server.ts'
import type { Runtime } from '../runtimes/runtime.ts'
import { runtimes } from '../runtimes/runtimes.ts'
import { StartedDaemons } from '../runtimes/started-daemons.ts'
import { daemonAt } from '../servers/daemons.ts'
import { RuntimeFigures } from '../servers/figures/runtime-figures.ts'
import { launchEnvironment } from '../servers/launch.ts'
import { Ledger, ledgersIn } from '../servers/ledger.ts'
import { Servers } from '../servers/servers.ts'
import { longestStopMs } from '../servers/termination.ts'
import { PersonSettings } from '../settings/person-settings.ts'
import { socketPathFor } from '../state/socket-path.ts'
import { withoutUnfinished } from '../util/files.ts'
import { splitKey } from '../util/object-key.ts'
import { isIpv6 } from '../../contract/addresses.ts'
import { seesFigures } from '../../contract/client.ts'

/** Builds the rooms, the lower ones first. Throws what the disk of the state folder answers. */
export async function openRooms(context: RoomContext): Promise<AgentRooms> {
  const { options, metrics, snapshots, ends, isEnding } = context
  const { settings: started, version, log, identity, platform, env, liveness, random } = options
  const { stateDir } = started
  const timings = { ...(liveness && { liveness }), ...(random && { random }) }
  /** The two rooms that are built last. Rooms before them reach them through this object, and find nothing until they exist. */
  const last: { link?: ClusterLink; gateway?: Gateway | undefined } = {}
  const session = () => last.link?.session
  const shown = (): void => snapshots.changed()
  /** What a service waits for may be there now, such as an address, a door or a program. */
  const reachChanged = (): void => {
    shown()
    session()?.reconciler.enqueueAll()
  }

  await withoutUnfinished(stateDir)
  const settings = await PersonSettings.open(started, join(stateDir, 'settings.json'))
  const now = () => settings.current
  const unloadReasons = await UnloadReasons.open({ stateDir, log })
  const pin = await ContextPin.open({ stateDir, log })
  const history = await History.open({ file: join(stateDir, 'history.jsonl'), log, onAdded: shown })
  history.add({ kind: 'agentStarted', message: `The agent was started, version ${version || 'unknown'}.` })
  ends.defer(async () => {
    history.add({ kind: 'agentStopped', message: 'The agent was stopped.' })
    await Promise.all([history.flush(), unloadReasons.flush()])
  })
  snapshots.register(() => ({
    newestHistoryId: history.newestId,
    settingsRevision: settings.revision,
    notices: pauseNotices(unloadReasons.pausedSince),
  }))
  const performanceCores = await platform.performanceCores().catch((error: unknown) => {
    log.warn('performance cores not known', { error })
    return undefined
  })
  const machine: Machine = { performanceCores, hasMetal: (await platform.metal()).available }

  const slices = () => session()?.cluster.slices.values() ?? []
  const ledger = new Ledger({ file: ledgersIn(stateDir).servers, platform, log })
  const servers = new Servers({
    ...{ platform, log, ledger, stateDir, ...timings },
    published: (key) => publishedPorts(key, identity.nodeId, slices()),
    onProbe: (key, seconds) => metrics.observe('health_check_duration_seconds', seconds, splitKey(key)),
    onCounters: (...reading) => figures.note(...reading),
    daemons: (name, address) => daemonAt(name, address, daemons.homeOf(name)),
    atGateway: async (key) => last.gateway?.inFlight(key),
  })
  servers.onChange(startMetricsFeed(metrics))
  const dialects = new Dialects()
  const findProgram = (runtime: Runtime) =>
    findRuntime(runtime, { system: platform.name, path: env['PATH'], settings: now(), daemons })
  const llamaServer = () => findProgram(runtimes['llama-server'])
  const daemons = new StartedDaemons({
    ...{ platform, log, env, settings: now, stateDir, ...timings },
    drain: async (runtime) => {
      const keys = [...servers.state().keys()].filter((key) => servers.runningRuntimeOf(key) === runtime)
      await Promise.all(keys.map((key) => servers.stop(key)))
    },
    onChange: () => {
      reachChanged()
      installed.look().catch((error: unknown) => log.warn('runtimes not checked', { error }))
    },
  })
  const installed = new InstalledRuntimes({
    offered: () => offered(now()),
    find: findProgram,
    dialects,
    onChange: reachChanged,
  })
  snapshots.register(() => ({ runtimes: installed.known, notices: daemons.notices() }))

  const energy: Energy = ends.use(
    new Energy({
      totals: () => figures.totals(),
      countWork: () => figures.refresh(),
      onSpending: (spent) => countEnergy(metrics, spent),
      ...options.energyTrial,
    }),
  )
  const figures: RuntimeFigures = ends.use(
    new RuntimeFigures({
      servers: () => servers.counted(),
      onAsked: (answers) => energy.workCounted(answers),
      onChange: shown,
    }),
  )
  const power: Power = ends.use(
    new Power({
      platform: platform.name,
      settings: () => powerSettings(now()),
      findMacmon: () => findMacmon({ given: now().macmonBin, system: platform.name, path: env['PATH'] }),
      log,
      hasReaders: () => snapshots.hasReaders,
      onChange: (measured) => {
        setPower(metrics, measured)
        energy.powerChanged(measured, power.intervalMs)
        shown()
      },
      ...options.powerTrial,
    }),
  )
  snapshots.beforeLook(() => power.look())
  snapshots.register(() => ({ power: power.view, powerFigures: power.figures }))

  const { memoryTrial, memoryClock } = options
  const memory = ends.use(
    new Memory({
      ...{ platform, log, intervalMs: memoryTrial?.everyMs, ...(memoryClock && { now: memoryClock }) },
      settings: () => memorySettings(now()),
      servers: () => measuredServers(servers),
      // Where the system does not say what the GPU may hold, llama-server may know.
      recommendedGpuBytes: async () => {
        const binary = platform.name === 'darwin' ? await llamaServer() : undefined
        if (binary?.kind !== 'found') return undefined
        return parseRecommendedWorkingSet(await listDevices(binary.path, launchEnvironment()))
      },
    }),
  )
  followServers(servers, memory)
  memory.listen(memoryMetricsFeed(metrics, memory))
  memory.listen({ onSample: shown, onFootprints: shown })

  const models = new Models({
    ...{ directory: started.modelStore, log, env, onChange: shown },
    allowedModelRoots: started.allowedModelRoots,
    allowedDownloadHosts: started.allowedDownloadHosts,
    homeFile: join(stateDir, 'model-store.json'),
    whyUnreachable: platform.whyUnreachable?.bind(platform),
    settings: () => downloadSettings(now()),
    users: () => modelUsers(session()?.cluster),
    filesInUse: () => [...servers.filesInUse(), ...(session()?.reconciler.modelFiles() ?? [])],
    ...(options.keptHubToken && { keptHubToken: options.keptHubToken }),
    ...(options.allowInsecureLoopback && { allowInsecureLoopback: options.allowInsecureLoopback }),
  })
  snapshots.register(() => {
    const { problem, warnings, downloads } = models.state()
    return { downloads, notices: [problem, ...warnings] }
  })
  ends.defer(() => models.stop())

  const narrator = new Narrator({
    ...{ log, history, servers, cluster: session },
    whyStopped: (key) => (isEnding() ? 'The agent was stopped.' : session()?.reconciler.report(key)?.plan.message),
  })
  servers.onChange((key, state) => narrator.serverChanged(key, state))
  const evictions = ends.use(
    new PressureEviction({
      ...{ memory, unloadReasons, narrator, log, session },
      servers: () => servers.counted(),
      isEnabled: () => now().evictionEnabled,
      share: memoryTrial?.evictionShare,
      comeBackMs: memoryTrial?.comeBackMs,
      onEvicted: () => metrics.add('evictions_total', 1),
      onSkipped: (reason) => metrics.add('evictions_skipped_total', 1, { reason }),
    }),
  )
  snapshots.register(() => ({
    memory: memoryViewOf(memory, { evictionEnabled: now().evictionEnabled, next: evictions.next() }),
    memoryFigures: memoryFiguresOf(memory),
  }))

  const address = ends.use(
    new PublishedAddress({
      ...{ history, log, interfaces: () => platform.interfaces(), wanted: () => settings.hostAddress },
      server: () => session()?.cluster.api.context.server,
      local: () => {
        const served = session()?.cluster.api.context
        return served && localCluster(served.stated, platform)
      },
      onChange: () => {
        reachChanged()
        last.gateway?.routesChanged()
      },
    }),
  )
  const firewall = ends.use(
    new FirewallWatch({
      ...{ platform, log, onChange: shown },
      program: async () => {
        const binary = await llamaServer()
        return binary.kind === 'found' ? binary.path : undefined
      },
      isServing: () => [...servers.state().values()].some(({ kind }) => kind === 'ready'),
    }),
  )
  servers.onChange((_key, { kind }) => {
    if (kind === 'ready') void firewall.look()
  })
  const turns = ends.use(
    new StartTurns({
      ...{ servers, onChange: shown, ...options.turnsTrial },
      enqueue: (key) => session()?.reconciler.enqueue(key),
    }),
  )
  const supply = ends.use(
    new Supply({
      ...{ platform, servers, log, settings: now, onChange: shown },
      ...{ holdAwake: options.holdAwake, everyMs: options.supplyEveryMs },
      hasReaders: () => snapshots.hasReaders,
    }),
  )
  await supply.look()
  const sleep = ends.use(
    new Sleep({
      ...{ servers, session, log },
      refresh: () => Promise.all([address.check(), supply.changed()]),
    }),
  )
  snapshots.register(() => ({
    supply: supply.view,
    notices: [address.facts.warning, firewall.notice, turns.notice],
  }))

  const apiKeys = ends.use(
    new ApiKeys({
      api: () => session()?.cluster.api,
      onChange: (key) => {
        last.gateway?.routesChanged()
        session()?.reconciler.enqueue(key)
      },
      log,
    }),
  )
  const relays = ends.use(
    new RelayIngress({
      ...{ stateDir, port: started.ingressPort, log, api: () => session()?.cluster.api, onState: reachChanged },
      isIpv6: () => isIpv6(address.facts.ip ?? ''),
      door: (at, port) => last.gateway?.door(at, port) ?? noGateway,
      onTold: (when) => (when === 'soon' ? last.gateway?.reasonsChanged() : last.gateway?.routesChanged()),
    }),
  )
  const gateway = gatewayRoom(context, { servers, address, apiKeys, relays, session, reachChanged })
  last.gateway = gateway
  snapshots.register(() => ({
    // Where the cluster has no relays, it is no news that none reaches this machine.
    notices: [session()?.publisher.isRelayWanted === true ? relays.notice : undefined, gateway?.notice],
  }))
  snapshots.onLooker((looker) => {
    const isSeen = seesFigures(looker)
    figures.setLooker(looker)
    memory.setWatched(isSeen)
    supply.review()
    gateway?.watch(isSeen)
  })

  const link = new ClusterLink({
    ...{ pin, env, log },
    kubeconfig: () => now().kubeconfig,
    context: () => now().context,
    isContextStated: () => settings.hasContextFlag,
    namespace: () => now().namespace,
    open: (pinned, hooks) => openSession(context, rooms, pinned, hooks),
    beforeStart: () => address.check(),
    onLeft: (isLeft) => {
      for (const room of [narrator, turns, apiKeys, relays]) room.forgetWhere(isLeft)
    },
    // A server keeps the drain limit that it was started with.
    leaveLimitMs: () => options.leaveLimitMs ?? longestStopMs(Math.max(started.drainLimitMs, now().drainLimitMs)),
    onLeftBehind: (message) => history.add({ kind: 'settingsChanged', message }),
    onMoved: () => watch.lookAgain(),
    onWatchFailures: (failures) => metrics.set('watch_consecutive_failures', failures),
    onChange: () => {
      shown()
      gateway?.reasonsChanged()
    },
  })
  last.link = link
  const rooms: AgentRooms = {
    ...{ settings, unloadReasons, history, address, supply, relays, gateway, link, platform, log, env },
    ...{ ledger, servers, memory, models, power, figures, energy, dialects, daemons, installed, narrator, turns },
    ...{ sleep, apiKeys, machine, findProgram, llamaServer, nodeId: identity.nodeId, looks: new ModelLooks() },
    hasMetal: () => machine.hasMetal,
    keptHubToken: options.keptHubToken,
    powerTrial: options.powerTrial,
    snapshot: () => snapshots.get(),
    changed: shown,
    onLogLevel: options.onLogLevel,
    onShutdown: options.onShutdown,
    notices: [...settings.notices, pin.notice, history.notice, ...unloadReasons.notices].filter(
      (notice) => notice !== undefined,
    ),
  }
  snapshots.register(() => {
    const reports = session()?.reconciler.reports() ?? []
    return { services: reports.map(serviceViewOf), figures: figuresOf(reports, rooms), notices: link.notices() }
  })
  const watch: KubeconfigWatch = ends.use(
    new KubeconfigWatch(
      () => kubeconfigFiles({ file: now().kubeconfig, env }),
      () => {
        link.kubeconfigChanged().catch((error: unknown) => log.error('kubeconfig not read', { error }))
      },
    ),
  )
  ends.defer(() => link.close())
  // The gateway is disconnected before the cluster is left, so that it keeps its last routes.
  ends.use(gateway)
  followForScrapes(context, rooms)
  return rooms
}

interface GatewayNeeds extends Pick<AgentRooms, 'servers' | 'address' | 'apiKeys' | 'relays'> {
  readonly session: () => ClusterLink['session']
  readonly reachChanged: () => void
}

/** Undefined where this host starts none. */
function gatewayRoom(
  { options, snapshots }: RoomContext,
  { servers, address, apiKeys, relays, session, reachChanged }: GatewayNeeds,
): Gateway | undefined {
  const { settings, platform, log, version, gateway: how } = options
  const { stateDir, clientPort, clientHosts: hosts } = settings
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
    ...{ port: clientPort, hosts, stateDir, command: how.command, version, log, onChange: () => snapshots.changed() },
    socketPath: socketPathFor(stateDir, how.temporaryDir, 'gateway.sock'),
    routes: () => routes.now(session()?.reconciler.outlooks() ?? []),
    ingress: relays,
    holders: async (port) => (await platform.portListeners(port, noGroup)).others,
    onDoors: reachChanged,
    onKeys: (keys) => apiKeys.adopt(keys),
    commandLine: async (pid) => (await platform.process(pid))?.commandLine,
  })
  servers.onChange(() => gateway.routesChanged())
  return gateway
}

/** No process group has this number, so that every listener is named. */
const noGroup = -1

const pauseNotices = (since: string | undefined): string[] =>
  since === undefined
    ? []
    : [`This machine was paused at ${since}: its models stay in memory, and no requests are sent here.`]

/** What is brought up to date only for a scrape, which is a look at the agent as a window's is. */
function followForScrapes({ metrics, snapshots }: RoomContext, { models, figures, link, gateway }: AgentRooms): void {
  const services = serviceMetricsFeed(metrics)
  const runtimesNow = runtimeMetricsFeed(metrics, figures)
  const ofSession = sessionMetricsFeed(metrics, () => link.session)
  const ofGateway = gatewayMetricsFeed(metrics, () => gateway)
  metrics.beforeRender(async () => {
    metrics.setTotal('download_bytes_total', models.receivedBytes)
    const snapshot = snapshots.get()
    services(snapshot)
    ofSession()
    await Promise.all([runtimesNow(snapshot.services), ofGateway(snapshot.services)])
  })
}
