import { asOwner, InstallationError, type InstallationHost } from '../installation-host.ts'
import {
  isServiceCommand,
  isVersionedCopy,
  replaceServiceCommand,
  serviceCommandIn,
  type Replacement,
} from '../versioned-copy.ts'
import { leaveServers, startedAs, stateDirOf, unloaded, type ServiceWork, type Started } from './hand-over.ts'
import {
  installedServices,
  keepAside,
  makePlaces,
  removeUnit,
  serviceManager,
  tightenUnit,
  writeUnit,
  type InstalledService,
} from './installed-service.ts'
import { differences, refuseUnusableTexts, type ServiceManager, type ServicePlan } from './service-plan.ts'

export interface InstallOutcome {
  readonly manager: ServiceManager
  /** What was done to the file; `updated`: nothing, and the service runs another version now. */
  readonly file: 'written' | 'changed' | 'updated' | 'unchanged'
  /** One line for each value that is another now. */
  readonly changes: readonly string[]
  /** Others had rights to the file that they have no more. */
  readonly isTightened: boolean
  /** Where the file of before was kept, because it was changed by hand. */
  readonly keptAt?: string
  /** Absent where nothing had to be started. */
  readonly started?: Started
  /** Model servers that went on. */
  readonly servers: readonly number[]
}

export interface InstallOptions {
  readonly host: InstallationHost
  readonly work: ServiceWork
  /** Replaces a file that was changed by hand. */
  readonly force: boolean
  /** The copy of the command that takes the place of the one the service starts. Absent where the service starts no copy. */
  readonly copy?: string
}

/** Brings the service to what the plan says, with its models serving on. Throws InstallationError; then all is as it was. */
export async function installService(wanted: ServicePlan, given: InstallOptions): Promise<InstallOutcome> {
  const { plan, options } = startedFromOnePlace(wanted, given)
  const { host, work, force } = options
  refuseUnusableTexts(plan)
  const manager = serviceManager(plan.kind, host)
  const installed = await installedServices(host)
  const [other] = installed.filter(({ manager: one }) => one.kind !== plan.kind)
  if (other) {
    throw new InstallationError(
      `The service is installed as a ${other.manager.title} already (${other.manager.file}), and one machine needs no two: remove it first with metal-agent uninstall.`,
    )
  }
  await manager.check()
  const before = installed.find(({ manager: one }) => one.kind === plan.kind)
  const text = manager.text(plan)
  const changes = before?.content ? differences(before.content.values, manager.read(text).values) : []
  if (before?.problem !== undefined && !force) throw new InstallationError(changedByHand(before, changes))
  const mode = manager.fileMode(plan)
  const isTightened = before !== undefined && (before.mode & ~mode) !== 0
  if (before?.text === text) {
    if (isTightened) await tightenUnit(manager, mode)
    const done = (await isNewCopy(plan, options))
      ? await updated(manager, plan, options)
      : await unchanged(manager, plan, work)
    return { ...done, changes: [], isTightened }
  }

  const places = await asOwner(host, () => makePlaces(plan))
  let servers: readonly number[] = []
  let keptAt: string | undefined
  let replaced: Replacement | undefined
  try {
    if (before) {
      // What cannot be understood is no agent of ours that could be asked.
      servers = before.plan ? ((await leaveServers(manager, before.plan, work))?.serverPids ?? []) : []
      await unloaded(manager, { forGood: false, limitMs: plan.exitTimeoutS * 1000 }, work)
      if (before.problem !== undefined) keptAt = await asOwner(host, () => keepAside(before, plan))
    }
    replaced = await replacedBy(plan, options)
    await writeUnit(manager, text, mode)
    await manager.load()
    await asOwner(host, async () => replaced?.keep())
  } catch (error) {
    await asOwner(host, async () => replaced?.undo())
    await restored(manager, before, error)
    await asOwner(host, () => places.undo())
    throw error
  }
  const started = await startedAs(manager, plan, work, servers)
  return {
    manager,
    file: before ? 'changed' : 'written',
    changes,
    isTightened,
    started,
    servers,
    ...(keptAt !== undefined && { keptAt }),
  }
}

/** A service of an earlier build names a copy by its version, and a person allowed macOS that path alone: the copy goes where every later one does. */
function startedFromOnePlace(plan: ServicePlan, options: InstallOptions) {
  const [command = '', ...args] = plan.program
  if (!isVersionedCopy(command)) return { plan, options }
  return {
    plan: { ...plan, program: [serviceCommandIn(stateDirOf(plan)), ...args] },
    options: { ...options, copy: command },
  }
}

const isNewCopy = async (plan: ServicePlan, { host, copy }: InstallOptions): Promise<boolean> =>
  copy !== undefined && !(await asOwner(host, () => isServiceCommand(copy, stateDirOf(plan))))

/** Undefined where the service starts this copy already, or none. */
async function replacedBy(plan: ServicePlan, options: InstallOptions): Promise<Replacement | undefined> {
  const { host, copy } = options
  if (copy === undefined || !(await isNewCopy(plan, options))) return undefined
  return asOwner(host, () => replaceServiceCommand(copy, stateDirOf(plan)))
}

/** Another version takes over the servers of the one that runs. Where it cannot be started the other one is again. */
async function updated(manager: ServiceManager, plan: ServicePlan, options: InstallOptions) {
  const { host, work } = options
  const { isLoaded } = await manager.state()
  const start = () => (isLoaded ? manager.start() : manager.load())
  const servers = (await leaveServers(manager, plan, work))?.serverPids ?? []
  const replaced = await replacedBy(plan, options)
  try {
    await start()
  } catch (error) {
    await asOwner(host, async () => replaced?.undo())
    await start().catch(() => undefined)
    throw error
  }
  await asOwner(host, async () => replaced?.keep())
  return { manager, file: 'updated', servers, started: await startedAs(manager, plan, work, servers) } as const
}

async function unchanged(manager: ServiceManager, plan: ServicePlan, work: ServiceWork) {
  const { isLoaded, pid } = await manager.state()
  const outcome = { manager, file: 'unchanged', servers: [] } as const
  if (isLoaded && pid !== undefined) return outcome
  await (isLoaded ? manager.start() : manager.load())
  return { ...outcome, started: await startedAs(manager, plan, work) }
}

/** The file of before, loaded again; where that fails too, the sentence says both. */
async function restored(manager: ServiceManager, before: InstalledService | undefined, why: unknown): Promise<void> {
  try {
    if (!before) {
      // systemd would start what it could not run again and again, also without the file.
      const { isLoaded, pid } = await manager.state()
      if (isLoaded || pid !== undefined) await manager.unload({ forGood: true })
      await removeUnit(manager)
      await manager.forget()
      return
    }
    await writeUnit(manager, before.text, before.mode)
    await manager.load()
  } catch (error) {
    const said = [why, error].map((one) => (one instanceof Error ? one.message : String(one)))
    throw new InstallationError(
      `${said[0] ?? ''} What was there before could not be put back either: ${said[1] ?? ''} See metal-agent service status.`,
      { cause: why },
    )
  }
}

function changedByHand({ manager, problem }: InstalledService, changes: readonly string[]): string {
  const shown = changes.length === 0 ? '' : ` What would change:\n${changes.map((line) => `  ${line}`).join('\n')}\n`
  return `${manager.file} ${problem ?? ''}, so it was left as it is.${shown}${shown === '' ? ' ' : ''}With --force it is replaced, and kept aside in the state folder.`
}
