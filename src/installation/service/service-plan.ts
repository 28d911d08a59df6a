import { createHash } from 'node:crypto'
import path from 'node:path'
import { shellCommand } from '../../contract/shell.ts'
import { InstallationError, type InstallationHost } from '../installation-host.ts'

/** LLMKube's guide has people look for a job whose label contains "llmkube". */
export const serviceLabel = 'dev.metalbar.llmkube-metal-agent'
export const systemdUnit = 'llmkube-metal-agent.service'

/** Tells the agent that launchd or systemd runs it, which starts it again where it ends with an error. */
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

export const stateDirOf = ({ flags }: Pick<ServicePlan, 'flags'>): string => flags.get('state-dir') ?? ''

/** The folder of the service's own output, which no reboot or clean-up empties. */
export const serviceLogFolder = (kind: ServiceKind, homeDir: string, stateDir: string): string =>
  kind === 'systemdUser' ? path.join(stateDir, 'service') : path.join(homeDir, 'Library/Logs/Metalbar')

/** What a service runs and how; what launchd and systemd are told besides is the same for everybody. */
export interface ServicePlan {
  readonly kind: ServiceKind
  /** The command without the agent's flags; the first word is an absolute path. */
  readonly program: readonly string[]
  /** Flags of the agent by name, without dashes; those of {@link ownFlags} are always there. */
  readonly flags: ReadonlyMap<string, string>
  readonly environment: Readonly<Record<string, string>>
  readonly workingDirectory: string
  /** For what the agent cannot write to its log, such as a flag that it does not understand. */
  readonly errorFile: string
  /** The time from SIGTERM to SIGKILL. */
  readonly exitTimeoutS: number
  /** The user as whom a LaunchDaemon runs the agent. */
  readonly userName?: string
}

/** Stated in every service, so that another default of a later version moves nothing. The first tells where the flags begin. */
export const ownFlags = ['state-dir', 'model-store', 'log-file'] as const

/** A crash before the cluster answers is not repeated faster. */
export const restartDelayS = 10
/** A server has a file for each part of its model, and a connection for each request. */
export const openFiles = 65_536
export const ownerOnly = 0o077

/** Withdrawing, stopping and saying goodbye take no longer beside the drain. */
const shutdownMarginS = 35
/** A person may set a longer drain while the agent runs; up to this one the file of the service stays as it is. */
const leastDrainS = 300

export const exitTimeoutS = (drainLimitMs: number): number =>
  Math.max(leastDrainS, Math.ceil(drainLimitMs / 1000)) + shutdownMarginS

/** The whole command line. */
export const commandLine = ({ program, flags }: Pick<ServicePlan, 'program' | 'flags'>): string[] => [
  ...program,
  ...[...flags].map(([name, value]) => `--${name}=${value}`),
]

/** Undefined where this is no command line of ours. */
export function splitCommandLine(
  words: readonly string[],
): { readonly program: string[]; readonly flags: Map<string, string> } | undefined {
  const first = words.findIndex((word) => word.startsWith(`--${ownFlags[0]}=`))
  if (first < 1) return undefined
  const flags = new Map<string, string>()
  for (const word of words.slice(first)) {
    const [, name, value] = /^--([^=]+)=([^]*)$/.exec(word) ?? []
    if (name === undefined || value === undefined) return undefined
    flags.set(name, value)
  }
  return { program: words.slice(0, first), flags }
}

