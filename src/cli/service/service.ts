import { stat } from 'node:fs/promises'
import path from 'node:path'
import { buildInfo } from '../../agent-core/agent/build-info.ts'
import { ledgerProcesses } from '../../agent-core/servers/ledger.ts'
import { askProgram, ProgramError } from '../../agent-core/util/ask-program.ts'
import { readIfThere } from '../../agent-core/util/files.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { cleanText } from '../../contract/clean-text.ts'
import { shellCommand } from '../../contract/shell.ts'
import { InstallationError, type InstallationHost } from '../../installation/installation-host.ts'
import {
  installedServices,
  restartService,
  uninstallService,
  type InstalledService,
} from '../../installation/service/service.ts'
import { stateDirOf } from '../../installation/service/service-plan.ts'
import { exitCodes, isYes, type CliIo } from '../io.ts'
import { servingText } from '../uninstall.ts'
import { lastExitText, startedText } from './install.ts'
import { agentsOf, hostOf, launchdHost, saying, workOf } from './service-host.ts'

/** What does not answer its version within this is not waited for. */
const versionLimitMs = 10_000

/** `metal-agent service status`; 0 where it runs. */
export function status(io: CliIo, json: boolean, given?: InstallationHost): Promise<number> {
  return saying(io, async () => {
    const host = given ?? (await launchdHost(io))
    const services = await installedServices(host)
    if (services.length === 0) {
      const message = 'No service is installed: metal-agent install installs one.'
      io.stdout.write(json ? `${JSON.stringify({ installed: [], message })}\n` : `${message}\n`)
      return exitCodes.noAgent
    }
    const found = await Promise.all(services.map((service) => statusOf(service, host, io)))
    if (json) io.stdout.write(`${JSON.stringify({ installed: found })}\n`)
    else io.stdout.write(found.map((one) => `${linesOf(one).join('\n')}\n`).join('\n'))
    return found.some(({ pid }) => pid !== undefined) ? exitCodes.done : exitCodes.failed
  })
}

async function statusOf(
  { manager, plan, content, problem, isUnread }: InstalledService,
  { isRoot, user }: InstallationHost,
  io: CliIo,
) {
  const { isLoaded, pid, lastExit } = await manager.state()
  const look = plan && pid !== undefined ? await agentsOf(io).look(stateDirOf(plan)) : undefined
  const isOwn = look?.pid === pid
  // The command lies where its user can replace it: root does not run it.
  const isOthers = isUnread === true || (isRoot && (user.id !== 0 || plan?.userName !== undefined))
  const version = plan && !isOthers ? await versionOf(plan.program) : undefined
  return {
    title: manager.title,
    name: manager.name,
    file: manager.file,
    starts: manager.starts,
    problem,
    isLoaded,
    pid,
    runningSince: isOwn ? look?.startedAt : undefined,
    waitsFor: isOwn ? undefined : look?.pid,
    lastExit: lastExit && lastExitText(lastExit),
    command: content ? shellCommand(content.words) : undefined,
    version,
    isVersionAsked: !isOthers,
    thisVersion: buildInfo.version,
    log: plan?.flags.get('log-file'),
    errors: plan?.errorFile,
  }
}

function linesOf(found: Awaited<ReturnType<typeof statusOf>>): string[] {
  const { title, name, file, starts, problem, isLoaded, pid, runningSince, waitsFor, lastExit, version, thisVersion } =
    found
  const runs =
    pid === undefined
      ? 'It does not run'
      : `It runs as process ${pid}${runningSince === undefined ? '' : ` since ${runningSince}`}`
  const ended = lastExit === undefined ? 'has not ended since it was loaded' : `last ended with ${lastExit}`
  const waits = waitsFor === undefined ? [] : [`It waits: process ${waitsFor} serves from its state folder.`]
  const isOther = version !== undefined && version !== thisVersion
  const versionLine =
    version === undefined
      ? 'Its command does not report its version: metal-agent install replaces it.'
      : `Its command is metal-agent ${version}${isOther ? `, and this one is ${thisVersion}: metal-agent install switches it to this one.` : '.'}`
  return [
    `The ${title} ${name} is installed${isLoaded ? '' : ', and not loaded'}; it starts ${starts}.`,
    `${runs}, and ${ended}.`,
    ...waits,
    ...(problem === undefined ? [] : [`Its file ${problem}.`]),
    ...(found.isVersionAsked ? [versionLine] : []),
    `File:    ${file}`,
    ...(found.command === undefined ? [] : [`Command: ${found.command}`]),
    ...(found.log === undefined ? [] : [`Log:     ${found.log}`]),
  ]
}

/** Undefined where it cannot be run. */
async function versionOf([command = '', ...args]: readonly string[]): Promise<string | undefined> {
  try {
    const { stdout } = await askProgram({ command, args: [...args, '--version'], env: {}, timeLimitMs: versionLimitMs })
    return /^metal-agent (\S+)/.exec(stdout)?.[1]
  } catch (error) {
    if (error instanceof ProgramError) return undefined
    throw error
  }
}

/** `metal-agent service restart`: the models serve on. */
export function restart(io: CliIo, given?: InstallationHost): Promise<number> {
  return saying(io, async () => {
    const { servers, started, pidBefore } = await restartService(
      await theService(given ?? (await launchdHost(io))),
      workOf(io),
    )
    const before = pidBefore === undefined ? 'It did not run before. ' : ''
    io.stdout.write(`${before}${startedText(started, servers)}\n`)
    return started.kind === 'ended' ? exitCodes.failed : exitCodes.done
  })
}

