import { setTimeout as delay } from 'node:timers/promises'
import type { ServersAtEnd } from '../agent-core/agent/agent-options.ts'
import { buildInfo } from '../agent-core/agent/build-info.ts'
import { logToFile } from '../agent-core/observability/log-file.ts'
import { createLog, type Log } from '../agent-core/observability/log.ts'
import type { Logger } from '../agent-core/observability/logger.ts'
import { nodeOptionsOfGateway, ofOneFile, type GatewayCommand } from '../agent-core/gateway/gateway.ts'
import { hostPlatform } from '../agent-core/platform/host.ts'
import type { Platform } from '../agent-core/platform/platform.ts'
import type { AgentSettings } from '../agent-core/settings/settings.ts'
import { acquireLock, startTimeOf } from '../agent-core/state/lock.ts'
import { isSelfContained } from '../agent-core/util/embedded.ts'
import { hasCode } from '../agent-core/util/files.ts'
import { messageOf } from '../agent-core/util/message-of.ts'
import { serviceVariable } from '../installation/service/service-plan.ts'
import { onceCopied } from '../installation/command-copy.ts'
import { hostAgent, type HostOptions, type HostResult } from '../serve/host-agent.ts'
import { exitCodes, type CliIo } from './io.ts'

/** Runs the agent until a signal ends it and answers the exit code. */
export async function runAgent(settings: AgentSettings, io: CliIo): Promise<number> {
  const platform = hostPlatform(io.platform)
  const opened = await openAgentLog(settings, platform, io)
  if (!opened.ok) {
    io.stderr.write(`metal-agent: ${opened.message}\n`)
    return exitCodes.failed
  }
  const { log } = opened
  try {
    return await runLogged(settings, io, platform, log)
  } finally {
    await opened.close()
  }
}

async function runLogged(settings: AgentSettings, io: CliIo, platform: Platform, log: Log): Promise<number> {
  const { ended, end } = agentEnd(log)
  const { version } = buildInfo
  const result = await hostedWhenFree(
    {
      settings,
      platform,
      log,
      version,
      env: io.env,
      temporaryDir: io.temporaryDir,
      windowFolder: io.windowFolder,
      ...(io.self && {
        gateway: { temporaryDir: io.temporaryDir, command: gatewayCommand(io.self, settings.stateDir) },
      }),
      onShutdown: ({ keepServing }) =>
        end({ cause: 'a request', code: exitCodes.done, servers: keepServing ? 'keep' : 'stop' }),
      onLogLevel: (level) => log.setLevel(level),
    },
    ended,
  )
  if (result === 'ended') return exitCodes.done
  if (!result.ok) {
    io.stderr.write(`metal-agent: ${result.message}\n`)
    return exitCodes.failed
  }
  const { cause, code, servers } = await ended
  log.info('stopping metal-agent', { cause, servers })
  const isStopped = await result.hosted.stop({ servers })
  log.info('stopped metal-agent')
  return isStopped ? code : exitCodes.failed
}

/** A command in one file is copied below the state folder, from where the gateway outlives an update of the app that it came with. */
function gatewayCommand(self: NonNullable<CliIo['self']>, stateDir: string): GatewayCommand {
  const [program, ...args] = self
  if (!isSelfContained()) return () => Promise.resolve([program, ...nodeOptionsOfGateway, ...args])
  const copy = onceCopied({ command: program, stateDir })
  return async () => ofOneFile(await copy())
}

/** How often the service looks whether the state folder is free: as fast as launchd would restart it, without the start. */
const lookMs = 5_000

/**
 * A service waits for the state folder that another agent has, such as that of the app: ended and started again and again it would do no
 * better. An agent that is no service names the agent that has it, and ends.
 */
async function hostedWhenFree(options: HostOptions, ended: Promise<End>): Promise<HostResult | 'ended'> {
  const isService = options.env[serviceVariable] !== undefined
  for (let waits = false; ; waits = true) {
    const result = await hostAgent(options)
    if (result.ok || result.reason !== 'taken' || !isService) return result
    if (!waits) options.log.info('waits for the state folder', { text: result.message })
    const limit = new AbortController()
    const next = delay(lookMs, undefined, { signal: limit.signal }).catch(() => undefined)
    const end = await Promise.race([ended, next]).finally(() => limit.abort())
    if (end !== undefined) return 'ended'
  }
}

interface End {
  readonly cause: string
  readonly code: number
  readonly servers: ServersAtEnd
}

/**
 * The first signal ends the agent in good order, the second at once. A defect ends the agent alone: what serves keeps serving, and the exit code
 * has launchd start the next agent, which takes it over. `end` does it on request.
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
    end({ cause: signal, code: exitCodes.done, servers: 'stop' })
  }
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, onSignal)
  process.on('uncaughtException', (error) => {
    log.error('defect', {
      error,
      stack: error.stack,
      text: 'the agent ends; its servers keep running for the next one',
    })
    end({ cause: 'a defect of the agent', code: exitCodes.failed, servers: 'keep' })
  })
  return { ended, end }
}

interface AgentLog {
  readonly ok: true
  readonly log: Log
  close(): Promise<void>
}

/** What a disk answers that may be better later: the agent serves meanwhile, and its log continues when it can. */
const passing = ['ENOSPC', 'EDQUOT', 'EROFS', 'EIO', 'EMFILE', 'ENFILE']

/** The agent's own log, on standard error or in the file that is set; otherwise one sentence why that file cannot be used. */
export async function openAgentLog(
  settings: AgentSettings,
  platform: Platform,
  { stderr }: Pick<CliIo, 'stderr'>,
): Promise<AgentLog | { readonly ok: false; readonly message: string }> {
  const { logFile, logLevel: level } = settings
  if (logFile === undefined) return { ok: true, log: createLog({ level }), close: () => Promise.resolve() }
  const tell = (message: string): void => void stderr.write(`metal-agent: ${message}\n`)
  const { file, log } = logToFile({ file: logFile, level, onTrouble: tell, onLate: (line) => void stderr.write(line) })
  const why = problemOf(() => file.open())
  if (why !== undefined && !why.mayPass) {
    return {
      ok: false,
      message: `--log-file ${logFile} cannot be used: ${why.text}; name another file, or leave the flag out.`,
    }
  }
  const locked = await acquireLock({
    file: `${logFile}.lock`,
    processStartTime: (pid) => startTimeOf(platform, pid),
    guards: { what: `the log ${logFile}`, instead: 'another --log-file' },
  })
  if (!locked.ok && locked.holder !== undefined) {
    file.close()
    return locked
  }
  tell(`the log goes to ${logFile}.`)
  if (!locked.ok) log.warn('the log is not guarded against a second agent', { text: locked.message })
  const close = async (): Promise<void> => {
    file.close()
    if (locked.ok) await locked.lock.release()
  }
  return { ok: true, log, close }
}

function problemOf(attempt: () => void): { readonly text: string; readonly mayPass: boolean } | undefined {
  try {
    attempt()
    return undefined
  } catch (error) {
    return { text: messageOf(error), mayPass: passing.some((code) => hasCode(error, code)) }
  }
}