/** Refuses control characters, which neither format can carry, and paths with which systemd runs no program. Throws InstallationError. */
export function refuseUnusableTexts(plan: ServicePlan): void {
  const { kind, program, flags, environment, workingDirectory, errorFile } = plan
  const texts = [...program, ...flags.values(), ...Object.values(environment), workingDirectory, errorFile]
  // oxlint-disable-next-line no-control-regex -- it is what is looked for
  const found = texts.find((text) => /[\u0000-\u001f\u007f]/.test(text))
  const [executable = ''] = program
  if (kind === 'systemdUser' && /["'\\]/.test(executable)) {
    throw new InstallationError(
      `systemd runs no program with a quotation mark or a backslash in its path, as ${executable} has: choose another folder, such as by --state-dir.`,
    )
  }
  if (found === undefined) return
  throw new InstallationError(
    `${JSON.stringify(found)} has a line break or another control character in it, which a service cannot have: choose another.`,
  )
}

/** Folders of Homebrew and of a person, which launchd and systemd leave out of PATH: credential plugins are found there. */
const programFolders = ['/opt/homebrew/bin', '/usr/local/bin', '/usr/bin', '/bin', '/usr/sbin', '/sbin'] as const

/** Variables of the shell that decide which cluster, models and proxies the agent has. */
const taken = [
  ...['KUBECONFIG', 'XDG_CONFIG_HOME', 'XDG_CACHE_HOME', 'XDG_DATA_HOME', 'XDG_STATE_HOME'],
  ...['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy'],
  ...['SSL_CERT_FILE', 'NODE_EXTRA_CA_CERTS', 'HF_HOME', 'HF_ENDPOINT', 'HF_TOKEN_PATH', 'LLAMA_CACHE'],
] as const

/** Secrets, which stand in no file that a service is made of. */
const secrets = ['HF_TOKEN', 'HUGGING_FACE_HUB_TOKEN', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN'] as const

export interface ServiceEnvironment {
  readonly variables: Readonly<Record<string, string>>
  /** One sentence for each variable of the shell that the agent would read, and that is not taken. */
  readonly leftOut: readonly string[]
}

/** The variables that the agent gets from the shell in which it is installed; those of `stated` win. */
export function serviceEnvironment(
  kind: ServiceKind,
  { env, user }: Pick<InstallationHost, 'env' | 'user'>,
  stated: Readonly<Record<string, string>> = {},
): ServiceEnvironment {
  const given = taken.flatMap((name) => {
    const value = env[name]
    return value === undefined || value === '' ? [] : [[name, value] as const]
  })
  const plain = given.filter(([, value]) => !hasPassword(value))
  const leftOut = [
    ...given.filter(([, value]) => hasPassword(value)).map(([name]) => `${name} has a password in it`),
    ...secrets.filter((name) => (env[name] ?? '') !== '').map((name) => `${name} is a secret`),
  ].filter((sentence) => stated[sentence.split(' ')[0] ?? ''] === undefined)
  return {
    variables: {
      HOME: user.homeDir,
      // launchd states none for a LaunchDaemon, and tools of a kubeconfig ask for it.
      ...(kind === 'launchDaemon' && { USER: user.name, LOGNAME: user.name }),
      PATH: programFolders.join(path.delimiter),
      ...Object.fromEntries(plain),
      ...stated,
      [serviceVariable]: '1',
    },
    leftOut: leftOut.map(
      (why) =>
        `${why}, so the service does not get it: give the agent a file instead (--hub-token-file), or set it with --env if a file of yours may hold it.`,
    ),
  }
}

/** Whether a person, or the shell of the installation, gave it variables beside those that every service has; they may be secrets. */
export const hasGivenVariables = (environment: Readonly<Record<string, string>>): boolean =>
  Object.keys(environment).some((name) => !['HOME', 'USER', 'LOGNAME', 'PATH', serviceVariable].includes(name))

/** Such as `http://user:password@proxy:3128`. */
const hasPassword = (text: string): boolean => /\/\/[^/@\s:]*:[^/@\s]*@/.test(text)

/** What a file of launchd or systemd says, read back. */
export interface UnitContent {
  /** The label of launchd; the name of the file is all that systemd has. */
  readonly label?: string
  readonly words: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  readonly workingDirectory: string | undefined
  readonly errorFile: string | undefined
  readonly exitTimeoutS: number | undefined
  readonly userName?: string | undefined
  /** Every value by its path, so that two files can be compared whatever their format. */
  readonly values: ReadonlyMap<string, string>
}

/** One sentence fragment: why a file cannot be read as one of launchd or systemd; completes "<file> …". */
export class UnitTextError extends Error {
  override readonly name = 'UnitTextError'
}

const advice = 'Written by metal-agent install; metal-agent service set changes it.'
const marker = /^(?:# |<!-- )Written by metal-agent install; .* sha256:([0-9a-f]{64})(?: -->)?$/

/** The text with a line of comment that tells whether somebody changed it since. It stands behind the first `after` lines. */
export function marked(text: string, after: number, comment: readonly [begin: string, end: string]): string {
  const lines = text.split('\n')
  lines.splice(after, 0, `${comment[0]}${advice} sha256:${digest(text)}${comment[1]}`)
  return lines.join('\n')
}

/** Whether the text is as {@link marked} left it. */
export function isUntouched(text: string): boolean {
  const lines = text.split('\n')
  const at = lines.findIndex((line) => marker.test(line))
  const [, stated] = marker.exec(lines[at] ?? '') ?? []
  return stated !== undefined && digest(lines.toSpliced(at, 1).join('\n')) === stated
}

/** Whether {@link marked} wrote it, whatever became of it since. */
export const bearsMark = (text: string): boolean => text.split('\n').some((line) => marker.test(line))

/** The values with the command line taken apart, so that a person sees which flag is another. */
export function byFlag(
  values: ReadonlyMap<string, string>,
  key: string,
  words: readonly string[],
): Map<string, string> {
  const split = splitCommandLine(words)
  const rest = [...values].filter(([name]) => name !== key)
  if (!split) return new Map([[key, words.join(' ')], ...rest])
  const flags = [...split.flags].map(([name, value]) => [`--${name}`, value] as const)
  return new Map([['command', split.program.join(' ')], ...flags, ...rest])
}

const digest = (text: string): string => createHash('sha256').update(text).digest('hex')

/** Keys of variables of the environment, whose values may be secrets and are shown nowhere. */
const ofVariable = /^Environment(?:Variables)?\./

/** One line for each value that differs, as "key: before → after". */
export function differences(before: UnitContent['values'], after: UnitContent['values']): string[] {
  const keys = new Set([...before.keys(), ...after.keys()])
  return [...keys].flatMap((key) => {
    const [was, is] = [before.get(key), after.get(key)]
    if (was === is) return []
    if (ofVariable.test(key)) {
      return [`${key}: ${was === undefined ? 'is set' : is === undefined ? 'is no longer set' : 'has another value'}`]
    }
    return [`${key}: ${was ?? '(absent)'} → ${is ?? '(absent)'}`]
  })
}

/** How a process ended. */
export type LastExit = { readonly code: number } | { readonly signal: string }

/** What launchd or systemd knows about the service. */
export interface ServiceState {
  /** It is started with the machine or the login, and again where it ends with an error. */
  readonly isLoaded: boolean
  /** Undefined where it does not run. */
  readonly pid: number | undefined
  /** Undefined where it has not ended yet; systemd forgets it as soon as the next one runs. */
  readonly lastExit: LastExit | undefined
  /** How often it was started again after an error; launchd does not say. */
  readonly restarts?: number
}

/** launchd or systemd, as far as the service needs them. All but the texts throw InstallationError. */
export interface ServiceManager {
  readonly kind: ServiceKind
  readonly file: string
  /** The label of launchd, or the name of the unit. */
  readonly name: string
  readonly title: string
  /** Completes "The service starts …". */
  readonly starts: string
  text(plan: ServicePlan): string
  /** Who may read the file of this service. */
  fileMode(plan: Pick<ServicePlan, 'environment'>): number
  /** Throws UnitTextError. */
  read(text: string): UnitContent
  /** Whether the manager can be asked at all, and this process may change what it runs. */
  check(): Promise<void>
  state(): Promise<ServiceState>
  /** Takes the file as it is now, and starts the service. */
  load(): Promise<void>
  /** Starts the service of the file that was taken last. */
  start(): Promise<void>
  /** Begins to end what runs, in good order, and forgets the file; `forGood`: it is no longer started with the machine. */
  unload(how: { readonly forGood: boolean }): Promise<void>
  /** Ends the agent alone, at once. */
  kill(): Promise<void>
  /** Called after the file is gone: the manager no longer lists the service. */
  forget(): Promise<void>
}
