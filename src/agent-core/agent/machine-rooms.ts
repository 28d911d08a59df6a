import { join } from 'node:path'
import type { AgentOptions } from './agent-options.ts'
import { memoryFiguresOf } from './snapshot-views.ts'
import type { SnapshotStore } from './snapshot.ts'
import type { Rooms } from '../api/command.ts'
import { downloadSettings, memorySettings, offered, powerSettings } from '../api/settings.ts'
import type { ClusterSession } from '../cluster/cluster-session.ts'
import { parseRecommendedWorkingSet } from '../memory/budget.ts'
import { Memory } from '../memory/memory.ts'
import { Models } from '../models/models.ts'
import type { AgentMetrics } from '../observability/agent-metrics.ts'
import {
  memoryMetricsFeed,
  gatewayMetricsFeed,
  runtimeMetricsFeed,
  serviceMetricsFeed,
  sessionMetricsFeed,
  setPower,
  countEnergy,
  startMetricsFeed,
} from '../observability/metric-feeds.ts'
import { Energy } from '../power/energy.ts'
import { findMacmon } from '../power/macmon.ts'
import { Power } from '../power/power.ts'
import { modelUsers } from '../reconcile/model-users.ts'
import { followServers, measuredServers } from '../reconcile/server-memory.ts'
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
import { nothingPublished } from '../servers/ports.ts'
import { Servers } from '../servers/servers.ts'
import type { AgentSettings } from '../settings/settings.ts'
import type { Executable } from '../util/find-executable.ts'
import { splitKey } from '../util/object-key.ts'
import { seesFigures } from '../../contract/client.ts'

/** What every room is built with. A room registers its part of the snapshot with `snapshots` and its end with `ends`. */
export interface RoomContext {
  readonly options: AgentOptions
  readonly metrics: AgentMetrics
  readonly snapshots: SnapshotStore
  /** Ends the rooms in the reverse order of their beginning. */
  readonly ends: AsyncDisposableStack
  /** What counts now: what the agent was started with, and what a person set since. */
  readonly settings: () => AgentSettings
  /** Undefined while there is no usable kubeconfig. */
  readonly session: () => ClusterSession | undefined
}

/** As {@link findRuntime}, by what counts now. */
export function findHere(
  { options: { platform, env }, settings }: RoomContext,
  runtime: Runtime,
  daemons?: StartedDaemons,
): ReturnType<typeof findRuntime> {
  const now = settings()
  return findRuntime(runtime, {
    ...{ stateDir: now.stateDir, system: platform.name, path: env['PATH'], settings: now },
    whyAbsent: (daemon) => daemons?.whyAbsent(daemon),
  })
}

export const llamaServer = (context: RoomContext): Promise<Executable> => findHere(context, runtimes['llama-server'])

/** The rooms that outlive a session: every session with a cluster finds them as the session before left them. */
export interface MachineRooms extends Pick<
  Rooms,
  'servers' | 'memory' | 'models' | 'power' | 'dialects' | 'daemons' | 'installed'
> {
  readonly ledger: Ledger
  readonly figures: RuntimeFigures
  readonly energy: Energy
}

export function machineRooms(context: RoomContext): MachineRooms {
  const { settings, platform, log, energyTrial } = context.options
  const energy: Energy = context.ends.use(
    new Energy({
      totals: () => figures.totals(),
      countWork: () => figures.refresh(),
      onSpending: (spent) => countEnergy(context.metrics, spent),
      ...energyTrial,
    }),
  )
  const power = powerRoom(context, energy)
  const ledger = new Ledger({ file: ledgersIn(settings.stateDir).servers, platform, log })
  const servers = serverRoom(
    context,
    ledger,
    (...reading) => figures.note(...reading),
    (runtime) => daemons.own(runtime),
  )
  servers.onChange(startMetricsFeed(context.metrics))
  const figures = figureRoom(context, servers, energy)
  const dialects = new Dialects()
  const daemons: StartedDaemons = daemonRoom(context, servers, () => installed)
  const installed: InstalledRuntimes = installedRoom(context, dialects, daemons)
  return {
    ledger,
    servers,
    memory: memoryRoom(context, servers),
    models: modelRoom(context, servers),
    power,
    figures,
    energy,
    dialects,
    daemons,
    installed,
  }
}

function daemonRoom(
  { options, snapshots, settings, session }: RoomContext,
  servers: Servers,
  installed: () => InstalledRuntimes,
): StartedDaemons {
  const { platform, log, env, liveness, random } = options
  const daemons = new StartedDaemons({
    ...{ platform, log, env, settings, stateDir: options.settings.stateDir },
    ...(liveness && { liveness }),
    ...(random && { random }),
    drain: async (runtime) => {
      const keys = [...servers.state().keys()].filter((key) => servers.runningRuntimeOf(key) === runtime)
      await Promise.all(keys.map((key) => servers.stop(key)))
    },
    onChange: () => {
      snapshots.changed()
      // What waits for it need not wait for its next attempt.
      session()?.reconciler.enqueueAll()
      installed()
        .look()
        .catch((error: unknown) => log.warn('runtimes not checked', { error }))
    },
  })
  snapshots.register(() => ({ notices: daemons.notices() }))
  return daemons
}

function installedRoom(context: RoomContext, dialects: Dialects, daemons: StartedDaemons): InstalledRuntimes {
  const { snapshots, settings, session } = context
  const installed: InstalledRuntimes = new InstalledRuntimes({
    offered: () => offered(settings()),
    find: (runtime) => findHere(context, runtime, daemons),
    dialects,
    onChange: () => {
      snapshots.changed()
      // One that waits for a program need not wait for its next attempt.
      session()?.reconciler.enqueueAll()
    },
  })
  snapshots.register(() => ({ runtimes: installed.known }))
  return installed
}

