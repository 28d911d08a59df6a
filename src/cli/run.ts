import { Agent } from '../agent-core/agent.ts'
import { startHealthServer } from '../agent-core/observability/health-server.ts'
import { createLog } from '../agent-core/observability/log.ts'
import type { Logger } from '../agent-core/observability/logger.ts'
import { hostPlatform } from '../agent-core/platform/host.ts'
import type { Platform } from '../agent-core/platform/platform.ts'
import type { AgentSettings } from '../agent-core/settings.ts'
import { acquireLock } from '../agent-core/state/lock.ts'
import { loadNodeId } from '../agent-core/state/node-id.ts'
import { socketPathFor } from '../agent-core/state/socket-path.ts'
import { openStateFolder } from '../agent-core/state/state-folder.ts'
import { serveOnSocket } from '../serve/socket-server.ts'
import { buildInfo } from './build-info.ts'
import { exitCodes, type CliIo } from './io.ts'
import { startNotices } from './run-settings.ts'

/** Withdrawing, draining and stopping everything takes no longer: launchd and systemd kill at some point after it. */
const shutdownLimitMs = 30_000

/** Runs the agent until a signal ends it and answers the exit code. */
export async function runAgent(settings: AgentSettings, io: CliIo): Promise<number> {
  const log = createLog({ level: settings.logLevel, format: settings.logFormat })
  const platform = hostPlatform(io.platform)
  const folder = await openStateFolder(settings.stateDir)
  if (!folder.ok) return refuse(io, folder.message)
  const locked = await acquireLock({
    file: folder.folder.lockFile,
    processStartTime: async (pid) => (await platform.process(pid))?.startTime,
  })
  if (!locked.ok) return refuse(io, locked.message)
  try {
    const metal = await platform.metal()
    if (!metal.available && platform.name === 'darwin') return refuse(io, metal.message)
    const notices = [...startNotices(settings), ...(metal.available ? [] : [metal.message])]
    for (const notice of notices) log.warn('notice', { text: notice })
    return await serveUntilSignal(settings, io, platform, log, notices, folder.folder.nodeFile)
  } finally {
    await locked.lock.release()
  }
}

async function serveUntilSignal(
  settings: AgentSettings,
  io: CliIo,
  platform: Platform,
  log: Logger,
  notices: readonly string[],
  nodeFile: string,
): Promise<number> {
  const ended = untilSignal(log)
  const { version } = buildInfo
  const identity = await loadNodeId({ file: nodeFile })
  const agent = new Agent({ settings, platform, identity, version, env: io.env, log, notices })
  log.info('starting metal-agent', { version, stateDir: settings.stateDir, modelStore: settings.modelStore })
  const socketPath = socketPathFor(settings.stateDir, io.temporaryDir)
  const socket = await serveOnSocket({
    socketPath,
    stateDir: settings.stateDir,
    source: { get: () => agent.snapshot(), subscribe: (listener) => agent.subscribe(listener) },
    version,
    onError: (error) => log.error('socket request failed', { error }),
  })
  if (!socket.ok) {
    if (socket.reason === 'taken') return refuse(io, socket.message)
    log.warn('no socket', { text: socket.message })
    agent.notice(socket.message)
  }
  const health = await startHealthServer({
    port: settings.port,
    readiness: () => agent.readiness(),
    metrics: agent.metrics,
    log,
  })
  if (health.state === 'failed') {
    log.warn('no health server', { text: health.message })
    agent.notice(health.message)
  }
  await agent.start()
  const signal = await ended
  log.info('stopping metal-agent', { signal })
  const finished = await withinLimit(agent.stop())
  if (!finished) log.error('not everything stopped in time', { limitMs: shutdownLimitMs })
  await health.stop()
  if (socket.ok) await socket.server.close()
  log.info('stopped metal-agent')
  return finished ? exitCodes.done : exitCodes.failed
}

/** The first SIGTERM or SIGINT ends the agent in good order, the second at once. */
function untilSignal(log: Logger): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let asked = false
    const onSignal = (signal: NodeJS.Signals): void => {
      if (asked) {
        log.warn('stopping at once', { signal })
        process.exit(exitCodes.failed)
      }
      asked = true
      resolve(signal)
    }
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, onSignal)
  })
}

async function withinLimit(work: Promise<void>): Promise<boolean> {
  const limit = Promise.withResolvers<false>()
  const timer = setTimeout(() => limit.resolve(false), shutdownLimitMs)
  try {
    return await Promise.race([work.then(() => true), limit.promise])
  } finally {
    clearTimeout(timer)
  }
}

function refuse(io: CliIo, message: string): number {
  io.stderr.write(`metal-agent: ${message}\n`)
  return exitCodes.failed
}
