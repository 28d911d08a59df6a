import { chmod, lstat, mkdir, open, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import writeFileAtomic from 'write-file-atomic'
import { hasCode, readIfThere } from '../../agent-core/util/files.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { commandFolder, copyCommand, isCopied } from '../command-copy.ts'
import { namesIn, removeIfEmpty } from '../files.ts'
import { asOwner, attempt, InstallationError, type InstallationHost } from '../installation-host.ts'
import { launchdPlist, LaunchdService, readLaunchdPlist } from './launchd.ts'
import {
  exitTimeoutS,
  PlistError,
  refuseUnusableTexts,
  serviceLabel,
  splitCommandLine,
  stateDirOf,
  type LastExit,
  type PlistContent,
  type ServiceKind,
  type ServicePlan,
} from './service-plan.ts'

/** Nobody writes so much by hand. */
const maxFileBytes = 256 * 1024

/** The file of a service as it lies there. */
export interface InstalledService {
  readonly manager: LaunchdService
  readonly text: string
  /** This user may not read it, so that nothing is known of what it says. */
  readonly isUnread?: true
  /** Absent where the file cannot be read as one of launchd. */
  readonly content?: PlistContent
  /** What the file asks for; absent where its command line is none of ours. */
  readonly plan?: ServicePlan | undefined
  /** Why nothing is known of what it asks for; absent where {@link plan} says it. Completes "<file> …". */
  readonly problem?: string | undefined
}

/** Every service of this user on this Mac; LaunchAgent and LaunchDaemon can both be there, and there is none on Linux. Throws InstallationError. */
export async function installedServices(host: InstallationHost): Promise<readonly InstalledService[]> {
  if (host.platform !== 'darwin') return []
  const kinds: readonly ServiceKind[] = ['launchAgent', 'launchDaemon']
  const found = await Promise.all(kinds.map((kind) => readService(new LaunchdService(kind, host))))
  return found.filter((one) => one !== undefined)
}

async function readService(manager: LaunchdService): Promise<InstalledService | undefined> {
  const { file, kind } = manager
  try {
    const text = await readIfThere(file, maxFileBytes)
    return text === undefined ? undefined : { manager, text, ...understood(kind, text) }
  } catch (error) {
    if (kind === 'launchDaemon' && hasCode(error, 'EACCES')) {
      const problem = 'may be read only by root: run this again with sudo in front'
      return { manager, text: '', isUnread: true, problem }
    }
    throw new InstallationError(`${file} cannot be read: ${messageOf(error)}; nothing was changed.`, { cause: error })
  }
}

function understood(kind: ServiceKind, text: string): Pick<InstalledService, 'content' | 'plan' | 'problem'> {
  try {
    const content = readLaunchdPlist(text)
    if (content.label !== serviceLabel)
      return { content, problem: `has the label ${content.label} and not ${serviceLabel}` }
    const plan = planOf(kind, content)
    return plan ? { content, plan } : { content, problem: 'does not start this agent' }
  } catch (error) {
    if (error instanceof PlistError) return { problem: error.message }
    throw error
  }
}

function planOf(kind: ServiceKind, content: PlistContent): ServicePlan | undefined {
  const split = splitCommandLine(content.words)
  const { environment, workingDirectory, errorFile, userName } = content
  if (!split || workingDirectory === undefined || errorFile === undefined) return undefined
  const timeoutS = content.exitTimeoutS ?? exitTimeoutS(0)
  const whose = userName === undefined ? {} : { userName }
  return { kind, ...split, environment, workingDirectory, errorFile, exitTimeoutS: timeoutS, ...whose }
}

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
  /** The self-contained command whose copy the service starts. Absent where the service starts no copy. */
  readonly command?: string | undefined
}

export interface InstallOutcome {
  readonly manager: LaunchdService
  /** What was done to the file; `updated`: nothing, and the service runs another version now. */
  readonly file: 'written' | 'changed' | 'updated' | 'unchanged'
  /** Absent where nothing was changed. */
  readonly started?: Started
  /** Model servers that ran before. */
  readonly servers: readonly number[]
}

/** Installs the service or changes it; model servers that run keep running. Throws InstallationError. */
export async function installService(
  plan: ServicePlan,
  { host, work, command }: InstallOptions,
): Promise<InstallOutcome> {
  refuseUnusableTexts(plan)
  const manager = new LaunchdService(plan.kind, host)
  await manager.check()
  const before = await onlyService(plan.kind, host)
  if (before && !before.plan) {
    throw new InstallationError(`${manager.file} ${before.problem ?? ''}, so it was left as it is: move it away first.`)
  }
  const text = launchdPlist(plan)
  const isSameFile = before?.text === text
  const copy = command === undefined ? undefined : { command, stateDir: stateDirOf(plan) }
  const isNewCommand = copy !== undefined && !(await asOwner(host, () => isCopied(copy)))
  const { isLoaded, pid } = await manager.state()
  // A file may hold secrets, and others may have been given rights to it.
  if (isSameFile)
    await attempt(`The mode of ${manager.file} cannot be changed`, () => chmod(manager.file, manager.fileMode(plan)))
  if (isSameFile && !isNewCommand && isLoaded && pid !== undefined) return { manager, file: 'unchanged', servers: [] }

  await asOwner(host, () => makePlaces(plan))
  if (copy) await asOwner(host, () => copyCommand(copy))
  const servers = before?.plan ? await leaveServers(manager, before.plan, work) : []
  if (before && !isSameFile) await unloaded(manager, plan.exitTimeoutS * 1000, work)
  if (!isSameFile) await writePlist(manager, text, plan)
  try {
    await (isSameFile ? manager.start() : manager.load())
  } catch (error) {
    // What launchd does not take would be tried again at each login.
    if (before?.plan) await writePlist(manager, before.text, before.plan)
    else await removePlist(manager)
    throw error
  }
  const started = await startedAs(manager, plan, work, servers)
  const file = isSameFile ? (isNewCommand ? 'updated' : 'unchanged') : before ? 'changed' : 'written'
  return { manager, file, started, servers }
}

