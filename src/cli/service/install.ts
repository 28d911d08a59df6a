import { buildInfo } from '../../agent-core/agent/build-info.ts'
import { hostPlatform } from '../../agent-core/platform/host.ts'
import type { Platform } from '../../agent-core/platform/platform.ts'
import type { InstallationHost } from '../../installation/installation-host.ts'
import { findGoAgentJobs, findGoAgents } from '../../installation/migration/go-agent.ts'
import { launchdPlist } from '../../installation/service/launchd.ts'
import { installService, type InstallOutcome, type Started } from '../../installation/service/service.ts'
import {
  refuseUnusableTexts,
  serviceFile,
  stateDirOf,
  type LastExit,
  type ServiceKind,
} from '../../installation/service/service-plan.ts'
import { VerbError } from '../agent-session.ts'
import { exitCodes, type CliIo } from '../io.ts'
import { agentPid, launchdHost, saying, workOf } from './service-host.ts'
import { ownCommand, placeWarnings, planOf } from './service-plan.ts'

export interface InstallRequest {
  readonly flags: readonly string[]
  readonly daemon?: boolean
  readonly user?: string | undefined
  readonly dryRun?: boolean
  readonly env?: Readonly<Record<string, string>>
  /** It takes the Go agent's place, of which nothing needs to be said. */
  readonly isMove?: boolean
}

/** `metal-agent install`; answers the exit code. Throws VerbError. */
export function install(request: InstallRequest, io: CliIo, given?: InstallationHost): Promise<number> {
  return saying(io, async () => {
    const { dryRun = false, flags: args, env: stated = {}, isMove = false } = request
    const host = given ?? (await launchdHost(io, request.user))
    const kind = kindFor(request, host)
    const { plan, leftOut } = planOf({ kind, host, cwd: io.cwd, args, stated })
    const notes = isMove ? [] : await notesOfGoAgent(host, hostPlatform(), await agentPid(stateDirOf(plan)))
    for (const sentence of [...leftOut, ...placeWarnings(plan), ...notes]) io.stderr.write(`metal-agent: ${sentence}\n`)
    if (dryRun) {
      refuseUnusableTexts(plan)
      io.stdout.write(launchdPlist(plan))
      io.stderr.write(`metal-agent: ${serviceFile(kind, host)} would be written; nothing was changed.\n`)
      return exitCodes.done
    }
    return report(await installService(plan, { host, work: workOf(io), command: ownCommand() }), io)
  })
}

function kindFor({ daemon = false }: InstallRequest, { user, isRoot }: InstallationHost): ServiceKind {
  if (daemon && isRoot && user.id === 0) {
    throw new VerbError('Model servers do not run as root: name the user to run the agent as with --user.')
  }
  return daemon ? 'launchDaemon' : 'launchAgent'
}

/** Says how an installation went; answers the exit code. */
function report({ manager, file, started, servers }: InstallOutcome, io: CliIo): number {
  const done = {
    written: `${manager.file} is written: the service starts ${manager.starts}.`,
    changed: `${manager.file} is changed.`,
    updated: `${manager.file} stays as it is, and its service runs this metal-agent ${buildInfo.version} now.`,
    unchanged: `Nothing has changed: ${manager.file} already says this.`,
  }[file]
  io.stdout.write(`${done}\n${started ? `${startedText(started, servers)}\n` : ''}`)
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

/** One sentence for each of LLMKube's Go agents on this Mac: beside them an installation of ours serves only what they do not. */
export async function notesOfGoAgent(
  host: InstallationHost,
  platform: Pick<Platform, 'processes'>,
  ownPid: number | undefined,
): Promise<string[]> {
  const { jobs } = await findGoAgentJobs(host, undefined)
  const [running] = await findGoAgents(platform, [], ownPid)
  const left = 'its services are left alone'
  if (jobs.length > 0) {
    return jobs.map(
      ({ label, file }) =>
        `LLMKube's Go agent is installed too (${label}, ${file}); ${left}: metal-agent migrate replaces it with this agent.`,
    )
  }
  return running
    ? [`LLMKube's Go agent runs too, as process ${running.pid}; ${left}: "kill ${running.pid}" ends it.`]
    : []
}
