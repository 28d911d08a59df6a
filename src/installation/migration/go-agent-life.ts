import { copyFile, mkdir, open, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { statIfThere } from '../../agent-core/models/store/files.ts'
import { syncFolder } from '../../agent-core/util/files.ts'
import { shellCommand } from '../../contract/shell.ts'
import { InstallationError } from '../installation-host.ts'
import { bootout, bootstrap, kickstart, launchdJob } from '../launchctl.ts'
import type { GoAgentJob } from './go-agent-job.ts'
import type { GoAgentProcess, GoServer } from './go-agent-processes.ts'
import { endProcess, signalled } from './hand-over.ts'
import type { MigrationWorld } from './migration-world.ts'
import { migrationFolder } from './record.ts'

type World = Pick<MigrationWorld, 'host' | 'platform'>

/**
 * It notices nothing of what happens to its servers and slices, and its servers go on. Throws InstallationError where launchd has started
 * another since, of which nothing is known, and then pauses none.
 */
export async function pause({ platform }: Pick<World, 'platform'>, agents: readonly GoAgentProcess[]): Promise<void> {
  for (const { pid, startTime } of agents) {
    if (await platform.isRunning({ pid, startTime })) continue
    throw new InstallationError(
      `The Go agent that was looked at, process ${pid}, has ended meanwhile: repeat this, which looks again and goes on.`,
    )
  }
  for (const { pid } of agents) signalled(pid, 'SIGSTOP')
}

export const unpause = (agents: readonly GoAgentProcess[]): void =>
  void agents.map(({ pid }) => signalled(pid, 'SIGCONT'))

/**
 * Ends Go agents whose servers are gone. A paused one takes no SIGTERM, and woken up it would start its servers again: it is killed, which
 * loses nothing, since it keeps nothing on disk. launchd is told first, so that it starts no other.
 */
export async function end(
  { host, platform }: World,
  job: GoAgentJob | undefined,
  agents: readonly GoAgentProcess[],
): Promise<void> {
  const unloaded = job === undefined ? Promise.resolve() : unload({ host, platform }, job)
  for (const { pid, startTime } of agents) {
    if (await platform.isRunning({ pid, startTime })) signalled(pid, 'SIGKILL')
  }
  await unloaded
  for (const agent of agents) await endProcess(agent, platform)
}

async function unload({ host }: World, { domain, label }: GoAgentJob): Promise<void> {
  if (await launchdJob(host, domain, label)) await bootout(host, domain, label)
}

/** Servers that nothing needs any more. */
export async function endServers({ platform }: World, servers: readonly GoServer[]): Promise<void> {
  await Promise.all(servers.map((server) => endProcess(server, platform)))
}

/** A Go agent beside the one that is moved, with what it started. */
export async function endOthers(world: World, others: readonly GoAgentProcess[]): Promise<void> {
  for (const other of others) {
    await endProcess(other, world.platform)
    await endServers(world, other.servers)
  }
}

/** A copy in our state folder, on the disk when it is answered; the file itself stays for now. */
export async function keepPlist(stateDir: string, { file }: Pick<GoAgentJob, 'file'>): Promise<string> {
  const kept = path.join(migrationFolder(stateDir), path.basename(file))
  await mkdir(path.dirname(kept), { recursive: true, mode: 0o700 })
  if ((await statIfThere(file)) !== undefined) {
    await copyDurably(file, kept)
    // Of the folder that may have been made for it.
    await syncFolder(stateDir)
  }
  return kept
}

/** Content and name survive a power cut: the one that is copied may be removed then. */
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

/** So that no login starts it again. */
export const removePlist = ({ file }: GoAgentJob): Promise<void> => rm(file, { force: true })

/** Puts the plist back where it was; another that is there by now stays. Throws InstallationError. */
export async function restorePlist({ file, kept }: { readonly file: string; readonly kept: string }): Promise<void> {
  if ((await statIfThere(file)) !== undefined) return
  if ((await statIfThere(kept)) === undefined) {
    throw new InstallationError(
      `The plist ${file} cannot be put back, for its copy ${kept} is gone: install the Go agent again.`,
    )
  }
  await mkdir(path.dirname(file), { recursive: true })
  await copyDurably(kept, file)
}

const startLimitMs = 10_000

/** Has launchd start the Go agent. Throws InstallationError. */
export async function startAgain(
  { host }: World,
  { domain, label, file }: Pick<GoAgentJob, 'domain' | 'label' | 'file'>,
): Promise<void> {
  if (!(await launchdJob(host, domain, label))) await bootstrap(host, domain, label, file)
  const ends = performance.now() + startLimitMs
  while ((await launchdJob(host, domain, label))?.pid === undefined) {
    if (performance.now() > ends)
      throw new InstallationError(
        `launchd loaded ${file} and does not start it: ${shellCommand(['launchctl', 'print', `${domain}/${label}`])} says why.`,
      )
    await kickstart(host, domain, label)
    await delay(200)
  }
}
