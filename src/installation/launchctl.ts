import { setTimeout as delay } from 'node:timers/promises'
import { askSystem, InstallationError, type InstallationHost, type SystemAnswer } from './installation-host.ts'

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

export type LastExit = { readonly code: number } | { readonly signal: string }

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
