import { copyFile, mkdir, open, rename } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { KubeApi } from '../../agent-core/kube/kube-api.ts'
import { statIfThere } from '../../agent-core/models/store/files.ts'
import type { Platform } from '../../agent-core/platform/platform.ts'
import { askActivity } from '../../agent-core/servers/probe.ts'
import { hasCode, syncFolder } from '../../agent-core/util/files.ts'
import { shellCommand } from '../../contract/shell.ts'
import { InstallationError, type InstallationHost } from '../installation-host.ts'
import { LaunchctlJob } from '../service/launchd.ts'
import { release, withdraw } from './cluster.ts'
import { findGoAgents, readJob, type GoAgentJob, type GoAgentProcess, type GoServer } from './go-agent.ts'
import type { MigrationWorld } from './inspect.ts'
import type { Transfer } from './plan.ts'
import { migrationFolder, type Migration } from './record.ts'

type Running = Pick<Platform, 'isRunning'>

/**
 * A paused Go agent notices nothing of what happens to its servers and slices, and its servers run on. Throws InstallationError where
 * launchd has started another one since, which was not looked at.
 */
export async function pause({ pid, startTime }: GoAgentProcess, platform: Running): Promise<void> {
  if ((await platform.isRunning({ pid, startTime })) && signalled(pid, 'SIGSTOP')) return
  throw new InstallationError(
    `The Go agent that was checked, process ${pid}, has ended in the meantime: run this again, which checks again and continues.`,
  )
}

/** So long is waited for a moment without a request; what is in flight then is cut off. */
const quietLimitMs = 30_000
const quietLookMs = 20

/**
 * Pauses a Go agent through which requests come to its servers, in a moment in which none of them answers one. Throws InstallationError as
 * {@link pause} does.
 */
export async function pauseWhenQuiet(agent: GoAgentProcess, platform: Running): Promise<void> {
  const ends = performance.now() + quietLimitMs
  for (;;) {
    if (await areQuiet(agent)) {
      // The last answer has passed the agent by then.
      await delay(quietLookMs)
      await pause(agent, platform)
      if (await areQuiet(agent)) return
      signalled(agent.pid, 'SIGCONT')
    }
    if (performance.now() > ends) return pause(agent, platform)
    await delay(quietLookMs)
  }
}

async function areQuiet({ servers }: GoAgentProcess): Promise<boolean> {
  const busy = await Promise.all(servers.map(({ port }) => isBusy(port)))
  return !busy.includes(true)
}

/**
 * Ends Go agents whose servers are gone. A paused one takes no SIGTERM, and resumed it would start its servers again, so it is killed: it
 * keeps nothing on disk. launchd is told first, so that it starts no other.
 */
export async function end(
  { host, platform }: Pick<MigrationWorld, 'host' | 'platform'>,
  job: GoAgentJob | undefined,
  agents: readonly GoAgentProcess[],
): Promise<void> {
  const launchd = job && new LaunchctlJob(host, job.domain, job.label)
  // It waits for the process, which is killed meanwhile.
  const unloaded = launchd && (await launchd.look()) ? launchd.unload() : undefined
  for (const { pid, startTime } of agents) {
    if (await platform.isRunning({ pid, startTime })) signalled(pid, 'SIGKILL')
  }
  await unloaded
  for (const agent of agents) await endProcess(agent, platform)
}

/** Ends a Go agent beside the one that is moved, with what it started. */
export async function endOther(other: GoAgentProcess, platform: Running): Promise<void> {
  await endProcess(other, platform)
  for (const server of other.servers) await endProcess(server, platform)
}

/** Copies the plist into our state folder; resolves to the copy once it is on the disk. The file itself stays for now. */
export async function keepPlist(stateDir: string, { file }: Pick<GoAgentJob, 'file'>): Promise<string> {
  const kept = path.join(migrationFolder(stateDir), path.basename(file))
  await mkdir(path.dirname(kept), { recursive: true, mode: 0o700 })
  if ((await statIfThere(file)) !== undefined) {
    await copyDurably(file, kept)
    // The folder may have been made for it.
    await syncFolder(stateDir)
  }
  return kept
}

/** Content and name survive a power cut, so that the original may be removed afterwards. */
async function copyDurably(from: string, to: string): Promise<void> {
  const beside = `${to}.new`
  await copyFile(from, beside)
  {
    await using copy = await open(beside)
    await copy.sync()
  }
  await rename(beside, to)
  await syncFolder(path.dirname(to))
}