/** `metal-agent service logs`: what the agent of the service wrote, through every change of file. */
export function logs(
  io: CliIo,
  { follow, lines }: { readonly follow: boolean; readonly lines: number },
): Promise<number> {
  return saying(io, async () => {
    const { plan, manager, problem } = await theService(await launchdHost(io))
    if (!plan) {
      throw new InstallationError(`${manager.file} ${problem ?? 'names no log: see metal-agent service status'}.`)
    }
    const log = plan.flags.get('log-file') ?? plan.errorFile
    const [written, errors] = await Promise.all([log, plan.errorFile].map((file) => stat(file).catch(() => undefined)))
    if (errors !== undefined && errors.size > 0 && errors.mtimeMs > (written?.mtimeMs ?? 0)) {
      io.stderr.write(`metal-agent: what the agent said last is not in its log but in ${plan.errorFile}\n`)
    }
    if (!written && !follow) throw new InstallationError(`There is no log ${log} yet: see metal-agent service status.`)
    return tail(['-n', String(lines), ...(follow ? ['-F'] : []), log], io)
  })
}

/** The log is renamed when it is full: `tail -F`, on macOS and Linux alike, follows the name to the new file. */
async function tail(args: readonly string[], io: CliIo): Promise<number> {
  const { execa } = await import('execa')
  const streams = { stdin: 'ignore', buffer: false, extendEnv: false, reject: false } as const
  const program = execa('/usr/bin/tail', args, { ...streams, env: { LC_ALL: 'C' } })
  program.stdout.setEncoding('utf8').on('data', (text: string) => io.stdout.write(text))
  program.stderr.setEncoding('utf8').on('data', (text: string) => io.stderr.write(cleanText(text)))
  const { exitCode, signal, cause } = await program
  if (exitCode === undefined && signal === undefined) {
    throw new InstallationError(`The log cannot be shown by tail: ${messageOf(cause)}.`, { cause })
  }
  return exitCode ?? exitCodes.failed
}

/** Throws InstallationError where there is none, or two. */
async function theService(host: InstallationHost): Promise<InstalledService> {
  const [service, other] = await installedServices(host)
  if (!service) throw new InstallationError('No service is installed: metal-agent install installs one.')
  if (!other) return service
  throw new InstallationError(
    `Two services are installed, ${service.manager.file} and ${other.manager.file}: remove one with metal-agent uninstall, or sudo metal-agent uninstall for the second.`,
  )
}

export interface UninstallRequest {
  readonly keepServing: boolean
  /** Models that serve end without a question. */
  readonly isConfirmed: boolean
}

/** `metal-agent uninstall`: the service alone. What it kept for the next agent, such as models and settings, stays. */
export function uninstall(
  io: CliIo,
  { keepServing, isConfirmed }: UninstallRequest,
  given?: InstallationHost,
): Promise<number> {
  return saying(io, async () => {
    const host = given ?? (await launchdHost(io))
    const services = await installedServices(host)
    if (services.length === 0) {
      io.stdout.write('No service is installed, so there is nothing to remove.\n')
      return exitCodes.done
    }
    // With both there, root removes what only root may, and the user what is theirs.
    const isMine = services.filter(({ manager }) => (manager.kind === 'launchDaemon') === host.isRoot)
    const chosen = services.length > 1 && isMine.length > 0 ? isMine : services
    if (!keepServing && !isConfirmed) {
      const serving = (await Promise.all(chosen.map((service) => servedBy(service, io)))).flat()
      if (serving.length > 0 && !(await mayEnd(serving, io))) return exitCodes.refused
    }
    for (const service of chosen) {
      const removed = await uninstallService(service, {
        host: await hostOf(service.plan, host, io),
        tell: workOf(io).tell,
        agents: keepServing ? agentsOf(io) : undefined,
      })
      io.stdout.write(`The service was removed, and with it:\n${removed.map((file) => `  ${file}\n`).join('')}`)
      if (keepServing)
        io.stdout.write('Its model servers keep running until the next agent on its state folder ends.\n')
    }
    return exitCodes.done
  })
}

/** The models that end with a service: those of its own agent, and not of one that it waits for. */
async function servedBy({ manager, plan }: InstalledService, io: CliIo): Promise<readonly string[]> {
  if (!plan) return []
  const { pid } = await manager.state()
  if (pid === undefined) return []
  const stateDir = stateDirOf(plan)
  const look = await agentsOf(io).look(stateDir)
  if (look) return look.pid === undefined || look.pid === pid ? look.serving : []
  // It does not say what it serves, and the ledger does.
  const ledger = await readIfThere(path.join(stateDir, 'ledger.json'))
  return [...new Set(ledgerProcesses(ledger ?? '').map(({ key }) => key))]
}

async function mayEnd(serving: readonly string[], { ask, stdout, stderr }: CliIo): Promise<boolean> {
  stdout.write(`${servingText(serving)}\n`)
  if (ask === undefined) {
    stderr.write(
      'metal-agent: Nothing was removed: run it again with --yes, which stops these models cleanly, or with --keep-serving.\n',
    )
    return false
  }
  const isAgreed = isYes(await ask('End them, and remove the service? [y/N] '))
  if (!isAgreed) stderr.write('metal-agent: Nothing was removed.\n')
  return isAgreed
}
