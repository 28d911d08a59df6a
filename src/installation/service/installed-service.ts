import { chmod, lstat, mkdir, open, rm, rmdir, stat } from 'node:fs/promises'
import path from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { hasCode, readIfThere } from '../../agent-core/util/files.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { InstallationError, type InstallationHost } from '../installation-host.ts'
import { stateDirOf } from './hand-over.ts'
import { LaunchdService } from './launchd.ts'
import {
  bearsMark,
  exitTimeoutS,
  isUntouched,
  serviceLabel,
  splitCommandLine,
  UnitTextError,
  type ServiceKind,
  type ServiceManager,
  type ServicePlan,
  type UnitContent,
} from './service-plan.ts'
import { SystemdService } from './systemd.ts'

export function serviceManager(kind: ServiceKind, host: InstallationHost): ServiceManager {
  return kind === 'systemdUser' ? new SystemdService(host) : new LaunchdService(kind, host)
}

/** The ways to be kept that this system has; the first is the usual one. */
export const kindsOf = ({ platform }: Pick<InstallationHost, 'platform'>): readonly ServiceKind[] =>
  platform === 'darwin' ? ['launchAgent', 'launchDaemon'] : ['systemdUser']

/** Nobody writes so much by hand. */
const maxFileBytes = 256 * 1024

/** The file of a service as it lies there. */
export interface InstalledService {
  readonly manager: ServiceManager
  readonly text: string
  /** Permissions of the file. */
  readonly mode: number
  /** This user may not read it, so that nothing is known of what it says. */
  readonly isUnread?: true
  /** Absent where the file cannot be read as one of launchd or systemd. */
  readonly content?: UnitContent
  /** What the file asks for; absent where its command line is none of ours. */
  readonly plan?: ServicePlan
  /** Why it is not as `metal-agent install` wrote it; absent where it is. Completes "<file> …". */
  readonly problem?: string
}

/** Whether `metal-agent install` made it; a unit or job that a person wrote may have its name. */
export function isOurs({ content, manager, plan, text }: InstalledService): boolean {
  const isOfThisLabel = content?.label === undefined || content.label === manager.name
  return isOfThisLabel && (plan !== undefined || bearsMark(text))
}

/** Every service of this user on this machine; LaunchAgent and LaunchDaemon can both be there. Throws InstallationError. */
export async function installedServices(host: InstallationHost): Promise<readonly InstalledService[]> {
  const found = await Promise.all(kindsOf(host).map((kind) => readService(serviceManager(kind, host))))
  return found.filter((one) => one !== undefined)
}

async function readService(manager: ServiceManager): Promise<InstalledService | undefined> {
  const found = await fileOf(manager)
  if (found === undefined || found.isUnread) return found && { ...found, manager }
  const { text } = found
  try {
    const content = manager.read(text)
    const plan = planOf(manager, content)
    const problem = problemOf(text, content)
    return { ...found, manager, content, ...(plan && { plan }), ...(problem !== undefined && { problem }) }
  } catch (error) {
    if (error instanceof UnitTextError) return { ...found, manager, problem: error.message }
    throw error
  }
}

type UnitFile = Pick<InstalledService, 'text' | 'mode' | 'isUnread' | 'problem'>

async function fileOf({ file, kind }: ServiceManager): Promise<UnitFile | undefined> {
  try {
    const link = await lstat(file).catch(() => undefined)
    const text = await readIfThere(file, maxFileBytes)
    if (text !== undefined) return { text, mode: (await stat(file)).mode & 0o777 }
    if (link?.isSymbolicLink() === true) throw new Error('it is a symbolic link that leads nowhere')
    return undefined
  } catch (error) {
    if (kind === 'launchDaemon' && hasCode(error, 'EACCES')) {
      return {
        text: '',
        mode: 0o600,
        isUnread: true,
        problem: 'may be read by root alone: repeat this with sudo in front',
      }
    }
    throw new InstallationError(`${file} cannot be read: ${messageOf(error)}; nothing was changed.`, { cause: error })
  }
}

function problemOf(text: string, { label }: UnitContent): string | undefined {
  if (label !== undefined && label !== serviceLabel) return `has the label ${label} and not ${serviceLabel}`
  return isUntouched(text) ? undefined : 'was changed since metal-agent install wrote it'
}

