import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { delimiter, isAbsolute, join, resolve } from 'node:path'

export interface ExecutableSearch {
  /** The value of its flag: a path, or a bare name to be found on PATH. */
  readonly given?: string | undefined
  readonly system: 'darwin' | 'linux'
  /** The PATH variable. */
  readonly path?: string | undefined
  readonly homebrewFolders?: readonly string[]
  readonly linuxHomebrewFolder?: string
}

export type Executable =
  | {
      readonly kind: 'found'
      /** A program, or where a daemon answers. */
      readonly path: string
      /** As a daemon told it. */
      readonly version?: string
    }
  | { readonly kind: 'missing'; readonly message: string }

/** A program that a person installs. */
export interface Wanted {
  readonly name: string
  /** With dashes; absent = no flag names its path. */
  readonly flag?: string
  /** One sentence: it is nowhere, and what to do. */
  readonly notInstalled: Readonly<Record<'darwin' | 'linux', string>>
}

/** Homebrew on Apple silicon, then on Intel: the places the Go agent looks in. */
const homebrewFolders = ['/opt/homebrew/bin', '/usr/local/bin']

/** Where Homebrew installs on Linux. It puts the folder on PATH in a person's shell alone, which a service does not have. */
const linuxHomebrewFolder = '/home/linuxbrew/.linuxbrew/bin'

/** Looked for before every start, not once: installing it is how a person answers the refusal. */
export async function findExecutable(wanted: Wanted, search: ExecutableSearch): Promise<Executable> {
  const { name, flag, notInstalled } = wanted
  const { given, system, path } = search
  const pathFolders = (path ?? '').split(delimiter).filter(isAbsolute)
  if (given !== undefined && given !== '') {
    const candidates = given.includes('/') ? [resolve(given)] : pathFolders.map((folder) => join(folder, given))
    const { usable, problem = notThere } = await judge(candidates)
    if (usable !== undefined) return { kind: 'found', path: usable }
    return missing(`${given} was given as ${name} (${flag ?? ''}), but ${problem}: correct the path.`)
  }
  const onLinux = [...pathFolders, search.linuxHomebrewFolder ?? linuxHomebrewFolder]
  const folders = [
    ...(search.homebrewFolders ?? homebrewFolders),
    join(homedir(), '.local/bin'),
    ...(system === 'linux' ? onLinux : []),
  ]
  const { usable, unusable, problem } = await judge(folders.map((folder) => join(folder, name)))
  if (usable !== undefined) return { kind: 'found', path: usable }
  if (unusable !== undefined) return missing(`${unusable} cannot be used as ${name}: ${problem ?? notThere}.`)
  return missing(notInstalled[system])
}

const missing = (message: string): Executable => ({ kind: 'missing', message })

/** The first candidate that can be used, or else the first that is there but cannot, with the reason. */
async function judge(
  candidates: readonly string[],
): Promise<{ usable?: string | undefined; unusable?: string | undefined; problem?: string | undefined }> {
  const verdicts = await Promise.all(candidates.map(async (path) => ({ path, problem: await problemWith(path) })))
  const inTheWay = verdicts.find(({ problem }) => problem !== undefined && problem !== notThere)
  return {
    usable: verdicts.find(({ problem }) => problem === undefined)?.path,
    unusable: inTheWay?.path,
    problem: inTheWay?.problem,
  }
}

const notThere = 'there is no such file'

async function problemWith(path: string): Promise<string | undefined> {
  try {
    if (!(await stat(path)).isFile()) return 'it is not a file'
    await access(path, constants.X_OK)
    return undefined
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOENT' || code === 'ENOTDIR') return notThere
    return code === 'EACCES' ? 'it is not executable by this user' : `it cannot be used (${String(error)})`
  }
}
