import { chmod, lstat, mkdir, open, rm, rmdir, stat } from 'node:fs/promises'
import path from 'node:path'
import writeFileAtomic from 'write-file-atomic'
import { hasCode } from '../../agent-core/util/files.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { InstallationError } from '../installation-host.ts'
import type { InstalledService } from './installed-service.ts'
import type { ServiceManager } from './service-manager.ts'
import { stateDirOf } from './hand-over.ts'
import type { ServicePlan } from './service-plan.ts'

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
