import { lstat, stat } from 'node:fs/promises'
import { hasCode, readIfThere } from '../../agent-core/util/files.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { InstallationError, type InstallationHost } from '../installation-host.ts'
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
  readonly plan?: ServicePlan | undefined
  /** Why it is not as `metal-agent install` wrote it; absent where it is. Completes "<file> …". */
  readonly problem?: string | undefined
}

/** Whether `metal-agent install` made it; a unit or job that a person wrote may have its name. */
export function isOurs({ content, manager, plan, text }: InstalledService): boolean {
  const isOfThisLabel = content?.label === undefined || content.label === manager.name
  return isOfThisLabel && (plan !== undefined || bearsMark(text))
}

/** Every service of this user on this machine; LaunchAgent and LaunchDaemon can both be there. Throws InstallationError. */
export async function installedServices(host: InstallationHost): Promise<readonly InstalledService[]> {
  const kinds = host.platform === 'darwin' ? (['launchAgent', 'launchDaemon'] as const) : (['systemdUser'] as const)
  const found = await Promise.all(kinds.map((kind) => readService(serviceManager(kind, host))))
  return found.filter((one) => one !== undefined)
}

async function readService(manager: ServiceManager): Promise<InstalledService | undefined> {
  const { file, kind } = manager
  try {
    const link = await lstat(file).catch(() => undefined)
    const text = await readIfThere(file, maxFileBytes)
    if (text !== undefined)
      return { manager, text, mode: (await stat(file)).mode & 0o777, ...understood(manager, text) }
    if (link?.isSymbolicLink() === true) throw new Error('it is a symbolic link that leads nowhere')
    return undefined
  } catch (error) {
    if (kind === 'launchDaemon' && hasCode(error, 'EACCES')) {
      const problem = 'may be read only by root: run this again with sudo in front'
      return { manager, text: '', mode: 0o600, isUnread: true, problem }
    }
    throw new InstallationError(`${file} cannot be read: ${messageOf(error)}; nothing was changed.`, { cause: error })
  }
}

function understood(manager: ServiceManager, text: string): Pick<InstalledService, 'content' | 'plan' | 'problem'> {
  try {
    const content = manager.read(text)
    return { content, plan: planOf(manager, content), problem: problemOf(text, content) }
  } catch (error) {
    if (error instanceof UnitTextError) return { problem: error.message }
    throw error
  }
}

function problemOf(text: string, { label }: UnitContent): string | undefined {
  if (label !== undefined && label !== serviceLabel) return `has the label ${label} and not ${serviceLabel}`
  return isUntouched(text) ? undefined : 'was changed since metal-agent install wrote it'
}

function planOf({ kind }: ServiceManager, content: UnitContent): ServicePlan | undefined {
  const split = splitCommandLine(content.words)
  const { environment, workingDirectory, errorFile, userName } = content
  if (!split || workingDirectory === undefined || errorFile === undefined) return undefined
  const timeoutS = content.exitTimeoutS ?? exitTimeoutS(0)
  const whose = userName === undefined ? {} : { userName }
  return { kind, ...split, environment, workingDirectory, errorFile, exitTimeoutS: timeoutS, ...whose }
}
