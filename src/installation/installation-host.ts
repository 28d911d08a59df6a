import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { userInfo } from 'node:os'
import path from 'node:path'
import { askProgram, ProgramError } from '../agent-core/util/ask-program.ts'
import { messageOf } from '../agent-core/util/message-of.ts'

/** The machine on which something of ours is installed or removed, and for whom. */
export interface InstallationHost {
  readonly platform: 'darwin' | 'linux'
  readonly env: Readonly<NodeJS.ProcessEnv>
  /** The owner of the agent, its state folder and LaunchAgents; with sudo not the one who runs this. */
  readonly user: InstallationUser
  /** Whether this process may write for the whole machine. */
  readonly isRoot: boolean
  /** `/`, but in tests. */
  readonly systemRoot: string
  /** Folders in which launchctl and its like are looked for. */
  readonly programFolders: readonly string[]
}

export interface InstallationUser {
  readonly name: string
  readonly id: number
  readonly groupId: number
  readonly homeDir: string
}

/** This machine, for the one who runs this. */
export function hostOfThisUser({
  platform,
  env,
  homeDir,
}: Pick<InstallationHost, 'platform' | 'env'> & { readonly homeDir: string }): InstallationHost {
  const { username, uid, gid } = userInfo()
  const isRoot = uid === 0
  const folders = isRoot && platform === 'darwin' ? rootPath : (env['PATH'] ?? '')
  return {
    platform,
    env,
    isRoot,
    systemRoot: '/',
    programFolders: folders.split(path.delimiter),
    user: { name: username, id: uid, groupId: gid, homeDir },
  }
}

/** One sentence: what was not installed, changed or removed, why, and what to do. */
export class InstallationError extends Error {
  override readonly name = 'InstallationError'
}

/** Does something with files; `failure` says what was not done where it fails. Throws InstallationError. */
export async function attempt<T>(failure: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw new InstallationError(`${failure}: ${messageOf(error)}.`, { cause: error })
  }
}

/** sudo of macOS leaves PATH as it is, by which a planted launchctl would run as root. */
const rootPath = '/usr/bin:/bin:/usr/sbin:/sbin'

/** How long launchd may take to answer. The end of an agent may take longer and is waited for elsewhere. */
const askLimitMs = 60_000

export interface SystemAnswer {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs a program of the system. Throws InstallationError where it is missing, cannot be run or does not answer. */
export async function askSystem(
  { programFolders, env }: Pick<InstallationHost, 'programFolders' | 'env'>,
  name: string,
  args: readonly string[],
): Promise<SystemAnswer> {
  const command = await findProgram(programFolders, name)
  if (command === undefined) {
    throw new InstallationError(
      `${name} was not found in ${programFolders.join(', ') || 'PATH'}: it is part of the system, and without it nothing was changed.`,
    )
  }
  try {
    const { exitCode, stdout, stderr } = await askProgram({
      command,
      args,
      env: {
        PATH: programFolders.join(path.delimiter),
        LC_ALL: 'C',
        ...(env['HOME'] !== undefined && { HOME: env['HOME'] }),
      },
      timeLimitMs: askLimitMs,
    })
    return { exitCode: exitCode ?? 1, stdout, stderr }
  } catch (error) {
    if (error instanceof ProgramError) throw new InstallationError(error.message, { cause: error })
    throw error
  }
}

/** Undefined where none of the folders has it. */
export async function findProgram(folders: readonly string[], name: string): Promise<string | undefined> {
  for (const folder of folders.filter((one) => path.isAbsolute(one))) {
    const file = path.join(folder, name)
    const isThere = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    )
    if (isThere) return file
  }
  return undefined
}

/**
 * Where root installs for a user, does something as that user, with their groups and none of root's: what is made belongs to them, and no link of
 * theirs leads root anywhere else. Nothing else may run in this process meanwhile.
 */
export async function asOwner<T>({ isRoot, user }: InstallationHost, work: () => Promise<T>): Promise<T> {
  if (!isRoot || user.id === 0) return work()
  // Every system with a root has these; the types of Node.js lack initgroups.
  const unix = process as unknown as Identity
  const before = { group: unix.getegid(), groups: unix.getgroups() }
  try {
    unix.initgroups(user.name, user.groupId)
    unix.setegid(user.groupId)
    unix.seteuid(user.id)
    return await work()
  } finally {
    unix.seteuid(0)
    unix.setegid(before.group)
    // macOS tells of more groups than it lets a process set, and asks its directory for the rest only after initgroups.
    if (process.platform === 'darwin') unix.initgroups('root', before.group)
    else unix.setgroups(before.groups)
  }
}

interface Identity {
  getegid(): number
  getgroups(): number[]
  seteuid(user: number): void
  setegid(group: number): void
  setgroups(groups: readonly number[]): void
  initgroups(user: string, group: number): void
}
