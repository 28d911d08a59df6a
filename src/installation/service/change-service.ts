import { chmod, lstat, mkdir, open, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import writeFileAtomic from 'write-file-atomic'
import { hasCode } from '../../agent-core/util/files.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { lookAt, namesIn, removeIfEmpty } from '../files.ts'
import { asOwner, attempt, InstallationError, type InstallationHost } from '../installation-host.ts'
import {
  copiesFolder,
  isServiceCommand,
  isVersionedCopy,
  replaceServiceCommand,
  serviceCommandIn,
} from '../versioned-copy.ts'
import { installedServices, isOurs, serviceManager, type InstalledService } from './installed-service.ts'
import {
  differences,
  exitTimeoutS,
  refuseUnusableTexts,
  stateDirOf,
  type LastExit,
  type ServiceManager,
  type ServicePlan,
} from './service-plan.ts'

/** The agent of a state folder, as far as its service has to know; the one who installs looks it up. */
export interface Agents {
  /** Undefined where none answers. Takes no longer than a few seconds. */
  look(stateDir: string): Promise<AgentLook | undefined>
  /** Has it end without its servers; `silent` where none answers. One sentence where it refuses. */
  leave(stateDir: string): Promise<'leaves' | 'silent' | { readonly refused: string }>
}

export interface AgentLook {
  /** Who has the lock of the state folder. */
  readonly pid: number | undefined
  readonly version: string
  readonly startedAt: string
  /** Process ids of the model servers that it has now. */
  readonly serverPids: readonly number[]
  /** The services that have one, as namespace/name. */
  readonly serving: readonly string[]
}

interface Waiting {
  /** Says in one sentence what is waited for. */
  readonly tell: (sentence: string) => void
  readonly timings?: Timings
}

export interface ServiceWork extends Waiting {
  readonly agents: Agents
}

interface Timings {
  readonly pollMs: number
  /** An agent that leaves its servers ends within seconds; one that does not is killed. */
  readonly leaveMs: number
  /** Reading the state folder and taking servers over takes about a second. */
  readonly startMs: number
}

const usualTimings: Timings = { pollMs: 250, leaveMs: 20_000, startMs: 20_000 }

export interface InstallOptions {
  readonly host: InstallationHost
  readonly work: ServiceWork
  /** Replaces a file that was changed by hand. */
  readonly force: boolean
  /** The copy of the command that takes the place of the one the service starts. Absent where the service starts no copy. */
  readonly copy?: string | undefined
}

export interface InstallOutcome {
  readonly manager: ServiceManager
  /** What was done to the file; `updated`: nothing, and the service runs another version now. */
  readonly file: 'written' | 'changed' | 'updated' | 'unchanged'
  /** One line for each value that is another now. */
  readonly changes: readonly string[]
  /** Others had rights to the file, which were taken from them. */
  readonly isTightened: boolean
  /** The copy of the file of before, which was changed by hand. */
  readonly keptAt?: string | undefined
  /** Absent where nothing had to be started. */
  readonly started?: Started
  /** Model servers that ran on. */
  readonly servers: readonly number[]
}

/** Brings the service to what the plan says, with its models serving on. Throws InstallationError; then all is as it was. */
export async function installService(wanted: ServicePlan, options: InstallOptions): Promise<InstallOutcome> {
  const { plan, copy } = startedFromOnePlace(wanted, options.copy)
  const { host, work, force } = options
  refuseUnusableTexts(plan)
  const manager = serviceManager(plan.kind, host)
  const before = await onlyService(plan.kind, host)
  await manager.check()
  const text = manager.text(plan)
  const mode = manager.fileMode(plan)
  const isSameFile = before?.text === text
  const changes = before?.content ? differences(before.content.values, manager.read(text).values) : []
  if (before?.problem !== undefined && !force) throw new InstallationError(changedByHand(before, changes))
  const isTightened = before !== undefined && (before.mode & ~mode) !== 0
  if (isSameFile && isTightened) {
    await attempt(`The mode of ${manager.file} cannot be changed`, () => chmod(manager.file, mode))
  }
  const isNewCommand = copy !== undefined && !(await asOwner(host, () => isServiceCommand(copy, stateDirOf(plan))))
  const { isLoaded, pid } = await manager.state()
  const said = { manager, changes, isTightened }
  if (isSameFile && !isNewCommand && isLoaded && pid !== undefined) return { ...said, file: 'unchanged', servers: [] }

  const undo: (() => Promise<void>)[] = []
  let servers: readonly number[] = []
  let keptAt: string | undefined
  try {
    if (!isSameFile) undo.push(await asOwner(host, () => makePlaces(plan)))
    // A file that cannot be understood starts no agent of ours, so there is none to be asked.
    if (before?.plan) servers = await leaveServers(manager, before.plan, work)
    if (!isSameFile || isNewCommand) undo.push(() => putBack(manager, before, isSameFile))
    if (before && !isSameFile) {
      await unloaded(manager, { forGood: false, limitMs: plan.exitTimeoutS * 1000 }, work)
      if (before.problem !== undefined) keptAt = await asOwner(host, () => keepAside(before, plan))
    }
    const command = isNewCommand ? await asOwner(host, () => replaceServiceCommand(copy, stateDirOf(plan))) : undefined
    if (command) undo.push(() => asOwner(host, () => command.undo()))
    if (!isSameFile) await writeUnit(manager, text, mode)
    await (isSameFile ? manager.start() : manager.load())
    await asOwner(host, async () => command?.keep())
  } catch (error) {
    await takeBack(undo, error)
    throw error
  }
  const started = await startedAs(manager, plan, work, servers)
  const file = isSameFile ? (isNewCommand ? 'updated' : 'unchanged') : before ? 'changed' : 'written'
  return { ...said, file, started, servers, keptAt }
}

/** A service of an earlier build names a copy by its version, and a person allowed macOS that path alone: the copy goes where every later one does. */
function startedFromOnePlace(plan: ServicePlan, copy: string | undefined) {
  const [command = '', ...args] = plan.program
  if (!isVersionedCopy(command)) return { plan, copy }
  return { plan: { ...plan, program: [serviceCommandIn(stateDirOf(plan)), ...args] }, copy: command }
}

/** The service of this kind; undefined where there is none. Throws InstallationError where there is one of the other kind. */
async function onlyService(kind: ServicePlan['kind'], host: InstallationHost): Promise<InstalledService | undefined> {
  const installed = await installedServices(host)
  const other = installed.find(({ manager }) => manager.kind !== kind)
  if (other) {
    throw new InstallationError(
      `The service is installed as a ${other.manager.title} already (${other.manager.file}), and one machine needs only one: remove it first with metal-agent uninstall.`,
    )
  }
  return installed[0]
}

function changedByHand({ manager, problem }: InstalledService, changes: readonly string[]): string {
  const shown = changes.length === 0 ? ' ' : ` What would change:\n${changes.map((line) => `  ${line}\n`).join('')}`
  return `${manager.file} ${problem ?? ''}, so it was left as it is.${shown}--force replaces it and keeps a copy in the state folder.`
}

/** The last step first; where that fails too, the sentence says both. */
async function takeBack(undo: readonly (() => Promise<void>)[], why: unknown): Promise<void> {
  try {
    for (const step of undo.toReversed()) await step()
  } catch (error) {
    throw new InstallationError(
      `${messageOf(why)} What was there before could not be put back either: ${messageOf(error)} See metal-agent service status.`,
      { cause: why },
    )
  }
}

/** Puts the file of before back and starts its service. */
async function putBack(manager: ServiceManager, before: InstalledService | undefined, isSameFile: boolean) {
  if (before) {
    if (isSameFile) return manager.start()
    await writeUnit(manager, before.text, before.mode)
    return manager.load()
  }
  // systemd would start what it could not run again and again, also without the file.
  const { isLoaded, pid } = await manager.state()
  if (isLoaded || pid !== undefined) await manager.unload({ forGood: true })
  await removeUnit(manager)
}

/** Folders and files that launchd, systemd and the agent find there. Answers what removes those that were made and are still empty. */
async function makePlaces(plan: ServicePlan): Promise<() => Promise<void>> {
  const { errorFile } = plan
  const folders: string[] = []
  let isFileMade = false
  const undo = async (): Promise<void> => {
    if (isFileMade && (await lookAt(errorFile))?.size === 0) await rm(errorFile, { force: true })
    for (const one of folders.toReversed()) await removeIfEmpty(one)
  }
  try {
    for (const folder of [stateDirOf(plan), path.dirname(errorFile)]) folders.push(...(await makeFolder(folder)))
    // launchd would make it as root, and the agent could not write to it.
    const file = await attempt(`${errorFile} cannot be made, so nothing was installed`, () => openNew(errorFile))
    isFileMade = file !== undefined
    await file?.close()
    return undo
  } catch (error) {
    await undo()
    throw error
  }
}

/** Undefined where it is there already. */
const openNew = (file: string) =>
  open(file, 'ax', 0o600).catch((error: unknown) => {
    if (!hasCode(error, 'EEXIST')) throw error
  })

/** Every folder of the path that was missing. */
async function makeFolder(folder: string): Promise<string[]> {
  return attempt(`Nothing was installed: the folder ${folder} cannot be used`, async () => {
    const isLink = (await lookAt(folder))?.isSymbolicLink() === true
    if (isLink && (await stat(folder).catch(() => undefined)) === undefined) {
      throw new Error('it is a symbolic link to a folder that is not there')
    }
    const first = await mkdir(folder, { recursive: true, mode: 0o700 })
    if (first === undefined) return []
    const below = path.relative(first, folder).split(path.sep).filter(Boolean)
    return [first, ...below.map((_, index) => path.join(first, ...below.slice(0, index + 1)))]
  })
}

/** Replaced as a whole: nobody sees half of it. Throws InstallationError. */
const writeUnit = ({ file }: ServiceManager, text: string, mode: number): Promise<void> =>
  attempt(`${file} cannot be written`, async () => {
    await mkdir(path.dirname(file), { recursive: true })
    await writeFileAtomic(file, text, { mode })
  })

async function removeUnit(manager: ServiceManager): Promise<void> {
  await attempt(`${manager.file} cannot be removed`, () => rm(manager.file, { force: true }))
  await manager.forget()
}

/** A copy of a file that a person changed; answers where. launchd takes none that does not end in ".plist". */
async function keepAside({ manager, text }: InstalledService, plan: ServicePlan): Promise<string> {
  const time = new Date().toISOString().replace(/[:.]/g, '-')
  const file = path.join(stateDirOf(plan), `${path.basename(manager.file)}.${time}.kept`)
  await attempt(`${manager.file} could not be kept as ${file}`, () => writeFileAtomic(file, text, { mode: 0o600 }))
  return file
}

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
    throw new InstallationError(`${manager.file} ${problem ?? ''}: replace it with metal-agent install --force.`)
  }
  const { pid: pidBefore } = await manager.state()
  const servers = await leaveServers(manager, plan, work)
  await manager.start()
  return { pidBefore, servers, started: await startedAs(manager, plan, work, servers) }
}

