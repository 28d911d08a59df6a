import { lstat } from 'node:fs/promises'
import { readIfThere } from '../../agent-core/support/files.ts'
import { messageOf } from '../../agent-core/support/message-of.ts'
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
  const text = await textOf(manager.file)
  if (text === undefined) return undefined
  try {
    const content = manager.read(text)
    const plan = planOf(manager, content)
    const problem = problemOf(text, content)
    return { manager, text, content, ...(plan && { plan }), ...(problem !== undefined && { problem }) }
  } catch (error) {
    if (error instanceof UnitTextError) return { manager, text, problem: error.message }
    throw error
  }
}

async function textOf(file: string): Promise<string | undefined> {
  try {
    const isLink = await lstat(file).then(
      (facts) => facts.isSymbolicLink(),
      () => false,
    )
    const text = await readIfThere(file, maxFileBytes)
    if (text === undefined && isLink) throw new Error('it is a symbolic link that leads nowhere')
    return text
  } catch (error) {
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
