import { z } from 'zod'
import { askSystem, InstallationError, type InstallationHost, type SystemAnswer } from '../installation-host.ts'
import {
  byFlag,
  commandLine,
  lingerCommand,
  marked,
  openFiles,
  restartDelayS,
  serviceFile,
  systemdUnit,
  UnitTextError,
  type ServiceManager,
  type ServicePlan,
  type ServiceState,
  type UnitContent,
  type LastExit,
} from './service-plan.ts'

/** The agent's exit code for a wrong flag: starting it again would not help. */
const wrongUsage = 2

/** The user unit of systemd; see systemd.service(5), systemd.exec(5) and systemd.kill(5). */
export function systemdUnitText(plan: ServicePlan): string {
  const { environment, workingDirectory, errorFile, exitTimeoutS } = plan
  const lines = [
    '[Unit]',
    'Description=Serves InferenceServices of a Kubernetes cluster on this machine (metal-agent)',
    // The cluster may be away for hours: it is tried for as long as it takes.
    'StartLimitIntervalSec=0',
    '',
    '[Service]',
    'Type=exec',
    `ExecStart=:${commandLine(plan).map(quoted).join(' ')}`,
    ...Object.entries(environment).map(([name, value]) => `Environment=${quoted(`${name}=${value}`)}`),
    `WorkingDirectory=${plain(workingDirectory)}`,
    'UMask=0077',
    // Only the agent is ended: model servers run on, and the next agent takes them over.
    'KillMode=process',
    'Restart=on-failure',
    `RestartSec=${restartDelayS}`,
    `RestartPreventExitStatus=${wrongUsage}`,
    `TimeoutStopSec=${exitTimeoutS}`,
    // The kernel that ends a model for want of memory does not end the agent, which starts it again.
    'OOMPolicy=continue',
    `LimitNOFILE=${openFiles}`,
    `StandardOutput=append:${plain(errorFile)}`,
    `StandardError=append:${plain(errorFile)}`,
    '',
    '[Install]',
    'WantedBy=default.target',
    '',
  ]
  return marked(lines.join('\n'), 0, ['# ', ''])
}

/** A word in double quotes, as systemd.syntax(7) has it; "%" begins a specifier. */
const quoted = (word: string): string => `"${plain(word).replace(/[\\"]/g, '\\$&')}"`
const plain = (text: string): string => text.replaceAll('%', '%%')
const unplain = (text: string): string => text.replaceAll('%%', '%')

const seconds = z.coerce.number().int().min(0)

/** Reads what {@link systemdUnitText} writes, also after changes by hand. Throws UnitTextError. */
export function readSystemdUnit(content: string): UnitContent {
  const values = valuesOf(content)
  const command = values.get('Service.ExecStart')?.replace(/^[-@:+!]*/, '')
  if (command === undefined) throw new UnitTextError('has no line ExecStart: it was written only in part')
  if (!values.has('Install.WantedBy')) throw new UnitTextError('has no line WantedBy: it was written only in part')
  const environment = wordsOf(values.get('Service.Environment') ?? '').map((word): [string, string] => {
    const at = word.indexOf('=')
    return [word.slice(0, at), word.slice(at + 1)]
  })
  const errorFile = /^append:(.*)$/s.exec(values.get('Service.StandardError') ?? '')?.[1]
  const timeout = seconds.safeParse(values.get('Service.TimeoutStopSec')).data
  const workingDirectory = values.get('Service.WorkingDirectory')
  const words = wordsOf(command)
  values.delete('Service.Environment')
  for (const [name, value] of environment) values.set(`Environment.${name}`, value)
  return {
    words,
    environment: Object.fromEntries(environment),
    workingDirectory: workingDirectory && unplain(workingDirectory),
    errorFile: errorFile && unplain(errorFile),
    exitTimeoutS: timeout,
    values: byFlag(values, 'Service.ExecStart', words),
  }
}

/** Values by "Section.Key"; those of a key that is given several times are joined, as systemd does. */
function valuesOf(content: string): Map<string, string> {
  const values = new Map<string, string>()
  let section = ''
  for (const line of content.split('\n')) {
    const [, named] = /^\[([^\]]+)\]\s*$/.exec(line) ?? []
    if (named !== undefined) section = named
    const [, key, given] = /^([A-Za-z]\w*)\s*=(.*)$/s.exec(line) ?? []
    if (key === undefined || given === undefined) continue
    const value = given.trim()
    const path = `${section}.${key}`
    const before = values.get(path)
    values.set(path, before === undefined ? value : `${before} ${value}`)
  }
  return values
}

function wordsOf(text: string): string[] {
  const words = text.match(/"(?:[^"\\]|\\.)*"|\S+/g) ?? []
  return words.map((word) => unplain(word.startsWith('"') ? word.slice(1, -1).replace(/\\(.)/g, '$1') : word))
}

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
    this.starts = `when ${host.user.name} logs in, or at boot if lingering is on for that user`
    this.#host = host
  }

  text = systemdUnitText
  read = readSystemdUnit

  fileMode(): number {
    return 0o600
  }

  async check(): Promise<void> {
    const { user, isRoot, env } = this.#host
    if (isRoot && user.id !== 0) {
      throw new InstallationError(`The service belongs to ${user.name}: run this again without sudo.`)
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
    return {
      isLoaded: values.get('LoadState') === 'loaded' && values.get('UnitFileState') === 'enabled',
      pid: Number(values.get('MainPID') ?? 0) || undefined,
      restarts: Number(values.get('NRestarts') ?? 0),
      lastExit: lastExitOf(values),
    }
  }

  async load(): Promise<void> {
    await this.#done('daemon-reload')
    await this.#done('enable', systemdUnit)
    await this.#done('start', systemdUnit)
  }

  /** systemd takes a file that it has already once more without a word. */
  start(): Promise<void> {
    return this.load()
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
