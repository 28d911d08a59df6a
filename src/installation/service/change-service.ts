import { lstat, readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { asOwner, InstallationError, type InstallationHost } from '../installation-host.ts'
import { copiesFolder } from '../versioned-copy.ts'
import { leaveServers, startedAs, stateDirOf, unloaded, type ServiceWork, type Started } from './hand-over.ts'
import { isOurs, keepAside, removeIfEmpty, removeUnit, type InstalledService } from './installed-service.ts'
import { exitTimeoutS, type ServicePlan } from './service-plan.ts'

export interface RestartOutcome {
  readonly pidBefore: number | undefined
  /** Model servers that ran before. */
  readonly servers: readonly number[]
  readonly started: Started
}

/** Another process serves on with the same model servers. Throws InstallationError. */
export async function restartService(service: InstalledService, work: ServiceWork): Promise<RestartOutcome> {
  const { manager, plan, problem } = service
  await manager.check()
  if (!plan) {
    throw new InstallationError(`${manager.file} ${problem ?? ''}: install it anew with metal-agent install --force.`)
  }
  const before = await manager.state()
  const look = await leaveServers(manager, plan, work)
  await (before.isLoaded ? manager.start() : manager.load())
  const servers = look?.serverPids ?? []
  return { pidBefore: before.pid, servers, started: await startedAs(manager, plan, work, servers) }
}

export interface UninstallOptions {
  readonly host: InstallationHost
  readonly work: ServiceWork
  /** Its servers go on for an agent that is started by hand or by the app. */
  readonly keepServing: boolean
}

export interface UninstallOutcome {
  /** Every file that is gone. */
  readonly removed: readonly string[]
  readonly keptAt?: string
}

/** Ends the service in good order and removes what it consists of: its file, its log and its command. Throws InstallationError. */
export async function uninstallService(
  service: InstalledService,
  { host, work, keepServing }: UninstallOptions,
): Promise<UninstallOutcome> {
  const { manager, plan, problem } = service
  await manager.check()
  if (!isOurs(service)) {
    throw new InstallationError(`${manager.file} ${problem ?? ''}: it is none of ours, so it was left as it is.`)
  }
  if (keepServing && plan) await leaveServers(manager, plan, work)
  await unloaded(manager, { forGood: true, limitMs: (plan?.exitTimeoutS ?? exitTimeoutS(0)) * 1000 + 5_000 }, work)
  const keptAt = problem !== undefined && plan ? await asOwner(host, () => keepAside(service, plan)) : undefined
  await removeUnit(manager)
  await manager.forget()
  const made = plan ? await asOwner(host, () => removeMade(plan)) : []
  return { removed: [manager.file, ...made], ...(keptAt !== undefined && { keptAt }) }
}

/** The copies of the command, and the log in the service's own folder with its older parts, and what stands beside it; a log that a person put elsewhere is theirs. */
async function removeMade(plan: ServicePlan): Promise<string[]> {
  const folder = path.dirname(plan.errorFile)
  const log = plan.flags.get('log-file') ?? ''
  const names = new Set(
    [plan.errorFile, ...(path.dirname(log) === folder ? [log] : [])].map((one) => path.basename(one)),
  )
  const removed: string[] = []
  try {
    for (const entry of await readdir(folder).catch(() => [])) {
      if (!names.has(entry.replace(/\.(?:\d+|lock)$/, ''))) continue
      if (!(await lstat(path.join(folder, entry))).isFile()) continue
      await rm(path.join(folder, entry), { force: true })
      removed.push(path.join(folder, entry))
    }
    await removeIfEmpty(folder)
    const copies = copiesFolder(stateDirOf(plan))
    if (plan.program[0]?.startsWith(copies + path.sep) === true) {
      await rm(copies, { recursive: true, force: true })
      removed.push(copies)
    }
    await removeIfEmpty(stateDirOf(plan))
    return removed
  } catch (error) {
    throw new InstallationError(`What the service left could not be removed: ${messageOf(error)}.`, { cause: error })
  }
}
