import { basename, dirname, join, sep } from 'node:path'
import type { Workplace } from '../platform/platform.ts'
import { pathBelow } from '../util/is-below.ts'

export interface ServerFolders {
  /** Has a folder for each service, and in it one for each run. */
  readonly runs: string
}

export const serverFolders = (stateDir: string): ServerFolders => ({ runs: join(stateDir, 'runs') })

/** What one server of a service has to itself, from its start to its end. */
export interface RunFolder {
  /** `NAMESPACE.NAME/RUN`. */
  readonly name: string
  readonly workingDirectory: string
  readonly logFile: string
}

const workName = 'work'
const outputName = 'output.log'

/** Namespaces have no dots, so that no two keys share a name. */
export const serviceFolderName = (key: string): string => key.replace('/', '.')

export function runFolder({ runs }: ServerFolders, name: string): RunFolder {
  const folder = pathBelow(runs, name)
  return { name, workingDirectory: join(folder, workName), logFile: join(folder, outputName) }
}

/** The name of the run that works there, whatever the state folder is called. */
export function runOf(workingDirectory: string): string {
  const [service = '', run = ''] = workingDirectory.split(sep).slice(-3)
  return `${service}/${run}`
}

export function keyOfRun(name: string): string {
  const [service = ''] = name.split('/')
  return service.replace('.', '/')
}

/** Which run a process belongs to. A shell that a person opened in the folder does not write into our output files. */
export function runOfPlace({ workingDirectory, output }: Workplace, folders: ServerFolders): string | undefined {
  const name = runOf(workingDirectory)
  const [service = ''] = name.split('/')
  // Any process of this machine is looked at, and one may work at the root.
  if (service.indexOf('.') <= 0) return undefined
  const folder = runFolder(folders, name)
  const isOurs = workingDirectory === folder.workingDirectory && output?.startsWith(dirname(folder.logFile) + sep)
  return isOurs === true ? name : undefined
}

/** Names sort by time for a person; the number at the end decides, as a clock may be set back. */
const runName = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ-(\d+)$/

export const newRunName = (at: Date, number: number): string =>
  `${at.toISOString().slice(0, 19).replaceAll(':', '-')}Z-${number}`

/** Undefined where the name is not that of a run. */
export function runNumber(name: string): number | undefined {
  const digits = runName.exec(basename(name))?.[1]
  return digits === undefined ? undefined : Number(digits)
}
