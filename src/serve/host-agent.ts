import path from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { Agent } from '../agent-core/agent/agent.ts'
import type { AgentOptions, ServersAtEnd } from '../agent-core/agent/agent-options.ts'
import { startHealthServer } from '../agent-core/observability/health-server.ts'
import type { Logger } from '../agent-core/observability/logger.ts'
import {
  metricsTokenIn,
  startMetricsListener,
  type MetricsListenerOptions,
} from '../agent-core/observability/metrics-listener.ts'
import type { Platform, PortHolder } from '../agent-core/platform/platform.ts'
import { startNotices, type AgentSettings } from '../agent-core/settings/settings.ts'
import { acquireLock, startTimeOf } from '../agent-core/state/lock.ts'
import { loadNodeId, type NodeIdentity } from '../agent-core/state/node-id.ts'
import { socketPathFor } from '../agent-core/state/socket-path.ts'
import { openStateFolder } from '../agent-core/state/state-folder.ts'
import { parseAddressAndPort } from '../agent-core/util/address-and-port.ts'
import { awakeTimeout } from '../agent-core/util/awake-timeout.ts'
import { messageOf } from '../agent-core/util/message-of.ts'
import { cleanedDoor, type AgentDoor } from './agent-door.ts'
import { WindowServer } from './http/window-server.ts'
import { serveOnSocket } from './socket-server.ts'

export type { ServersAtEnd } from '../agent-core/agent/agent-options.ts'

/** Withdrawing, stopping and saying goodbye take no longer beside the drain: launchd and systemd kill at some point after it. */
const shutdownMarginMs = 35_000

export interface HostOptions extends Pick<
  AgentOptions,
  'onShutdown' | 'onLogLevel' | 'keptHubToken' | 'holdAwake' | 'powerTrial' | 'gateway'
> {
  readonly settings: AgentSettings
  readonly platform: Platform
  readonly log: Logger
  readonly version: string
  /** What its host has to tell in every snapshot. */
  readonly notices?: readonly string[]
  readonly env: NodeJS.ProcessEnv
  readonly temporaryDir: string
  /** The built window, for a browser. */
  readonly windowFolder: string
}

export interface HostedAgent {
  readonly door: AgentDoor
  /** Serves a browser's window, and answers with a URL that works once. Throws LinkError. */
  openWindow(port?: number): Promise<string>
  /** The machine is about to sleep, and woke or may have slept; see {@link Agent}. */
  suspend(): Promise<void>
  resume(): Promise<void>
  /** The machine runs on mains or on a battery now. */
  supplyChanged(): void
  /** {@link stop} waits for no requests in flight from now on, whether it is under way or comes later. */
  cutDrains(): void
  /** Ends everything in good order and gives the state folder back; false where something was left, which the log then names. */
  stop(how?: { readonly servers: ServersAtEnd }): Promise<boolean>
}

export type HostResult =
  | { readonly ok: true; readonly hosted: HostedAgent }
  /** `taken`: another agent uses the state folder. */
  | { readonly ok: false; readonly reason: 'taken' | 'unusable'; readonly message: string }

/** Starts the one agent of a state folder in this process and serves it on the folder's socket. */
export async function hostAgent(options: HostOptions): Promise<HostResult> {
  const { settings, platform } = options
  const state = await openStateFolder(settings.stateDir)
  if (!state.ok) return { ok: false, reason: 'unusable', message: state.message }
  const locked = await acquireLock({
    file: state.folder.lockFile,
    processStartTime: (pid) => startTimeOf(platform, pid),
  })
  if (!locked.ok) {
    return { ok: false, reason: locked.holder === undefined ? 'unusable' : 'taken', message: locked.message }
  }
  const release = () => locked.lock.release()
  try {
    const result = await hostLocked(options, state.folder.nodeFile, release)
    if (!result.ok) await release()
    return result
  } catch (error) {
    await release()
    throw error
  }
}

