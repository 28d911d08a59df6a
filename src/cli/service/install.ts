import { buildInfo } from '../../agent-core/agent/build-info.ts'
import { hostPlatform } from '../../agent-core/platform/host.ts'
import type { Platform } from '../../agent-core/platform/platform.ts'
import { InstallationError, type InstallationHost } from '../../installation/installation-host.ts'
import { findGoAgentJobs, findGoAgents, withServers, type GoAgentJob } from '../../installation/migration/go-agent.ts'
import { ownPid } from '../../installation/migration/inspect.ts'
import { installService, type InstallOutcome, type Started } from '../../installation/service/change-service.ts'
import { installedServices, serviceManager } from '../../installation/service/installed-service.ts'
import { LaunchctlJob } from '../../installation/service/launchd.ts'
import {
  lingerCommand,
  refuseUnusableTexts,
  stateDirOf,
  type LastExit,
  type ServiceKind,
} from '../../installation/service/service-plan.ts'
import { VerbError } from '../agent-session.ts'
import { exitCodes, type CliIo } from '../io.ts'
import { saying, serviceHost, workOf } from './service-host.ts'
import { copyFor, placeWarnings, planOf } from './service-plan.ts'

export interface InstallRequest {
  readonly flags: readonly string[]
  readonly daemon?: boolean
  readonly user?: string | undefined
  readonly force?: boolean
  readonly dryRun?: boolean
  readonly platform?: 'darwin' | 'linux' | undefined
  readonly env?: Readonly<Record<string, string>>
  /** It takes the Go agent's place, of which nothing needs to be said. */
  readonly isMove?: boolean
}

/** `metal-agent install`, on this machine unless another is given; answers the exit code. Throws VerbError. */
export function install(request: InstallRequest, io: CliIo, given?: InstallationHost): Promise<number> {
  return saying(io, async () => {
    const { dryRun = false, platform, force = false, flags: args, env: stated = {}, isMove = false } = request
    if (platform !== undefined && !dryRun)
      throw new VerbError('--platform is for --dry-run: nothing can be installed on another system.')
    const own = given ?? (await serviceHost(io, request.user))
    const host = platform === undefined ? own : { ...own, platform }
    const kind = kindFor(request, host)
    const { plan, leftOut } = planOf({ kind, host, cwd: io.cwd, args, stated })
    const here =
      host.platform === own.platform ? { platform: hostPlatform(), ownPid: await ownPid(stateDirOf(plan)) } : undefined
    const notes = isMove ? [] : await notesOfGoAgent(host, here)
    for (const sentence of [...leftOut, ...placeWarnings(plan), ...notes]) io.stderr.write(`metal-agent: ${sentence}\n`)
    if (dryRun) {
      refuseUnusableTexts(plan)
      const manager = serviceManager(kind, host)
      io.stdout.write(manager.text(plan))
      io.stderr.write(`metal-agent: ${manager.file} would be written; nothing was changed.\n`)
      return exitCodes.done
    }
    // What cannot be installed leaves no copy of the command behind.
    await serviceManager(kind, host).check()
    const inUse = (await installedServices(host)).flatMap((one) => one.plan?.program[0] ?? [])
    const copy = await copyFor(plan, host, inUse)
    const outcome = await installService(plan, { host, work: workOf(io), force, copy })
    return report(outcome, host, io)
  })
}

function kindFor({ daemon = false }: InstallRequest, { platform, user, isRoot }: InstallationHost): ServiceKind {
  if (platform === 'linux') {
    if (!daemon) return 'systemdUser'
    throw new VerbError(
      `--daemon is for macOS. On Linux a user service runs with nobody logged in once lingering is on: ${lingerCommand(user)}`,
    )
  }
  if (daemon && isRoot && user.id === 0) {
    throw new VerbError('Model servers do not run as root: name the user to run the agent as with --user.')
  }
  return daemon ? 'launchDaemon' : 'launchAgent'
}

