import type { Platform } from '../../agent-core/platform/platform.ts'
import { InstallationError, type InstallationHost } from '../../installation/installation-host.ts'
import {
  findGoAgentJobs,
  findGoAgents,
  type GoAgentJob,
  type GoAgentProcess,
} from '../../installation/migration/go-agent.ts'
import { launchdJob } from '../../installation/service/launchd.ts'

interface Here {
  readonly platform: Pick<Platform, 'processes'>
  /** Of our own agent, which may have the Go agent's name. */
  readonly ownPid: number | undefined
}

/**
 * One sentence for each of LLMKube's Go agents on this Mac, whether launchd starts it or a person did; beside them an installation of ours serves
 * only what they do not. Without `here` only the files are looked at.
 */
export async function notesOfGoAgent(host: InstallationHost, here: Here | undefined): Promise<string[]> {
  if (host.platform !== 'darwin') return []
  const readings = await findGoAgentJobs(host, undefined)
  const jobs = readings.flatMap((reading) => (reading.ok ? [reading.job] : []))
  const running = here ? await allRunning(jobs, here) : []
  const pids = here ? await Promise.all(jobs.map((job) => pidOf(host, job))) : []
  const moved =
    'its services are left alone: metal-agent migrate moves them to this agent, with one restart of each model'
  return [
    ...jobs.map(({ label, file }, index) => {
      const process = running.find(({ pid }) => pid === pids[index])
      const runs = process ? `, and runs as process ${process.pid} ${withServers(process)}` : ''
      return `LLMKube's Go agent is installed too (${label}, ${file})${runs}; ${moved}.`
    }),
    ...running
      .filter(({ pid }) => !pids.includes(pid))
      .map(
        (process) =>
          `LLMKube's Go agent runs too, as process ${process.pid} ${withServers(process)}, which no plist started (${process.commandLine.slice(0, 120)}); ${moved}, and ends it. "kill ${process.pid}" ends it together with its models.`,
      ),
  ]
}

async function allRunning(jobs: readonly GoAgentJob[], { platform, ownPid }: Here): Promise<GoAgentProcess[]> {
  const processes = await platform.processes()
  const once = { processes: () => Promise.resolve(processes) }
  const found = await Promise.all([undefined, ...jobs].map((job) => findGoAgents(once, job, ownPid)))
  return [...new Map(found.flat().map((one) => [one.pid, one])).values()]
}

/** Without launchctl nothing is loaded. */
async function pidOf(host: InstallationHost, { domain, label }: GoAgentJob): Promise<number | undefined> {
  try {
    return (await launchdJob(host, domain, label))?.pid
  } catch (error) {
    if (error instanceof InstallationError) return undefined
    throw error
  }
}

const withServers = ({ servers, suspended }: GoAgentProcess): string =>
  `with ${servers.length} ${servers.length === 1 ? 'server' : 'servers'}${suspended ? ', paused' : ''}`