function serverRoom(
  { options, metrics, session }: RoomContext,
  ledger: Ledger,
  onCounters: RuntimeFigures['note'],
  ownDaemon: StartedDaemons['own'],
): Servers {
  const { platform, log, liveness, random } = options
  return new Servers({
    platform,
    log,
    ledger,
    stateDir: options.settings.stateDir,
    ...(liveness && { liveness }),
    ...(random && { random }),
    published: (key) => session()?.publisher.ports(key) ?? nothingPublished,
    onProbe: (key, seconds) => metrics.observe('health_check_duration_seconds', seconds, splitKey(key)),
    onCounters,
    daemons: (name, address) => daemonAt(name, address, ownDaemon(name)),
  })
}

function figureRoom({ snapshots, ends }: RoomContext, servers: Servers, energy: Energy): RuntimeFigures {
  const figures = new RuntimeFigures({
    servers: () => servers.counted(),
    onAsked: (answers) => energy.workCounted(answers),
    onChange: () => snapshots.changed(),
  })
  snapshots.onLooker((looker) => figures.setLooker(looker))
  return ends.use(figures)
}

function memoryRoom(context: RoomContext, servers: Servers): Memory {
  const { options, metrics, snapshots, ends, settings } = context
  const { settings: started, platform, log, memoryClock, memoryTrial } = options
  const memory = new Memory({
    platform,
    log,
    settings: () => memorySettings(settings()),
    thresholds: { warning: started.memoryPressureWarning, critical: started.memoryPressureCritical },
    intervalMs: memoryTrial?.everyMs,
    servers: () => measuredServers(servers),
    recommendedGpuBytes: () => recommendedGpuBytes(context),
    ...(memoryClock && { now: memoryClock }),
  })
  followServers(servers, memory)
  memory.listen(memoryMetricsFeed(metrics, memory))
  memory.listen({ onSample: () => snapshots.changed(), onFootprints: () => snapshots.changed() })
  snapshots.onLooker((looker) => memory.setWatched(seesFigures(looker)))
  snapshots.register(() => ({ memoryFigures: memoryFiguresOf(memory.view) }))
  return ends.use(memory)
}

/** Where the system does not say what the GPU may hold, llama-server may know. */
async function recommendedGpuBytes(context: RoomContext): Promise<number | undefined> {
  if (context.options.platform.name !== 'darwin') return undefined
  const binary = await llamaServer(context)
  return binary.kind === 'missing'
    ? undefined
    : parseRecommendedWorkingSet(await listDevices(binary.path, launchEnvironment()))
}

function modelRoom({ options, metrics, snapshots, ends, settings, session }: RoomContext, servers: Servers): Models {
  const { settings: started, platform, log, env, keptHubToken, allowInsecureLoopback } = options
  const models = new Models({
    directory: started.modelStore,
    allowedModelRoots: started.allowedModelRoots,
    allowedDownloadHosts: started.allowedDownloadHosts,
    homeFile: join(started.stateDir, 'model-store.json'),
    whyUnreachable: platform.whyUnreachable?.bind(platform),
    log,
    env,
    settings: () => downloadSettings(settings()),
    onChange: () => snapshots.changed(),
    users: () => modelUsers(session()?.cluster),
    filesInUse: () => [...servers.filesInUse(), ...(session()?.reconciler.modelFiles() ?? [])],
    ...(keptHubToken && { keptHubToken }),
    ...(allowInsecureLoopback && { allowInsecureLoopback }),
  })
  snapshots.register(() => {
    const { problem, warnings, downloads } = models.state()
    return { downloads, notices: [problem, ...warnings] }
  })
  metrics.beforeRender(() => metrics.setTotal('download_bytes_total', models.receivedBytes))
  ends.defer(() => models.stop())
  return models
}

function powerRoom(context: RoomContext, energy: Energy): Power {
  const { options, metrics, snapshots, ends, settings } = context
  const { platform, log, powerTrial } = options
  const power: Power = new Power({
    platform: platform.name,
    settings: () => powerSettings(settings()),
    findMacmon: () => findMacmon({ system: platform.name }),
    log,
    hasReaders: () => snapshots.hasReaders,
    onChange: (figures) => {
      setPower(metrics, figures)
      energy.powerChanged(figures, power.intervalMs)
      snapshots.changed()
    },
    ...powerTrial,
  })
  snapshots.beforeLook(() => power.look())
  snapshots.register(() => ({ power: power.view, powerFigures: power.figures }))
  return ends.use(power)
}

/** What is brought up to date only for a scrape, which is a look at the agent as a window's is. */
export function followForScrapes(
  { metrics, snapshots, session }: RoomContext,
  { figures }: Pick<MachineRooms, 'figures'>,
  gateway: Parameters<typeof gatewayMetricsFeed>[1],
): void {
  const services = serviceMetricsFeed(metrics)
  const runtimes = runtimeMetricsFeed(metrics, figures)
  const ofSession = sessionMetricsFeed(metrics, session)
  const ofGateway = gatewayMetricsFeed(metrics, gateway)
  metrics.beforeRender(async () => {
    const snapshot = snapshots.get()
    services(snapshot)
    ofSession()
    await Promise.all([runtimes(snapshot.services), ofGateway(snapshot.services)])
  })
}
