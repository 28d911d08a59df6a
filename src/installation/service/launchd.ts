import { setTimeout as delay } from 'node:timers/promises'
import { build, parse, type PlistValue } from 'plist'
import { z } from 'zod'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { askSystem, InstallationError, type InstallationHost, type SystemAnswer } from '../installation-host.ts'
import {
  commandLine,
  hasGivenVariables,
  openFiles,
  ownerOnly,
  PlistError,
  restartDelayS,
  serviceFile,
  serviceLabel,
  type LastExit,
  type PlistContent,
  type ServiceKind,
  type ServicePlan,
  type ServiceState,
} from './service-plan.ts'

/** What `launchctl print` says of one job. */
export interface LaunchdJob {
  /** Undefined where it does not run. */
  readonly pid: number | undefined
  /** Undefined where it has not ended yet. */
  readonly lastExit: LastExit | undefined
}

/**
 * Reads the lines of the job itself, which are indented by one tab; its environment and endpoints stand deeper. Apple says that this
 * output is for people and may change, so that whatever is missing is left out.
 */
export function parseLaunchdJob(output: string): LaunchdJob {
  const lines = output.split('\n').map((line) => /^\t([^\t=][^=]*?) = (.*)$/.exec(line) ?? [])
  // The first line of a repeated name counts.
  const fields = new Map(lines.map(([, name = '', value = '']) => [name, value] as const).toReversed())
  const pid = fields.get('pid') ?? ''
  return { pid: /^\d{1,10}$/.test(pid) ? Number(pid) : undefined, lastExit: lastExitOf(fields) }
}

/** Reads "last exit code = 78: EX_CONFIG", "(never exited)", and "last terminating signal = Killed: 9". */
function lastExitOf(fields: ReadonlyMap<string, string>): LastExit | undefined {
  const signal = fields.get('last terminating signal')
  if (signal !== undefined) return { signal }
  const code = /^(\d{1,5})(?:: |$)/.exec(fields.get('last exit code') ?? '')?.[1]
  return code === undefined ? undefined : { code: Number(code) }
}

/** `gui/<uid>` has the LaunchAgents of a user who is logged in at the screen, `system` the LaunchDaemons. */
export type LaunchdDomain = `gui/${number}` | 'system'

/** Exit codes of launchctl; `launchctl error <code>` explains them. */
const codes = {
  noSuchProcess: 3,
  /** Answered also while the job of before is still ending. */
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

/** One job of launchd, which launchctl is asked about and told what to do with. Every method throws InstallationError. */
export class LaunchctlJob {
  readonly #host: Pick<InstallationHost, 'programFolders' | 'env'>
  readonly #domain: LaunchdDomain
  readonly #target: string

  constructor(host: Pick<InstallationHost, 'programFolders' | 'env'>, domain: LaunchdDomain, label: string) {
    this.#host = host
    this.#domain = domain
    this.#target = `${domain}/${label}`
  }

  /** Undefined where it is not loaded. */
  async look(): Promise<LaunchdJob | undefined> {
    const answer = await this.#ask('print', this.#target)
    if (answer.exitCode === codes.notFound || answer.exitCode === codes.noSuchDomain) return undefined
    if (answer.exitCode !== 0) throw this.#failed('print', answer)
    return parseLaunchdJob(answer.stdout)
  }

  /** Loads a plist, by which a job with RunAtLoad starts. */
  async load(file: string): Promise<void> {
    // What `launchctl disable` or System Settings switched off stays off whatever is loaded.
    await this.#done('enable', this.#target)
    for (let tries = 1; ; tries++) {
      const answer = await this.#ask('bootstrap', this.#domain, file)
      if (answer.exitCode === 0 || answer.exitCode === codes.alreadyInProgress) return
      const mayPass = answer.exitCode === codes.inputOutput && tries < bootstrapTries
      if (!mayPass) throw this.#failed('bootstrap', answer)
      await delay(betweenTriesMs)
    }
  }

  /** Begins to end it; does nothing where it is not loaded. */
  async unload(): Promise<void> {
    const answer = await this.#ask('bootout', this.#target)
    const { noSuchProcess, notFound, noSuchDomain, inProgress } = codes
    const isGone = [0, noSuchProcess, notFound, noSuchDomain, inProgress].includes(answer.exitCode)
    if (!isGone) throw this.#failed('bootout', answer)
  }

  /** Starts it where it is loaded and does not run. */
  start(): Promise<void> {
    return this.#done('kickstart', this.#target)
  }

  kill(): Promise<void> {
    return this.#done('kill', 'SIGKILL', this.#target)
  }

  #ask(...args: string[]): Promise<SystemAnswer> {
    return askSystem(this.#host, 'launchctl', args)
  }

  async #done(verb: string, ...args: string[]): Promise<void> {
    const answer = await this.#ask(verb, ...args)
    if (answer.exitCode !== 0) throw this.#failed(verb, answer)
  }

  #failed(verb: string, { exitCode, stdout, stderr }: SystemAnswer): InstallationError {
    const [said = ''] = (stderr.trim() || stdout.trim()).split('\n')
    const advice = advices[exitCode]
    return new InstallationError(
      `launchctl ${verb} ${this.#target} ended with code ${exitCode}${said && ` (${said})`}${advice === undefined ? '' : `: ${advice}`}.`,
    )
  }
}