/** Puts the plist back where it was; another one that is there stays. Throws InstallationError. */
export async function restorePlist({ file, kept }: { readonly file: string; readonly kept: string }): Promise<void> {
  if ((await statIfThere(file)) !== undefined) return
  if ((await statIfThere(kept)) === undefined) {
    throw new InstallationError(
      `The plist ${file} cannot be put back, because its copy ${kept} is gone: install the Go agent again.`,
    )
  }
  await mkdir(path.dirname(file), { recursive: true })
  await copyDurably(kept, file)
}

const startLimitMs = 20_000
const startLookMs = 200

/** A paused Go agent that still has servers continues with them; otherwise a fresh one starts everything at once. Throws InstallationError. */
export async function resume(world: MigrationWorld, { job: kept, byHand }: Migration): Promise<void> {
  const { host, platform, tell } = world
  const agents = await findGoAgents(platform, kept ? [kept.program] : [], undefined)
  if (agents.some(({ servers, suspended }) => servers.length > 0 || !suspended)) {
    for (const { pid } of agents) signalled(pid, 'SIGCONT')
    const pids = agents.map(({ pid }) => pid).join(', ')
    tell(`The Go agent keeps running (process ${pids}), and starts again what it finds missing within half a minute.`)
    return
  }
  const job = kept && (await readJob(kept.file, host))
  await end(world, job, agents)
  if (!job) {
    tell(`The Go agent was started by hand. To start it again: ${byHand ?? 'as you did'}`)
    return
  }
  await startAgain(host, job)
  const started = await eventually(async () => (await findGoAgents(platform, [job.program], undefined))[0])
  if (!started) {
    throw new InstallationError(
      `${job.label} was loaded, but no process of it is running: its log ${job.logFile ?? ''} says why.`,
    )
  }
  tell(`The Go agent runs again (process ${started.pid}) and loads its models.`)
}

/** Has launchd start the Go agent. */
async function startAgain(host: InstallationHost, { domain, label, file }: GoAgentJob): Promise<void> {
  const launchd = new LaunchctlJob(host, domain, label)
  if (!(await launchd.look())) await launchd.load(file)
  const pid = await eventually(async () => {
    const found = (await launchd.look())?.pid
    if (found === undefined) await launchd.start()
    return found
  })
  if (pid !== undefined) return
  throw new InstallationError(
    `launchd loaded ${file} but does not start it: ${shellCommand(['launchctl', 'print', `${domain}/${label}`])} says why.`,
  )
}

async function eventually<T>(look: () => Promise<T | undefined>): Promise<T | undefined> {
  const ends = performance.now() + startLimitMs
  for (;;) {
    const found = await look()
    if (found !== undefined || performance.now() > ends) return found
    await delay(startLookMs)
  }
}

/** Requests in flight may take as long to finish as with our own agent. */
const drainMs = 30_000
const drainLookMs = 100
const activityLimitMs = 1_000
/** The Go agent waits as long between SIGTERM and SIGKILL. */
const graceMs = 10_000
const goneLookMs = 20

/**
 * Takes one service from a paused Go agent: its server gets no new requests, those in flight finish, the server ends, and our agent may claim
 * the slice.
 */
export async function giveUp({ service, server }: Transfer, api: KubeApi, platform: Running): Promise<void> {
  await withdraw(api, service)
  if (server !== undefined) {
    await drained(server.port)
    await endProcess(server, platform)
  }
  await release(api, service)
}

async function drained(port: number): Promise<void> {
  const ends = performance.now() + drainMs
  while (performance.now() < ends) {
    if (!(await isBusy(port))) return
    await delay(drainLookMs)
  }
}

async function isBusy(port: number): Promise<boolean> {
  const activity = await askActivity(port, activityLimitMs)
  return activity.kind === 'counted' && activity.requests > 0
}

/** SIGTERM, then SIGKILL. A process that has got the number since is left alone. */
export async function endProcess(
  { pid, startTime }: Pick<GoServer, 'pid' | 'startTime'>,
  platform: Running,
): Promise<void> {
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    const ends = performance.now() + graceMs
    if (!(await platform.isRunning({ pid, startTime })) || !signalled(pid, signal)) return
    while (performance.now() < ends) {
      if (!(await platform.isRunning({ pid, startTime }))) return
      await delay(goneLookMs)
    }
  }
}

/** False where there is no such process. */
function signalled(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal)
  } catch (error) {
    if (hasCode(error, 'ESRCH')) return false
    throw error
  }
}