function planOf({ kind }: ServiceManager, content: UnitContent): ServicePlan | undefined {
  const split = splitCommandLine(content.words)
  const { workingDirectory, errorFile, userName } = content
  if (!split || workingDirectory === undefined || errorFile === undefined) return undefined
  return {
    kind,
    ...split,
    environment: content.environment,
    workingDirectory,
    errorFile,
    exitTimeoutS: content.exitTimeoutS ?? exitTimeoutS(0),
    ...(userName !== undefined && { userName }),
  }
}

/** What was made beside the service's own file, and takes it back. */
export interface Places {
  undo(): Promise<void>
}

/** Folders and files that launchd, systemd and the agent find there; made by whom they belong to. Throws InstallationError. */
export async function makePlaces(plan: ServicePlan): Promise<Places> {
  const made: string[] = []
  const undo = async (): Promise<void> => {
    for (const one of made.toReversed()) await removeIfEmpty(one)
  }
  try {
    for (const folder of [stateDirOf(plan), path.dirname(plan.errorFile)]) made.push(...(await makeFolder(folder)))
    if (await makeFile(plan.errorFile)) made.push(plan.errorFile)
    return { undo }
  } catch (error) {
    await undo()
    throw error
  }
}

/** Every folder of the path that was missing. */
async function makeFolder(folder: string): Promise<string[]> {
  try {
    const first = await mkdir(folder, { recursive: true, mode: 0o700 })
    if (!(await stat(folder)).isDirectory()) throw new Error('it is no folder')
    if (first === undefined) return []
    const below = path.relative(first, folder).split(path.sep).filter(Boolean)
    return [first, ...below.map((_, index) => path.join(first, ...below.slice(0, index + 1)))]
  } catch (error) {
    const isLink = await lstat(folder).then(
      (facts) => facts.isSymbolicLink(),
      () => false,
    )
    const why = isLink ? 'it is a symbolic link to a folder that is not there' : messageOf(error)
    throw new InstallationError(`The folder ${folder} cannot be used: ${why}; nothing was installed.`, { cause: error })
  }
}

/** launchd would make it as root, and the agent could not write to it. */
async function makeFile(file: string): Promise<boolean> {
  try {
    await (await open(file, 'ax', 0o600)).close()
    return true
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false
    throw new InstallationError(`${file} cannot be made: ${messageOf(error)}; nothing was installed.`, { cause: error })
  }
}

/** Replaced as a whole: nobody sees half of it. Throws InstallationError. */
export async function writeUnit({ file }: ServiceManager, text: string, mode: number): Promise<void> {
  try {
    await mkdir(path.dirname(file), { recursive: true })
    await writeFileAtomic(file, text, { mode })
  } catch (error) {
    throw new InstallationError(`${file} cannot be written: ${messageOf(error)}.`, { cause: error })
  }
}

/** Takes from others what they may do with a file that stays as it is. Throws InstallationError. */
export async function tightenUnit({ file }: ServiceManager, mode: number): Promise<void> {
  try {
    await chmod(file, mode)
  } catch (error) {
    throw new InstallationError(`The mode of ${file} cannot be changed: ${messageOf(error)}.`, { cause: error })
  }
}

/** Throws InstallationError. */
export async function removeUnit({ file }: ServiceManager): Promise<void> {
  try {
    await rm(file, { force: true })
  } catch (error) {
    throw new InstallationError(`${file} cannot be removed: ${messageOf(error)}.`, { cause: error })
  }
}

/** A copy of a file that a person changed; answers where. launchd takes none that does not end in ".plist". */
export async function keepAside({ manager, text }: InstalledService, plan: ServicePlan): Promise<string> {
  const time = new Date().toISOString().replace(/[:.]/g, '-')
  const file = path.join(stateDirOf(plan), `${path.basename(manager.file)}.${time}.kept`)
  try {
    await writeFileAtomic(file, text, { mode: 0o600 })
    return file
  } catch (error) {
    throw new InstallationError(`${manager.file} could not be kept as ${file}: ${messageOf(error)}.`, { cause: error })
  }
}

/** A file without content, or a folder without files; anything else stays. */
export async function removeIfEmpty(entry: string): Promise<void> {
  const facts = await lstat(entry).catch(() => undefined)
  if (facts?.isFile() === true && facts.size === 0) await rm(entry, { force: true })
  if (facts?.isDirectory() !== true) return
  await rmdir(entry).catch((error: unknown) => {
    if (!hasCode(error, 'ENOTEMPTY') && !hasCode(error, 'EEXIST') && !hasCode(error, 'ENOENT')) throw error
  })
}
