import { setTimeout as delay } from 'node:timers/promises'
import { build, parse, type PlistValue } from 'plist'
import { z } from 'zod'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { askSystem, InstallationError, type InstallationHost, type SystemAnswer } from '../installation-host.ts'
import {
  byFlag,
  commandLine,
  hasGivenVariables,
  marked,
  openFiles,
  ownerOnly,
  restartDelayS,
  serviceFile,
  serviceLabel,
  UnitTextError,
  type LastExit,
  type ServiceKind,
  type ServiceManager,
  type ServicePlan,
  type ServiceState,
  type UnitContent,
} from './service-plan.ts'

/** What `launchctl print` says of one job. */
export interface LaunchdJob {
  /** As launchd calls it: "running", "not running", "spawn scheduled" and others. */
  readonly state: string
  readonly pid?: number
  /** Of the file that was loaded. */
  readonly path?: string
  /** How often it was started since it was loaded. */
  readonly runs?: number
  /** Absent where it has not ended yet. */
  readonly lastExit?: LastExit
}

/**
 * Reads the lines of the job itself, which are indented by one tab; its environment and endpoints stand deeper. Apple says that this
 * output is for people and may change, so that whatever is missing is left out.
 */
export function parseLaunchdJob(output: string): LaunchdJob {
  const fields = new Map<string, string>()
  for (const line of output.split('\n')) {
    const [, name, value] = /^\t([^\t=][^=]*?) = (.*)$/.exec(line) ?? []
    if (name !== undefined && value !== undefined && !fields.has(name)) fields.set(name, value)
  }
  const pid = wholeNumber(fields.get('pid'))
  const runs = wholeNumber(fields.get('runs'))
  const path = fields.get('path')
  const lastExit = lastExitOf(fields)
  return {
    state: fields.get('state') ?? (pid === undefined ? 'not running' : 'running'),
    ...(pid !== undefined && { pid }),
    ...(path !== undefined && { path }),
    ...(runs !== undefined && { runs }),
    ...(lastExit && { lastExit }),
  }
}

const wholeNumber = (text: string | undefined): number | undefined =>
  text !== undefined && /^\d{1,10}$/.test(text) ? Number(text) : undefined

/** As "last exit code = 78: EX_CONFIG", "(never exited)", and "last terminating signal = Killed: 9". */
function lastExitOf(fields: ReadonlyMap<string, string>): LastExit | undefined {
  const signal = fields.get('last terminating signal')
  if (signal !== undefined) return { signal }
  const code = /^(\d{1,5})(?:: |$)/.exec(fields.get('last exit code') ?? '')?.[1]
  return code === undefined ? undefined : { code: Number(code) }
}

/** `gui/<uid>` has the LaunchAgents of a user who is logged in at the screen, `system` the LaunchDaemons. */
export type LaunchdDomain = `gui/${number}` | 'system'

/** What launchctl ends with, as `launchctl error <code>` explains them. */
const codes = {
  noSuchProcess: 3,
  /** Also where a job of this label is still on its way out. */
  inputOutput: 5,
  inProgress: 36,
  alreadyInProgress: 37,
  notFound: 113,
  serviceDisabled: 119,
  /** There is no such domain, as over ssh where nobody is logged in at the screen. */
  noSuchDomain: 125,
} as const

/** launchd answers a bootstrap that follows a bootout too fast with {@link codes.inputOutput}. */
const bootstrapTries = 5
const betweenTriesMs = 1_000

type Host = Pick<InstallationHost, 'programFolders' | 'env'>

/** What launchd knows of a label; undefined where it is not loaded. Throws InstallationError. */
export async function launchdJob(host: Host, domain: LaunchdDomain, label: string): Promise<LaunchdJob | undefined> {
  const answer = await askSystem(host, 'launchctl', ['print', `${domain}/${label}`])
  if (answer.exitCode === 0) return parseLaunchdJob(answer.stdout)
  if (answer.exitCode === codes.notFound || answer.exitCode === codes.noSuchDomain) return undefined
  throw failed('print', domain, label, answer)
}

/** Loads a plist, by which a job with RunAtLoad starts. Throws InstallationError. */
export async function bootstrap(host: Host, domain: LaunchdDomain, label: string, file: string): Promise<void> {
  // What `launchctl disable` or System Settings switched off stays off whatever is loaded.
  await done(host, ['enable', `${domain}/${label}`], domain, label)
  for (let tries = 1; ; tries++) {
    const answer = await askSystem(host, 'launchctl', ['bootstrap', domain, file])
    if (answer.exitCode === 0 || answer.exitCode === codes.alreadyInProgress) return
    const mayPass = answer.exitCode === codes.inputOutput && tries < bootstrapTries
    if (!mayPass) throw failed('bootstrap', domain, label, answer)
    await delay(betweenTriesMs)
  }
}

/** Unloads a job, which ends it; false where it was not loaded. Throws InstallationError. */
export async function bootout(host: Host, domain: LaunchdDomain, label: string): Promise<boolean> {
  const answer = await askSystem(host, 'launchctl', ['bootout', `${domain}/${label}`])
  const { exitCode } = answer
  if (exitCode === codes.noSuchProcess || exitCode === codes.notFound || exitCode === codes.noSuchDomain) return false
  if (exitCode === 0 || exitCode === codes.inProgress) return true
  throw failed('bootout', domain, label, answer)
}

