import { Agent, type AgentOptions } from '../agent-core/agent.ts'
import { startHealthServer } from '../agent-core/observability/health-server.ts'
import { createLog } from '../agent-core/observability/log.ts'
import type { Logger } from '../agent-core/observability/logger.ts'
import { hostPlatform } from '../agent-core/platform/host.ts'
import type { Platform } from '../agent-core/platform/platform.ts'
import type { AgentSettings, LogLevel } from '../agent-core/settings.ts'
import { acquireLock } from '../agent-core/state/lock.ts'
import { loadNodeId, type NodeIdentity } from '../agent-core/state/node-id.ts'
import { socketPathFor } from '../agent-core/state/socket-path.ts'
import { openStateFolder } from '../agent-core/state/state-folder.ts'
import { serveOnSocket } from '../serve/socket-server.ts'
import { buildInfo } from './build-info.ts'
import { exitCodes, type CliIo } from './io.ts'
import { startNotices } from './run-settings.ts'

/** Withdrawing, draining and stopping everything takes no longer: launchd and systemd kill at some point after it. */
const shutdownLimitMs = 45_000

/** Runs the agent until a signal ends it and answers the exit code. */
export async function runAgent(settings: AgentSettings, io: CliIo): Promise<number> {
  const log = createLog({ level: settings.logLevel, format: settings.logFormat })
  const { ended, end } = agentEnd(log)
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
    const identity = await identityIn(folder.folder.nodeFile)
    if (typeof identity === 'string') return refuse(io, identity)
    const notices = [...startNotices(settings), ...(metal.available ? [] : [metal.message])]
    return await serveUntil(ended, {
      settings,
      io,
      platform,
      log,
      notices,
      identity,
      onShutdown: () => end({ cause: 'a request', code: exitCodes.done }),
      onLogLevel: (level) => log.setLevel(level),
    })
  } finally {
    await locked.lock.release()
  }
}

interface Composition {
  readonly settings: AgentSettings
  readonly io: CliIo
  readonly platform: Platform
  readonly log: Logger
  readonly notices: readonly string[]
  readonly identity: NodeIdentity
  readonly onShutdown: NonNullable<AgentOptions['onShutdown']>
  readonly onLogLevel: (level: LogLevel) => void
}

async function serveUntil(ended: Promise<End>, composition: Composition): Promise<number> {
  const { settings, io, log, notices } = composition
  const { version } = buildInfo
  log.info('starting metal-agent', { version, stateDir: settings.stateDir, modelStore: settings.modelStore })
  for (const notice of notices) log.warn('notice', { text: notice })
  const agent = new Agent({ ...composition, version, env: io.env })
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
  const { cause, code } = await ended
  log.info('stopping metal-agent', { cause })
  const isStopped = await stopped(agent, log)
  await health.stop()
  if (socket.ok) await socket.server.close()
  log.info('stopped metal-agent')
  return isStopped ? code : exitCodes.failed
}

/** Who this machine is, or in one sentence why that cannot be told. */
async function identityIn(file: string): Promise<NodeIdentity | string> {
  try {
    return await loadNodeId({ file })
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return `The node id ${file} cannot be used: ${why}; repair the file or choose another --state-dir.`
  }
}

interface End {
  readonly cause: string
  readonly code: number
}

/**
 * The first signal ends the agent in good order, the second at once. So does a defect: what runs is withdrawn and
 * stopped, and the exit code has launchd start the agent again. `end` does it on request.
 */
function agentEnd(log: Logger): { readonly ended: Promise<End>; readonly end: (end: End) => void } {
  const { promise: ended, resolve: end } = Promise.withResolvers<End>()
  let asked = false
  const onSignal = (signal: NodeJS.Signals): void => {
    // A terminal that closes says so twice: by the kernel and by its shell.
    if (asked && signal === 'SIGHUP') return
    if (asked) {
      log.warn('stopping at once', { signal })
      process.exit(exitCodes.failed)
    }
    asked = true
    end({ cause: signal, code: exitCodes.done })
  }
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, onSignal)
  process.on('uncaughtException', (error) => {
    log.error('defect', { error, stack: error.stack })
    end({ cause: 'a defect of the agent', code: exitCodes.failed })
  })
  return { ended, end }
}

/** False where something was left, which the log then names. */
async function stopped(agent: Agent, log: Logger): Promise<boolean> {
  const limit = Promise.withResolvers<false>()
  const timer = setTimeout(() => {
    log.error('not everything stopped in time', { limitMs: shutdownLimitMs })
    limit.resolve(false)
  }, shutdownLimitMs)
  try {
    return await Promise.race([agent.stop().then(() => true), limit.promise])
  } catch (error) {
    log.error('stopping failed', { error })
    return false
  } finally {
    clearTimeout(timer)
  }
}

function refuse(io: CliIo, message: string): number {
  io.stderr.write(`metal-agent: ${message}\n`)
  return exitCodes.failed
}