export interface UninstallOptions extends Waiting {
  readonly host: InstallationHost
  /** Who has the agent leave its servers for one that is started by hand or by the app; absent = it stops them. */
  readonly agents?: Agents | undefined
}

export interface UninstallOutcome {
  /** Every file that is gone. */
  readonly removed: readonly string[]
  readonly keptAt: string | undefined
}

/** Ends the service in good order and removes what it consists of: its file, its log and its command. Throws InstallationError. */
export async function uninstallService(
  service: InstalledService,
  { host, agents, ...waiting }: UninstallOptions,
): Promise<UninstallOutcome> {
  const { manager, plan, problem } = service
  await manager.check()
  if (!isOurs(service)) {
    throw new InstallationError(`${manager.file} ${problem ?? ''}: Metalbar did not write it, so it was left as it is.`)
  }
  if (agents && plan) await leaveServers(manager, plan, { agents, ...waiting })
  const limitMs = (plan?.exitTimeoutS ?? exitTimeoutS(0)) * 1000 + 5_000
  await unloaded(manager, { forGood: true, limitMs }, waiting)
  const keptAt = problem !== undefined && plan ? await asOwner(host, () => keepAside(service, plan)) : undefined
  await removeUnit(manager)
  const made = plan ? await asOwner(host, () => removeMade(plan)) : []
  return { removed: [manager.file, ...made], keptAt }
}

