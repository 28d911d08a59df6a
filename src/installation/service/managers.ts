import type { InstallationHost } from '../installation-host.ts'
import { LaunchdService } from './launchd-service.ts'
import type { ServiceManager } from './service-manager.ts'
import type { ServiceKind } from './service-names.ts'
import { SystemdService } from './systemd-service.ts'

export function serviceManager(kind: ServiceKind, host: InstallationHost): ServiceManager {
  return kind === 'systemdUser' ? new SystemdService(host) : new LaunchdService(kind, host)
}

/** The ways to be kept that this system has; the first is the usual one. */
export const kindsOf = ({ platform }: Pick<InstallationHost, 'platform'>): readonly ServiceKind[] =>
  platform === 'darwin' ? ['launchAgent', 'launchDaemon'] : ['systemdUser']
