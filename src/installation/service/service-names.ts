import path from 'node:path'
import { shellCommand } from '../../contract/shell.ts'
import type { InstallationHost } from '../installation-host.ts'

/** LLMKube's guide has people look for a job whose label contains "llmkube". */
export const serviceLabel = 'dev.metalbar.llmkube-metal-agent'
export const systemdUnit = 'llmkube-metal-agent.service'

/** Tells the agent that launchd or systemd runs it, which starts it anew where it ends with an error. */
export const serviceVariable = 'METAL_AGENT_SERVICE'

/** Has systemd run a user's services with nobody logged in. */
export const lingerCommand = ({ name }: InstallationHost['user']): string =>
  shellCommand(['sudo', 'loginctl', 'enable-linger', name])

/** How launchd or systemd keeps the agent; a LaunchDaemon runs with nobody logged in. */
export type ServiceKind = 'launchAgent' | 'launchDaemon' | 'systemdUser'

type Place = Pick<InstallationHost, 'env' | 'user' | 'systemRoot'>

/** The file that a service consists of. */
export function serviceFile(kind: ServiceKind, { env, user, systemRoot }: Place): string {
  switch (kind) {
    case 'launchAgent':
      return path.join(user.homeDir, 'Library/LaunchAgents', `${serviceLabel}.plist`)
    case 'launchDaemon':
      return path.join(systemRoot, 'Library/LaunchDaemons', `${serviceLabel}.plist`)
    case 'systemdUser': {
      const given = env['XDG_CONFIG_HOME']
      const config = given !== undefined && path.isAbsolute(given) ? given : path.join(user.homeDir, '.config')
      return path.join(config, 'systemd/user', systemdUnit)
    }
  }
}

/** Where the service's own output goes: no folder that a reboot or a clean-up empties. */
export const serviceLogFolder = (kind: ServiceKind, homeDir: string, stateDir: string): string =>
  kind === 'systemdUser' ? path.join(stateDir, 'service') : path.join(homeDir, 'Library/Logs/Metalbar')