/** The copies of the command, and the logs in the service's own folder with their earlier files; a log that a person put elsewhere is theirs. */
const removeMade = (plan: ServicePlan): Promise<string[]> =>
  attempt('What the service left could not be removed', async () => {
    const folder = path.dirname(plan.errorFile)
    const logs = [plan.errorFile, plan.flags.get('log-file') ?? ''].filter((log) => path.dirname(log) === folder)
    const isLog = (file: string) => logs.includes(file.replace(/\.(?:\d+|lock)$/, ''))
    const removed: string[] = []
    for (const file of (await namesIn(folder)).map((name) => path.join(folder, name)).filter(isLog)) {
      if (!(await lstat(file)).isFile()) continue
      await rm(file, { force: true })
      removed.push(file)
    }
    await removeIfEmpty(folder)
    const copies = copiesFolder(stateDirOf(plan))
    if (plan.program[0]?.startsWith(copies + path.sep) === true) {
      await rm(copies, { recursive: true, force: true })
      removed.push(copies)
    }
    await removeIfEmpty(stateDirOf(plan))
    return removed
  })

/**
 * Ends the agent of the service without its servers, which the next one takes over: on request, or by SIGKILL where it does not answer. Answers
 * the servers; none where it did not run or another agent has the state folder. Throws InstallationError.
 */