const advices: Readonly<Record<number, string>> = {
  [codes.inputOutput]:
    'launchd could not load the file, or the job before it is still ending; try again in a minute, and see log show --last 5m --predicate \'process == "launchd"\'',
  [codes.serviceDisabled]:
    'it is switched off in System Settings under General, Login Items & Extensions; switch it on there',
  [codes.noSuchDomain]:
    'nobody is logged in at the screen of this Mac as this user; log in there, or install with --daemon, which needs no login',
}

const bundleId = 'dev.metalbar.app'

/** The file of launchd; see launchd.plist(5). */
export function launchdPlist(plan: ServicePlan): string {
  const { workingDirectory, errorFile, exitTimeoutS, userName } = plan
  const text = build({
    Label: serviceLabel,
    ProgramArguments: commandLine(plan),
    // System Settings shows it under the name of the app.
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
  return `${text}\n`
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

/** Throws PlistError. */
export function readLaunchdPlist(content: string): PlistContent {
  const parsed = launchdFile.safeParse(parsePlist(content))
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    throw new PlistError(`is no job of launchd (${issue?.path.join('.') ?? ''}: ${issue?.message ?? ''})`)
  }
  const { data } = parsed
  return {
    label: data.Label,
    words: data.ProgramArguments,
    environment: data.EnvironmentVariables,
    workingDirectory: data.WorkingDirectory,
    errorFile: data.StandardErrorPath,
    exitTimeoutS: data.ExitTimeOut,
    userName: data.UserName,
  }
}

/** XML or binary. Throws PlistError where it is no whole property list. */
export function parsePlist(content: string | Buffer): PlistValue {
  const bytes = Buffer.from(content)
  const isBinary = bytes.subarray(0, 6).toString('latin1') === 'bplist'
  const text = isBinary ? '' : bytes.toString('utf8')
  // The parser reads what is cut off inside an element as if it ended there.
  if (!isBinary && !/<\/plist>\s*$/.test(text)) throw new PlistError('is truncated')
  try {
    return isBinary ? parse(new Uint8Array(bytes)) : parse(text)
  } catch (error) {
    const [why = ''] = messageOf(error).split('\n')
    throw new PlistError(`is no property list (${why.slice(0, 200)})`, { cause: error })
  }
}

/** The service of this agent in launchd. Every method that asks launchctl throws InstallationError. */
export class LaunchdService {
  readonly kind: ServiceKind
  readonly file: string
  readonly name = serviceLabel
  readonly title: string
  readonly starts: string
  readonly #host: InstallationHost
  readonly #job: LaunchctlJob

  constructor(kind: ServiceKind, host: InstallationHost) {
    const isDaemon = kind === 'launchDaemon'
    this.kind = kind
    this.file = serviceFile(kind, host)
    this.title = isDaemon ? 'LaunchDaemon' : 'LaunchAgent'
    this.starts = isDaemon ? 'with the Mac, with nobody logged in' : `when ${host.user.name} logs in at the screen`
    this.#host = host
    this.#job = new LaunchctlJob(host, isDaemon ? 'system' : `gui/${host.user.id}`, serviceLabel)
  }

  /**
   * launchd takes no file that others may write, and does not ask that they may read it. A LaunchDaemon's tells its user where the log is, and is
   * root's alone where variables stand in it.
   */
  fileMode({ environment }: Pick<ServicePlan, 'environment'>): number {
    return this.kind === 'launchDaemon' && !hasGivenVariables(environment) ? 0o644 : 0o600
  }

  async check(): Promise<void> {
    const { isRoot, user } = this.#host
    if (this.kind === 'launchDaemon' && !isRoot) {
      throw new InstallationError(
        'A LaunchDaemon is for the whole Mac, so only root may install, restart or remove it: run this again with sudo in front.',
      )
    }
    if (this.kind === 'launchAgent' && isRoot && user.id !== 0) {
      throw new InstallationError(
        `A LaunchAgent belongs to ${user.name}: run this again without sudo, or with --daemon for a LaunchDaemon.`,
      )
    }
    await this.state()
  }

  async state(): Promise<ServiceState> {
    const job = await this.#job.look()
    return { isLoaded: job !== undefined, pid: job?.pid, lastExit: job?.lastExit }
  }

  load(): Promise<void> {
    return this.#job.load(this.file)
  }

  async start(): Promise<void> {
    await ((await this.#job.look()) ? this.#job.start() : this.load())
  }

  unload(): Promise<void> {
    return this.#job.unload()
  }

  kill(): Promise<void> {
    return this.#job.kill()
  }
}
