import { askSystem, InstallationError, type InstallationHost, type SystemAnswer } from '../installation-host.ts'
import type { LastExit } from '../launchctl.ts'
import type { ServiceManager, ServiceState } from './service-manager.ts'
import { lingerCommand, serviceFile, systemdUnit } from './service-names.ts'
import type { ServicePlan } from './service-plan.ts'
import { readSystemdUnit, systemdUnitText } from './systemd-unit.ts'

const shown = [
  'LoadState',
  'UnitFileState',
  'MainPID',
  'NRestarts',
  'ExecMainCode',
  'ExecMainStatus',
  'ExecMainExitTimestampMonotonic',
]
/** `ExecMainCode` of waitid(2). */
const exited = '1'

export class SystemdService implements ServiceManager {
  readonly kind = 'systemdUser'
  readonly file: string
  readonly name = systemdUnit
  readonly title = 'user unit of systemd'
  readonly starts: string
  readonly #host: InstallationHost

  constructor(host: InstallationHost) {
    this.file = serviceFile('systemdUser', host)
    this.starts = `when ${host.user.name} logs in, or with the machine where that user lingers`
    this.#host = host
  }

  text(plan: ServicePlan): string {
    return systemdUnitText(plan)
  }

  fileMode(): number {
    return 0o600
  }

  read = readSystemdUnit

  async check(): Promise<void> {
    const { user, isRoot, env } = this.#host
    if (isRoot && user.id !== 0) {
      throw new InstallationError(`The service belongs to ${user.name}: repeat this without sudo.`)
    }
    const { exitCode, stderr } = await this.#ask('show', '--property=Version')
    if (exitCode === 0) return
    const said = stderr.trim().split('\n')[0] ?? ''
    const runtime = env['XDG_RUNTIME_DIR'] === undefined ? ` and export XDG_RUNTIME_DIR=/run/user/${user.id}` : ''
    throw new InstallationError(
      `No systemd of ${user.name} answers (${said || `systemctl ended with code ${exitCode}`}): log in as ${user.name} without su or sudo, or run ${lingerCommand(user)}${runtime}.`,
    )
  }

  async state(): Promise<ServiceState> {
    const { stdout } = await this.#done('show', systemdUnit, `--property=${shown.join(',')}`)
    const values = new Map(stdout.split('\n').map((line) => [line.split('=')[0] ?? '', line.replace(/^[^=]*=/, '')]))
    const pid = Number(values.get('MainPID') ?? 0)
    const lastExit = lastExitOf(values)
    return {
      isLoaded: values.get('LoadState') === 'loaded' && values.get('UnitFileState') === 'enabled',
      ...(pid > 0 && { pid }),
      restarts: Number(values.get('NRestarts') ?? 0),
      ...(lastExit && { lastExit }),
    }
  }

  async load(): Promise<void> {
    await this.#done('daemon-reload')
    await this.#done('enable', systemdUnit)
    await this.start()
  }

  async start(): Promise<void> {
    await this.#done('start', systemdUnit)
  }

  async unload({ forGood }: { readonly forGood: boolean }): Promise<void> {
    if (forGood) await this.#done('disable', systemdUnit)
    await this.#done('stop', '--no-block', systemdUnit)
  }

  async kill(): Promise<void> {
    await this.#done('kill', '--signal=SIGKILL', '--kill-who=main', systemdUnit)
  }

  async forget(): Promise<void> {
    await this.#done('daemon-reload')
    // Answers with an error where there is nothing to be reset.
    await this.#ask('reset-failed', systemdUnit)
  }

  #ask(...args: string[]): Promise<SystemAnswer> {
    return askSystem(this.#host, 'systemctl', ['--user', '--no-pager', ...args])
  }

  async #done(...args: string[]): Promise<SystemAnswer> {
    const answer = await this.#ask(...args)
    if (answer.exitCode === 0) return answer
    const said = answer.stderr.trim().split('\n')[0] ?? ''
    throw new InstallationError(
      `systemctl --user ${args.join(' ')} ended with code ${answer.exitCode}: ${said || 'it said nothing'}.`,
    )
  }
}

function lastExitOf(values: ReadonlyMap<string, string>): LastExit | undefined {
  if (Number(values.get('ExecMainExitTimestampMonotonic') ?? 0) === 0) return undefined
  const status = Number(values.get('ExecMainStatus') ?? 0)
  return values.get('ExecMainCode') === exited ? { code: status } : { signal: `${status}` }
}
