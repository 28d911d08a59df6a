import { basename, dirname, join, sep } from 'node:path'
import type { Workplace } from '../platform/platform.ts'
import { pathBelow } from '../util/is-below.ts'

/** Parents of what belongs to one server each. */
export interface ServerFolders {
  /** Has a folder for each service, and in it one for each run. */
  readonly runs: string
  /** Working directories and output files of servers that were started before each run had a folder. */
  readonly work: string
  readonly logs: string
}

export const serverFolders = (stateDir: string): ServerFolders => ({
  runs: join(stateDir, 'runs'),
  work: join(stateDir, 'work'),
  logs: join(stateDir, 'logs'),
})

/** What one server of a service has to itself, from its start to its end. */
export interface RunFolder {
  /** `NAMESPACE.NAME/RUN`; without a run where it was started before each had a folder. */
  readonly name: string
  readonly workingDirectory: string
  readonly logFile: string
}

const workName = 'work'
const outputName = 'output.log'

/** Ended the names of the second of two servers of a service, before each run had a folder. No name in Kubernetes has a tilde. */
const second = '~2'

/** Namespaces have no dots, so that no two keys share a name. */
export const serviceFolderName = (key: string): string => key.replace('/', '.')

export function runFolder({ runs, work, logs }: ServerFolders, name: string): RunFolder {
  const folder = pathBelow(runs, name)
  return name.includes('/')
    ? { name, workingDirectory: join(folder, workName), logFile: join(folder, outputName) }
    : { name, workingDirectory: pathBelow(work, name), logFile: pathBelow(logs, `${name}.log`) }
}

/** The name of the run that works there, whatever the state folder is called. */
export function runOf(workingDirectory: string): string {
  const [service = '', run = '', last] = workingDirectory.split(sep).slice(-3)
  return last === workName ? `${service}/${run}` : basename(workingDirectory)
}

export function keyOfRun(name: string): string {
  const [service = ''] = name.split('/')
  return (service.endsWith(second) ? service.slice(0, -second.length) : service).replace('.', '/')
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

/** A run of which there may be output, and what is removed with its log file. */
export interface KeptRun {
  readonly name: string
  readonly logFile: string
  readonly folder?: string
}

/** What a build before the folders of runs may have left of a service: two servers, and what is kept of the run before each. */
export const earlierRuns = (folders: ServerFolders, key: string): KeptRun[] =>
  ['', second].flatMap((suffix) => {
    const { name, logFile, workingDirectory } = runFolder(folders, serviceFolderName(key) + suffix)
    return [
      { name: `${name}.previous`, logFile: `${logFile}.previous` },
      { name, logFile, folder: workingDirectory },
    ]
  })
