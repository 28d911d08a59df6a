import { join } from 'node:path'
import { Energy } from '../power/energy.ts'
import { seesFigures } from '../../contract/client.ts'
import { splitKey } from '../util/object-key.ts'
import { parseRecommendedWorkingSet } from '../memory/budget.ts'
import { Memory } from '../memory/memory.ts'
import { Models } from '../models/models.ts'
import { memoryMetricsFeed } from '../observability/metrics/memory-metrics.ts'
import { SpendingMetrics } from '../observability/metrics/energy-metrics.ts'
import { startMetricsFeed } from '../observability/metrics/server-metrics.ts'
import { setPower } from '../observability/metrics/power-metrics.ts'
import { Power } from '../power/power.ts'
import { Ledger } from '../servers/ledger.ts'
import { nothingPublished } from '../servers/ports.ts'
import { Servers } from '../servers/servers.ts'
import { modelUsers } from '../reconcile/model-users.ts'
import { followServers, measuredServers } from '../reconcile/server-memory.ts'
import { llamaServer, macmon, type RoomContext } from './room-context.ts'
import { RuntimeFigures } from '../servers/figures/runtime-figures.ts'
import { downloadSettings, energySettings, memorySettings, outputLimits, powerSettings } from '../api/room-settings.ts'
import { launchEnvironment } from '../servers/launch.ts'
import { devicesAsTold } from '../runtimes/llama-server-binary.ts'
import { memoryFiguresOf } from './snapshot/memory-view.ts'

/** The rooms that outlive a session: every session with a cluster finds them as the session before left them. */
export interface LastingRooms {
  readonly ledger: Ledger
  readonly servers: Servers
  readonly memory: Memory
  readonly models: Models
  readonly power: Power
  readonly figures: RuntimeFigures
  readonly energy: Energy
  readonly spending: SpendingMetrics
}

export function lastingRooms(context: RoomContext): LastingRooms {
  const { settings, platform, log, energyTrial } = context.options
  const spending = new SpendingMetrics(context.metrics)
  // Before power and the figures, so that it ends after them and counts what was done last.
  const energy: Energy = context.ends.use(
    new Energy({
      file: join(settings.stateDir, 'energy.json'),
      log,
      settings: () => energySettings(context.settings()),
      power: () => power.view,
      totals: () => figures.totals(),
      countWork: () => figures.refresh(),
      onSpending: (spent) => spending.count(spent),
      ...energyTrial,
    }),
  )
  const power = powerRoom(context, energy)
  const ledger = new Ledger({ file: join(settings.stateDir, 'ledger.json'), platform, log })
  const servers = serverRoom(context, ledger, (...reading) => figures.note(...reading))
  servers.onChange(startMetricsFeed(context.metrics))
  const figures = figureRoom(context, servers, energy)
  return {
    ledger,
    servers,
    memory: memoryRoom(context, servers),
    models: modelRoom(context, servers),
    power,
    figures,
    energy,
    spending,
  }
}

function serverRoom(
  { options, metrics, settings, session }: RoomContext,
  ledger: Ledger,
  onCounters: RuntimeFigures['note'],
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
    outputLimits: () => outputLimits(settings()),
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
  const { settings: started, platform, log, memoryClock } = options
  const memory = new Memory({
    platform,
    log,
    settings: () => memorySettings(settings()),
    thresholds: { warning: started.memoryPressureWarning, critical: started.memoryPressureCritical },
    intervalMs: started.memoryWatchdogIntervalMs,
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
    : parseRecommendedWorkingSet(await devicesAsTold(binary.path, launchEnvironment()))
}

function modelRoom({ options, metrics, snapshots, ends, settings, session }: RoomContext, servers: Servers): Models {
  const { settings: started, log, env, keptHubToken, allowInsecureLoopback } = options
  const models = new Models({
    directory: started.modelStore,
    allowedModelRoots: started.allowedModelRoots,
    allowedDownloadHosts: started.allowedDownloadHosts,
    homeFile: join(started.stateDir, 'model-store.json'),
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
    return { downloads, notices: [...(problem === undefined ? [] : [problem]), ...warnings] }
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
    findMacmon: () => macmon(context),
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
