import { lstat } from 'node:fs/promises'
import { userInfo } from 'node:os'
import path from 'node:path'
import type { InstallationHost } from '../../installation/installation-host.ts'
import { UninstallError } from '../../installation/uninstall/trace-part.ts'
import type { CliIo } from '../io.ts'
import { serviceHost } from '../service/service-host.ts'

/** For whom it is, and on what: always the one who runs it. Throws UninstallError. */
export async function uninstallHost(io: CliIo, stateDir: string): Promise<InstallationHost> {
  const { platform, env, homeDir } = io
  if (platform !== 'darwin' && platform !== 'linux') {
    throw new UninstallError(`Metalbar runs on macOS and Linux, and leaves nothing on ${platform}.`)
  }
  const { uid } = userInfo()
  const sudoer = env['SUDO_USER']
  if (uid === 0 && sudoer !== undefined && sudoer !== 'root') {
    throw new UninstallError(
      `It removes what the one who runs it has: repeat it as ${sudoer}, without sudo. It asks for a password where that is needed.`,
    )
  }
  if (!path.isAbsolute(homeDir)) {
    throw new UninstallError('HOME names no folder, so it is not known what is whose: set it, and repeat this.')
  }
  const owner = await lstat(stateDir).then(
    (found) => found.uid,
    () => uid,
  )
  if (owner !== uid) {
    throw new UninstallError(
      `The state folder ${stateDir} belongs to another user (${owner}), whose agent it is: have them run this, or sudo -u '#${owner}' metal-agent uninstall --everything.`,
    )
  }
  return serviceHost(io)
}