/** Starts a loaded job that does not run. Throws InstallationError. */
export const kickstart = (host: Host, domain: LaunchdDomain, label: string): Promise<void> =>
  done(host, ['kickstart', `${domain}/${label}`], domain, label)

/** Throws InstallationError. */
export const signalJob = (host: Host, domain: LaunchdDomain, label: string, signal: 'SIGKILL'): Promise<void> =>
  done(host, ['kill', signal, `${domain}/${label}`], domain, label)

async function done(host: Host, args: readonly string[], domain: LaunchdDomain, label: string): Promise<void> {
  const answer = await askSystem(host, 'launchctl', args)
  if (answer.exitCode !== 0) throw failed(args[0] ?? '', domain, label, answer)
}

function failed(verb: string, domain: LaunchdDomain, label: string, answer: SystemAnswer): InstallationError {
  const { exitCode, stdout, stderr } = answer
  const said = (stderr.trim() || stdout.trim()).split('\n')[0] ?? ''
  const advice = advices[exitCode]
  return new InstallationError(
    `launchctl ${verb} ${domain}/${label} ended with code ${exitCode}${said === '' ? '' : ` (${said})`}${advice === undefined ? '.' : `: ${advice}.`}`,
  )
}

const advices: Readonly<Record<number, string>> = {
  [codes.inputOutput]:
    'launchd could not load the file, or the job before it is still ending; try again in a minute, and see log show --last 5m --predicate \'process == "launchd"\'',
  [codes.serviceDisabled]:
    'it is switched off in System Settings under General, Login Items & Extensions; switch it on there',
  [codes.noSuchDomain]:
    'nobody is logged in at the screen of this Mac as this user; log in there, or install with --daemon, which needs no login',
}

/** Lines of the file before its first element: the XML declaration and the document type. */
const linesOfHead = 2

const bundleId = 'dev.metalbar.app'

/** The file of launchd; see launchd.plist(5). */
export function launchdPlist(plan: ServicePlan): string {
  const { workingDirectory, errorFile, exitTimeoutS, userName } = plan
  const text = build({
    Label: serviceLabel,
    ProgramArguments: commandLine(plan),
    // By which System Settings shows it under the name of the app.
    AssociatedBundleIdentifiers: [bundleId],
    ...(userName !== undefined && { UserName: userName, InitGroups: true }),
    EnvironmentVariables: { ...plan.environment },
    WorkingDirectory: workingDirectory,
    Umask: ownerOnly,
    RunAtLoad: true,
    // A shutdown that was asked for ends with 0 and stays; a defect does not, and the next agent takes the servers over.
    KeepAlive: { SuccessfulExit: false },
    ThrottleInterval: restartDelayS,
    ExitTimeOut: exitTimeoutS,
    // Without it launchd ends the model servers with the agent.
    AbandonProcessGroup: true,
    // Anything else is slowed down while somebody works at the Mac, and the servers with it.
    ProcessType: 'Interactive',
    SoftResourceLimits: { NumberOfFiles: openFiles },
    HardResourceLimits: { NumberOfFiles: openFiles },
    StandardOutPath: errorFile,
    StandardErrorPath: errorFile,
  })
  return marked(`${text}\n`, linesOfHead, ['<!-- ', ' -->'])
}

const text = z.string().max(10_000)
const launchdFile = z.looseObject({
  Label: text,
  ProgramArguments: z.array(text).min(1).max(1_000),
  EnvironmentVariables: z.record(text, text).default({}),
  WorkingDirectory: text.optional(),
  StandardErrorPath: text.optional(),
  ExitTimeOut: z.int().optional(),
  UserName: text.optional(),
})

/** Throws UnitTextError. */
export function readLaunchdPlist(content: string): UnitContent {
  const parsed = launchdFile.safeParse(parsedPlist(content))
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    throw new UnitTextError(`is no job of launchd (${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''})`)
  }
  const { Label, ProgramArguments, EnvironmentVariables, WorkingDirectory, StandardErrorPath, ExitTimeOut, UserName } =
    parsed.data
  return {
    label: Label,
    words: ProgramArguments,
    environment: EnvironmentVariables,
    ...(WorkingDirectory !== undefined && { workingDirectory: WorkingDirectory }),
    ...(StandardErrorPath !== undefined && { errorFile: StandardErrorPath }),
    ...(ExitTimeOut !== undefined && { exitTimeoutS: ExitTimeOut }),
    ...(UserName !== undefined && { userName: UserName }),
    values: byFlag(new Map(flat(parsed.data as PlistValue)), 'ProgramArguments', ProgramArguments),
  }
}

function parsedPlist(content: string): PlistValue {
  // The parser answers to what was cut off or damaged in several ways, by its place.
  if (!/<\/plist>\s*$/.test(content)) throw new UnitTextError('ends before its end: it was written only in part')
  try {
    return parse(content)
  } catch (error) {
    throw new UnitTextError(`is no property list (${messageOf(error)})`, { cause: error })
  }
}

function flat(value: PlistValue, path = ''): [string, string][] {
  if (Array.isArray(value)) return [[path, value.map((one) => flat(one).map(([, text]) => text)).join(' ')]]
  if (value === null || typeof value !== 'object' || value instanceof Date || value instanceof Uint8Array) {
    return [[path, String(value)]]
  }
  return Object.entries(value).flatMap(([key, one]) => flat(one, path === '' ? key : `${path}.${key}`))
}

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