/** The service of this kind; undefined where there is none. Throws InstallationError where there is one of the other kind. */
async function onlyService(kind: ServiceKind, host: InstallationHost): Promise<InstalledService | undefined> {
  const installed = await installedServices(host)
  const other = installed.find(({ manager }) => manager.kind !== kind)
  if (other) {
    throw new InstallationError(
      `The service is installed as a ${other.manager.title} already (${other.manager.file}), and one Mac needs only one: remove it first with metal-agent uninstall.`,
    )
  }
  return installed[0]
}

/** Folders and the file that launchd and the agent find there: launchd would make the file as root, and the agent could not write to it. */
const makePlaces = (plan: ServicePlan): Promise<void> =>
  attempt('Nothing was installed: a folder of the service cannot be used', async () => {
    for (const folder of [stateDirOf(plan), path.dirname(plan.errorFile)]) {
      await mkdir(folder, { recursive: true, mode: 0o700 })
    }
    await using _file = await open(plan.errorFile, 'a', 0o600)
  })

/** Replaced as a whole: nobody sees half of it. Throws InstallationError. */
const writePlist = (manager: LaunchdService, text: string, plan: ServicePlan): Promise<void> =>
  attempt(`${manager.file} cannot be written`, async () => {
    await mkdir(path.dirname(manager.file), { recursive: true })
    await writeFileAtomic(manager.file, text, { mode: manager.fileMode(plan) })
  })

const removePlist = ({ file }: LaunchdService): Promise<void> =>
  attempt(`${file} cannot be removed`, () => rm(file, { force: true }))

export interface RestartOutcome {
  readonly pidBefore: number | undefined
  /** Model servers that ran before. */
  readonly servers: readonly number[]
  readonly started: Started
}

/** Another process serves on with the same model servers. Throws InstallationError. */
export async function restartService(
  { manager, plan, problem }: InstalledService,
  work: ServiceWork,
): Promise<RestartOutcome> {
  await manager.check()
  if (!plan) throw new InstallationError(`${manager.file} ${problem ?? ''}: replace it with metal-agent install.`)
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

/** Ends the service in good order and removes its file, its log and its command; answers what is gone. Throws InstallationError. */
export async function uninstallService(
  { manager, plan, problem }: InstalledService,
  { host, agents, ...waiting }: UninstallOptions,
): Promise<readonly string[]> {
  await manager.check()
  if (!plan) {
    throw new InstallationError(`${manager.file} ${problem ?? ''}: Metalbar did not write it, so it was left as it is.`)
  }
  if (agents) await leaveServers(manager, plan, { agents, ...waiting })
  await unloaded(manager, plan.exitTimeoutS * 1000 + 5_000, waiting)
  await removePlist(manager)
  return [manager.file, ...(await asOwner(host, () => removeMade(plan)))]
}

/** The copy of the command, and the logs in the service's own folder with their earlier files; a log that a person put elsewhere is theirs. */
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
    const copy = commandFolder(stateDirOf(plan))
    if ((await stat(copy).catch(() => undefined)) !== undefined) {
      await rm(copy, { recursive: true, force: true })
      removed.push(copy)
    }
    await removeIfEmpty(stateDirOf(plan))
    return removed
  })

/**
 * Ends the agent of the service without its servers, which the next one takes over: on request, or by SIGKILL where it does not answer. Answers
 * the servers; none where it did not run or another agent has the state folder. Throws InstallationError.
 */
async function leaveServers(
  manager: LaunchdService,
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

async function killed(manager: LaunchdService, pid: number, { leaveMs, pollMs }: Timings): Promise<void> {
  await manager.kill()
  if (await until(async () => (await manager.state()).pid !== pid, leaveMs, pollMs)) return
  throw new InstallationError(
    `Process ${pid} of ${manager.name} was killed but is still there: it is stuck in the kernel, until the machine is restarted.`,
  )
}

/** Unloads the service, whose agent withdraws, drains and stops where it still runs. Throws InstallationError. */
async function unloaded(
  manager: LaunchdService,
  limitMs: number,
  { tell, timings = usualTimings }: Waiting,
): Promise<void> {
  const { isLoaded, pid } = await manager.state()
  if (isLoaded || pid !== undefined) await manager.unload()
  const hasEnded = async () => (await manager.state()).pid === undefined
  if (pid === undefined || (await until(hasEnded, timings.leaveMs / 4, timings.pollMs))) return
  tell(`Process ${pid} withdraws its models and lets requests in flight finish.`)
  if (await until(hasEnded, limitMs, timings.pollMs)) return
  throw new InstallationError(
    `Process ${pid} of ${manager.name} has not ended within ${Math.round(limitMs / 1000)} s: see what it waits for with metal-agent status, then run this again.`,
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
  manager: LaunchdService,
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