async function hostLocked(options: HostOptions, nodeFile: string, release: () => Promise<void>): Promise<HostResult> {
  const { settings, platform, log, version, temporaryDir } = options
  const metal = await platform.metal()
  if (!metal.available && platform.name === 'darwin') return { ok: false, reason: 'unusable', message: metal.message }
  const identity = await identityIn(nodeFile)
  if (typeof identity === 'string') return { ok: false, reason: 'unusable', message: identity }
  await noteLogFile(settings, log)
  log.info('starting metal-agent', { version, stateDir: settings.stateDir, modelStore: settings.modelStore })
  const notices = [...(options.notices ?? []), ...startNotices(settings), ...(metal.isNotice ? [metal.message] : [])]
  for (const notice of notices) log.warn('notice', { text: notice })
  const agent = new Agent({ ...options, identity, notices })
  const door = cleanedDoor({
    get: (looker) => agent.snapshot(looker),
    look: () => agent.look(),
    subscribe: (listener, looker) => agent.subscribe(listener, looker),
    command: (request) => agent.command(request),
    query: (query, signal) => agent.query(query, signal),
    stream: (request, listener) => agent.stream(request, listener),
  })
  const windows = new WindowServer({
    door,
    folder: options.windowFolder,
    onError: (error) => log.error('window request failed', { error }),
  })
  const openWindow = (port?: number) => windows.open(port)
  const socket = await serveOnSocket({
    socketPath: socketPathFor(settings.stateDir, temporaryDir),
    stateDir: settings.stateDir,
    door,
    version,
    openWindow,
    onError: (error) => log.error('socket request failed', { error }),
  })
  if (!socket.ok) {
    if (socket.reason === 'taken') return socket
    log.warn('no socket', { text: socket.message })
    agent.notice(socket.message)
  }
  const health = await startHealthServer({
    port: settings.port,
    readiness: () => agent.readiness(),
    metrics: agent.metrics,
    log,
    holders: (port) => holdersOf(port, platform, log),
  })
  if (health.state === 'failed') {
    log.warn('no health server', { text: health.message })
    agent.notice(health.message)
  }
  const forPrometheus = await listenForPrometheus(settings, {
    metrics: agent.metrics,
    log,
    holders: (port) => holdersOf(port, platform, log),
  })
  if (forPrometheus?.problem !== undefined) {
    log.warn('metrics listener', { text: forPrometheus.problem })
    agent.notice(forPrometheus.problem)
  }
  const close = async () => {
    await Promise.all([health.stop(), forPrometheus?.stop()])
    await windows.close()
    if (socket.ok) await socket.server.close()
  }
  try {
    await agent.start()
  } catch (error) {
    await stoppedInTime(agent, { servers: 'keep', limitMs: shutdownMarginMs }, log)
    await close()
    throw error
  }
  const stop = async (servers: ServersAtEnd) => {
    const isStopped = await stoppedInTime(agent, { servers, limitMs: agent.longestDrainMs + shutdownMarginMs }, log)
    await close()
    await release()
    return isStopped
  }
  let stopping: Promise<boolean> | undefined
  return {
    ok: true,
    hosted: {
      door,
      openWindow,
      suspend: () => agent.suspend(),
      resume: () => agent.resume(),
      supplyChanged: () => agent.supplyChanged(),
      cutDrains: () => agent.cutDrains(),
      stop: ({ servers } = { servers: 'stop' }) => (stopping ??= stop(servers)),
    },
  }
}

/** Undefined where nobody asked for it. */
async function listenForPrometheus(
  { metricsAddress, metricsTokenFile, stateDir }: AgentSettings,
  options: Omit<MetricsListenerOptions, 'address' | 'tokenFile'>,
) {
  const address = metricsAddress === undefined ? undefined : parseAddressAndPort(metricsAddress)
  return (
    address && startMetricsListener({ ...options, address, tokenFile: metricsTokenFile ?? metricsTokenIn(stateDir) })
  )
}

/** No process group has this number, so that every listener is named. */
const noGroup = -1

/** Who has a port that we wanted; nobody where the system does not say. */
async function holdersOf(port: number, platform: Platform, log: Logger): Promise<readonly PortHolder[]> {
  try {
    return (await platform.portListeners(port, noGroup)).others
  } catch (error) {
    log.warn('holder of a port not known', { port, error })
    return []
  }
}

/** By which an uninstall finds the log, without having to believe who tells of it. */
async function noteLogFile({ stateDir, logFile }: AgentSettings, log: Logger): Promise<void> {
  // There it goes with all else.
  if (logFile === undefined || path.dirname(logFile) === stateDir) return
  const file = path.join(stateDir, 'log-file.json')
  try {
    await writeFileAtomic(file, `${JSON.stringify({ logFile })}\n`, { mode: 0o600 })
  } catch (error) {
    log.warn('place of the log not noted', { file, error })
  }
}

/** The identity of this machine, or in one sentence why it cannot be read. */
async function identityIn(file: string): Promise<NodeIdentity | string> {
  try {
    return await loadNodeId({ file })
  } catch (error) {
    const why = messageOf(error)
    return `The node id ${file} cannot be used: ${why}; repair the file or choose another --state-dir.`
  }
}

async function stoppedInTime(
  agent: Agent,
  { servers, limitMs }: { readonly servers: ServersAtEnd; readonly limitMs: number },
  log: Logger,
): Promise<boolean> {
  const limit = Promise.withResolvers<false>()
  const timer = awakeTimeout(() => {
    log.error('not everything stopped in time', { limitMs })
    limit.resolve(false)
  }, limitMs)
  try {
    return await Promise.race([agent.stop({ servers }).then(() => true), limit.promise])
  } catch (error) {
    log.error('stopping failed', { error })
    return false
  } finally {
    timer.clear()
  }
}