/** Says how an installation went; answers the exit code. */
export function report(outcome: InstallOutcome, host: InstallationHost, io: CliIo): number {
  const { manager, file, changes, isTightened, keptAt, started, servers } = outcome
  const done = {
    written: `${manager.file} is written: the service starts ${manager.starts}.`,
    changed: `${manager.file} is changed:\n${changes.map((line) => `  ${line}\n`).join('')}`.trimEnd(),
    updated: `${manager.file} stays as it is, and its service runs this metal-agent ${buildInfo.version} now.`,
    unchanged: `Nothing has changed: ${manager.file} already says this.`,
  }[file]
  const lines = [
    done,
    ...(isTightened ? ['Others can no longer open the file, because it may hold secrets.'] : []),
    ...(keptAt === undefined ? [] : [`The previous file is kept as ${keptAt}.`]),
    ...(started ? [startedText(started, servers)] : []),
    ...(file === 'written' && manager.kind === 'systemdUser'
      ? [`To have it run with nobody logged in: ${lingerCommand(host.user)}`]
      : []),
  ]
  io.stdout.write(lines.map((line) => `${line}\n`).join(''))
  return started?.kind === 'ended' ? exitCodes.failed : exitCodes.done
}

/** One sentence, or two: what became of a start. `servers`: those that ran before it. */
export function startedText(started: Started, servers: readonly number[]): string {
  switch (started.kind) {
    case 'answers': {
      const kept = servers.filter((pid) => started.look.serverPids.includes(pid)).length
      return `It runs as process ${started.pid} (metal-agent ${started.look.version}).${serversText(servers.length, kept)}`
    }
    case 'waits':
      return `It runs as process ${started.pid} and waits: process ${started.holder}, such as the app, serves from its state folder. It takes over when that ends.`
    case 'silent':
      return `It runs as process ${started.pid} but does not answer yet: metal-agent service logs shows what it is doing.`
    case 'ended':
      return `It exited at once${started.lastExit ? ` (${lastExitText(started.lastExit)})` : ''}: metal-agent service logs says why.`
  }
}

function serversText(before: number, kept: number): string {
  if (before === 0) return ''
  const which =
    before === 1 ? 'The model server that ran' : `${kept === before ? 'All' : kept} of ${before} model servers`
  return before === 1 && kept === 0
    ? ' The model server that ran is not taken over yet: see metal-agent status.'
    : ` ${which} kept running without a restart.`
}

export const lastExitText = (exit: LastExit): string =>
  'code' in exit ? `exit code ${exit.code}` : `signal ${exit.signal}`

interface Here {
  readonly platform: Pick<Platform, 'processes'>
  /** The process of our own agent, which may have the Go agent's name. */
  readonly ownPid: number | undefined
}

/**
 * One sentence for each of LLMKube's Go agents on this Mac, whether launchd starts it or a person did; beside them an installation of ours serves
 * only what they do not. Without `here` only the files are looked at.
 */
export async function notesOfGoAgent(host: InstallationHost, here: Here | undefined): Promise<string[]> {
  if (host.platform !== 'darwin') return []
  const { jobs } = await findGoAgentJobs(host, undefined)
  const programs = jobs.map(({ program }) => program)
  const running = here ? await findGoAgents(here.platform, programs, here.ownPid) : []
  const pids = here ? await Promise.all(jobs.map((job) => pidOf(host, job))) : []
  const moved =
    'its services are left alone: metal-agent migrate moves them to this agent, with one restart of each model'
  return [
    ...jobs.map(({ label, file }, index) => {
      const process = running.find(({ pid }) => pid === pids[index])
      const runs = process
        ? `, and runs as process ${process.pid} ${withServers(process)}${process.suspended ? ', paused' : ''}`
        : ''
      return `LLMKube's Go agent is installed too (${label}, ${file})${runs}; ${moved}.`
    }),
    ...running
      .filter(({ pid }) => !pids.includes(pid))
      .map(
        (process) =>
          `LLMKube's Go agent runs too, as process ${process.pid} ${withServers(process)}${process.suspended ? ', paused' : ''}, which no plist started (${process.commandLine.slice(0, 120)}); ${moved}, and ends it. "kill ${process.pid}" ends it together with its models.`,
      ),
  ]
}

/** Without launchctl nothing is loaded. */
async function pidOf(host: InstallationHost, { domain, label }: GoAgentJob): Promise<number | undefined> {
  try {
    return (await new LaunchctlJob(host, domain, label).look())?.pid
  } catch (error) {
    if (error instanceof InstallationError) return undefined
    throw error
  }
}
