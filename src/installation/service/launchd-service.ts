import { InstallationError, type InstallationHost } from '../installation-host.ts'
import { bootout, bootstrap, kickstart, launchdJob, signalJob, type LaunchdDomain } from '../launchctl.ts'
import { launchdPlist, readLaunchdPlist } from './launchd-plist.ts'
import { hasGivenVariables } from './service-environment.ts'
import type { ServiceManager, ServiceState } from './service-manager.ts'
import { serviceFile, serviceLabel, type ServiceKind } from './service-names.ts'
import type { ServicePlan } from './service-plan.ts'

export class LaunchdService implements ServiceManager {
  readonly kind: ServiceKind
  readonly file: string
  readonly name = serviceLabel
  readonly title: string
  readonly starts: string
  readonly #host: InstallationHost
  readonly #domain: LaunchdDomain

  constructor(kind: 'launchAgent' | 'launchDaemon', host: InstallationHost) {
    const isDaemon = kind === 'launchDaemon'
    this.kind = kind
    this.file = serviceFile(kind, host)
    this.title = isDaemon ? 'LaunchDaemon' : 'LaunchAgent'
    this.starts = isDaemon ? 'with the Mac, with nobody logged in' : `when ${host.user.name} logs in at the screen`
    this.#host = host
    this.#domain = isDaemon ? 'system' : `gui/${host.user.id}`
  }

  text(plan: ServicePlan): string {
    return launchdPlist(plan)
  }

  /**
   * launchd takes no file that others may write, and does not ask that they may read it. A LaunchDaemon's tells its user where the log is, and is
   * root's alone where variables stand in it.
   */
  fileMode({ environment }: Pick<ServicePlan, 'environment'>): number {
    return this.kind === 'launchDaemon' && !hasGivenVariables(environment) ? 0o644 : 0o600
  }

  read = readLaunchdPlist

  check(): Promise<void> {
    const { isRoot, user } = this.#host
    if (this.kind === 'launchDaemon' && !isRoot) {
      return Promise.reject(
        new InstallationError(
          'A LaunchDaemon is for the whole Mac, so only root may install, restart or remove it: repeat this with sudo in front.',
        ),
      )
    }
    if (this.kind === 'launchAgent' && isRoot && user.id !== 0) {
      return Promise.reject(
        new InstallationError(
          `A LaunchAgent belongs to ${user.name}: repeat this without sudo, or with --daemon for a LaunchDaemon.`,
        ),
      )
    }
    return this.state().then(() => undefined)
  }

  async state(): Promise<ServiceState> {
    const job = await launchdJob(this.#host, this.#domain, serviceLabel)
    if (!job) return { isLoaded: false }
    const { pid, lastExit } = job
    return { isLoaded: true, ...(pid !== undefined && { pid }), ...(lastExit && { lastExit }) }
  }

  load(): Promise<void> {
    return bootstrap(this.#host, this.#domain, serviceLabel, this.file)
  }

  start(): Promise<void> {
    return kickstart(this.#host, this.#domain, serviceLabel)
  }

  async unload(): Promise<void> {
    await bootout(this.#host, this.#domain, serviceLabel)
  }

  kill(): Promise<void> {
    return signalJob(this.#host, this.#domain, serviceLabel, 'SIGKILL')
  }

  /** launchd remembers nothing of what is not loaded. */
  forget(): Promise<void> {
    return Promise.resolve()
  }
}
