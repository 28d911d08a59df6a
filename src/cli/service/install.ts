import { buildInfo } from '../../agent-core/agent/build-info.ts'
import { hostPlatform } from '../../agent-core/platform/host.ts'
import { InstallationError, type InstallationHost } from '../../installation/installation-host.ts'
import { ownPid } from '../../installation/migration/inspect.ts'
import { stateDirOf, type ServiceWork } from '../../installation/service/hand-over.ts'
import { installService, type InstallOutcome } from '../../installation/service/install-service.ts'
import { installedServices, serviceManager } from '../../installation/service/installed-service.ts'
import { lingerCommand, refuseUnusableTexts, type ServiceKind } from '../../installation/service/service-plan.ts'
import { CopyError } from '../../installation/versioned-copy.ts'
import { VerbError } from '../agent-session.ts'
import { exitCodes, type CliIo } from '../io.ts'
import { notesOfGoAgent } from './go-agent-note.ts'
import { agentsOf } from './service-agents.ts'
import { placeWarnings } from './service-flags.ts'
import { serviceHost } from './service-host.ts'
import { copyFor, planOf, programFor } from './service-plan.ts'
import { startedText } from './service-words.ts'

export interface InstallRequest {
  readonly daemon: boolean
  readonly user: string | undefined
  readonly force: boolean
  readonly dryRun: boolean
  readonly platform: 'darwin' | 'linux' | undefined
  readonly env: Readonly<Record<string, string>>
  readonly flags: readonly string[]
  /** It takes the Go agent's place, of which nothing needs to be said. */
  readonly isMove: boolean
}

/** `metal-agent install`, on this machine unless another is given; answers the exit code. Throws VerbError. */
export function install(request: InstallRequest, io: CliIo, given?: InstallationHost): Promise<number> {
  return saying(io, async () => {
    const { dryRun, platform, force, flags: args, env: stated } = request
    if (platform !== undefined && !dryRun)
      throw new VerbError('--platform is for --dry-run: nothing can be installed on another system.')
    const own = given ?? (await serviceHost(io, request.user))
    const host = platform === undefined ? own : { ...own, platform }
    const kind = kindFor(request, host)
    const { plan, leftOut } = planOf({ kind, host, cwd: io.cwd, args, stated })
    const here =
      host.platform === own.platform ? { platform: hostPlatform(), ownPid: await ownPid(stateDirOf(plan)) } : undefined
    const notes = request.isMove ? [] : await notesOfGoAgent(host, here)
    for (const sentence of [...leftOut, ...placeWarnings(plan), ...notes]) io.stderr.write(`metal-agent: ${sentence}\n`)
    if (dryRun) {
      const whole = { ...plan, program: programFor(plan) }
      refuseUnusableTexts(whole)
      const manager = serviceManager(kind, host)
      io.stdout.write(manager.text(whole))
      io.stderr.write(`metal-agent: ${manager.file} would be written; nothing was.\n`)
      return exitCodes.done
    }
    // What cannot be installed leaves no copy of the command behind.
    await serviceManager(kind, host).check()
    const inUse = (await installedServices(host)).flatMap((one) => one.plan?.program[0] ?? [])
    const copy = await copyFor(plan, host, inUse)
    const whole = { ...plan, program: programFor(plan) }
    const outcome = await installService(whole, { host, work: workOf(io), force, ...(copy !== undefined && { copy }) })
    return told(outcome, host, io)
  })
}

function kindFor({ daemon }: InstallRequest, { platform, user, isRoot }: InstallationHost): ServiceKind {
  if (platform === 'linux') {
    if (!daemon) return 'systemdUser'
    throw new VerbError(
      `--daemon is for macOS. On Linux the service of a user runs with nobody logged in where that user lingers: ${lingerCommand(user)}`,
    )
  }
  if (daemon && isRoot && user.id === 0) {
    throw new VerbError('Model servers do not run as root: name the user whose agent it is with --user.')
  }
  return daemon ? 'launchDaemon' : 'launchAgent'
}

/** Says how an installation went; answers the exit code. */
export function told(outcome: InstallOutcome, host: InstallationHost, io: CliIo): number {
  const { manager, file, changes, isTightened, keptAt, started, servers } = outcome
  const done = {
    written: `${manager.file} is written: the service starts ${manager.starts}.`,
    changed: `${manager.file} is changed:\n${changes.map((line) => `  ${line}\n`).join('')}`.trimEnd(),
    updated: `${manager.file} stays as it is, and its service runs this metal-agent ${buildInfo.version} now.`,
    unchanged: `Nothing has changed: ${manager.file} says this already.`,
  }[file]
  const lines = [
    done,
    ...(isTightened ? ['Others had rights to the file that they have no more: it may hold what is secret.'] : []),
    ...(keptAt === undefined ? [] : [`What was there is kept as ${keptAt}.`]),
    ...(started ? [startedText(started, servers)] : []),
    ...(file === 'written' && manager.kind === 'systemdUser'
      ? [`To have it run with nobody logged in: ${lingerCommand(host.user)}`]
      : []),
  ]
  io.stdout.write(lines.map((line) => `${line}\n`).join(''))
  return started?.kind === 'ended' ? exitCodes.failed : exitCodes.done
}

export const workOf = (io: CliIo): ServiceWork => ({
  agents: agentsOf(io),
  tell: (sentence) => void io.stderr.write(`${sentence}\n`),
})

/** What was refused or failed is one sentence and an exit code. */
export async function saying(io: CliIo, work: () => Promise<number>): Promise<number> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof InstallationError) && !(error instanceof CopyError)) throw error
    io.stderr.write(`metal-agent: ${error.message}\n`)
    return exitCodes.failed
  }
}
