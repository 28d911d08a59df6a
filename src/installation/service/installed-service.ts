import { lstat, stat } from 'node:fs/promises'
import { hasCode, readIfThere } from '../../agent-core/util/files.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { InstallationError, type InstallationHost } from '../installation-host.ts'
import { kindsOf, serviceManager } from './managers.ts'
import type { ServiceManager } from './service-manager.ts'
import { serviceLabel } from './service-names.ts'
import { exitTimeoutS, splitCommandLine, type ServicePlan } from './service-plan.ts'
import { bearsMark, isUntouched, UnitTextError, type UnitContent } from './unit-text.ts'

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
