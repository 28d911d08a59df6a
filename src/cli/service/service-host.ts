import { userInfo } from 'node:os'
import path from 'node:path'
import {
  askSystem,
  InstallationError,
  rootProgramFolders,
  type InstallationHost,
  type InstallationUser,
} from '../../installation/installation-host.ts'
import type { ServicePlan } from '../../installation/service/service-plan.ts'
import { VerbError } from '../agent-session.ts'
import type { CliIo } from '../io.ts'

/** This machine and the user whose service it is; `userName` where root installs for somebody. Throws VerbError and InstallationError. */
export async function serviceHost(io: CliIo, userName?: string): Promise<InstallationHost> {
  const { platform, env, homeDir } = io
  if (platform !== 'darwin' && platform !== 'linux')
    throw new VerbError('A service is kept by launchd or systemd alone.')
  const { username, uid, gid } = userInfo()
  const isRoot = uid === 0
  const host = {
    platform,
    isRoot,
    env: withRuntimeFolder(env, uid),
    systemRoot: '/',
    programFolders: isRoot && platform === 'darwin' ? rootProgramFolders : (env['PATH'] ?? '').split(path.delimiter),
  } as const
  const sudoer = env['SUDO_USER']
  const named = userName ?? (isRoot && sudoer !== undefined && sudoer !== 'root' ? sudoer : undefined)
  if (named !== undefined && named !== username) {
    if (!isRoot) throw new VerbError(`Only root may install a service for ${named}: repeat this with sudo in front.`)
    return { ...host, user: await otherUser(host, named) }
  }
  if (!path.isAbsolute(homeDir)) {
    throw new VerbError(
      'HOME names no folder, so it is not known where the service and its state belong: set it, and repeat this.',
    )
  }
  return { ...host, user: { name: username, id: uid, groupId: gid, homeDir } }
}

/** The same for the user as whom a service runs: root's own shell does not say who that is. Throws VerbError and InstallationError. */
export const hostOf = (
  plan: Pick<ServicePlan, 'userName'> | undefined,
  host: InstallationHost,
  io: CliIo,
): Promise<InstallationHost> =>
  host.isRoot && plan?.userName !== undefined && plan.userName !== host.user.name
    ? serviceHost(io, plan.userName)
    : Promise.resolve(host)

/** A shell that was opened by su or cron does not say where systemd of its user listens. */
function withRuntimeFolder(env: NodeJS.ProcessEnv, uid: number): NodeJS.ProcessEnv {
  return (env['XDG_RUNTIME_DIR'] ?? '') === '' ? { ...env, XDG_RUNTIME_DIR: `/run/user/${uid}` } : env
}

/** `id -P` of macOS prints name:password:uid:gid:class:change:expire:full name:home:shell; getent leaves out the three after gid. */
async function otherUser(
  host: Pick<InstallationHost, 'programFolders' | 'env' | 'platform'>,
  name: string,
): Promise<InstallationUser> {
  const isMac = host.platform === 'darwin'
  const { exitCode, stdout } = name.startsWith('-')
    ? { exitCode: 1, stdout: '' }
    : await askSystem(host, isMac ? 'id' : 'getent', isMac ? ['-P', name] : ['passwd', name])
  const fields = stdout.trim().split(':')
  const [id, groupId, homeDir] = [Number(fields[2]), Number(fields[3]), fields.at(-2) ?? '']
  if (exitCode !== 0 || !Number.isSafeInteger(id) || !Number.isSafeInteger(groupId) || !path.isAbsolute(homeDir)) {
    throw new InstallationError(`There is no user ${JSON.stringify(name)} on this machine.`)
  }
  return { name, id, groupId, homeDir }
}