async function leaveServers(
  manager: ServiceManager,
  plan: ServicePlan,
  { agents, tell, timings = usualTimings }: ServiceWork,
): Promise<readonly number[]> {
  const { pid } = await manager.state()
  if (pid === undefined) return []
  const stateDir = stateDirOf(plan)
  const look = await agents.look(stateDir)
  if (look?.pid !== undefined && look.pid !== pid) {
    tell(`The service waits for the agent that runs as process ${look.pid}; its own process ${pid} is ended.`)
    await killed(manager, pid, timings)
    return []
  }
  const answer = await agents.leave(stateDir)
  if (typeof answer === 'object') throw new InstallationError(answer.refused)
  const hasLeft = async () => (await manager.state()).pid !== pid
  if (answer === 'silent' || !(await until(hasLeft, timings.leaveMs, timings.pollMs))) {
    tell(`Process ${pid} does not answer and is killed; its servers keep running.`)
    await killed(manager, pid, timings)
  }
  return look?.serverPids ?? []
}

async function killed(manager: ServiceManager, pid: number, { leaveMs, pollMs }: Timings): Promise<void> {
  await manager.kill()
  if (await until(async () => (await manager.state()).pid !== pid, leaveMs, pollMs)) return
  throw new InstallationError(
    `Process ${pid} of ${manager.name} was killed but is still there: it is stuck in the kernel, until the machine is restarted.`,
  )
}

/** Unloads the service, whose agent withdraws, drains and stops where it still runs. Throws InstallationError. */
export async function unloaded(
  manager: ServiceManager,
  how: { readonly forGood: boolean; readonly limitMs: number },
  { tell, timings = usualTimings }: Waiting,
): Promise<void> {
  const { isLoaded, pid } = await manager.state()
  if (isLoaded || pid !== undefined) await manager.unload(how)
  const hasEnded = async () => (await manager.state()).pid === undefined
  if (pid === undefined || (await until(hasEnded, timings.leaveMs / 4, timings.pollMs))) return
  tell(`Process ${pid} withdraws its models and lets requests in flight finish.`)
  if (await until(hasEnded, how.limitMs, timings.pollMs)) return
  throw new InstallationError(
    `Process ${pid} of ${manager.name} has not ended within ${Math.round(how.limitMs / 1000)} s: see what it waits for with metal-agent status, then run this again.`,
  )
}

/** What became of a start. */
export type Started =
  | { readonly kind: 'answers'; readonly pid: number; readonly look: AgentLook }
  /** Another agent has the state folder. */
  | { readonly kind: 'waits'; readonly pid: number; readonly holder: number }
  /** It runs and does not answer yet. */
  | { readonly kind: 'silent'; readonly pid: number }
  | { readonly kind: 'ended'; readonly lastExit: LastExit | undefined }

/** Waits until the new agent answers and has these servers, or waits for another one itself. Throws InstallationError. */
async function startedAs(
  manager: ServiceManager,
  plan: ServicePlan,
  { agents, timings = usualTimings }: ServiceWork,
  servers: readonly number[],
): Promise<Started> {
  let found: Started = { kind: 'ended', lastExit: undefined }
  const isSettled = async (): Promise<boolean> => {
    const { pid, lastExit } = await manager.state()
    const look = pid === undefined ? undefined : await agents.look(stateDirOf(plan))
    if (pid === undefined) found = { kind: 'ended', lastExit }
    else if (look === undefined) found = { kind: 'silent', pid }
    else if (look.pid !== undefined && look.pid !== pid) found = { kind: 'waits', pid, holder: look.pid }
    else found = { kind: 'answers', pid, look }
    const hasServers = servers.every((one) => look?.serverPids.includes(one))
    return found.kind === 'waits' || (found.kind === 'answers' && hasServers)
  }
  await until(isSettled, timings.startMs, timings.pollMs)
  return found
}

async function until(isSo: () => Promise<boolean>, limitMs: number, pollMs: number): Promise<boolean> {
  const end = performance.now() + limitMs
  for (;;) {
    if (await isSo()) return true
    if (performance.now() >= end) return false
    await delay(pollMs)
  }
}
