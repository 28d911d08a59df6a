import path from 'node:path'
import { InstallationError, type InstallationHost } from '../installation-host.ts'

/** LLMKube's guide has people look for a job whose label contains "llmkube". */
export const serviceLabel = 'dev.metalbar.llmkube-metal-agent'

/** Tells the agent that launchd runs it, which starts it again where it ends with an error. */
export const serviceVariable = 'METAL_AGENT_SERVICE'

/** How launchd keeps the agent; a LaunchDaemon runs with nobody logged in. */
export type ServiceKind = 'launchAgent' | 'launchDaemon'

/** The file that a service consists of. */
export const serviceFile = (kind: ServiceKind, { user, systemRoot }: Pick<InstallationHost, 'user' | 'systemRoot'>) =>
  kind === 'launchAgent'
    ? path.join(user.homeDir, 'Library/LaunchAgents', `${serviceLabel}.plist`)
    : path.join(systemRoot, 'Library/LaunchDaemons', `${serviceLabel}.plist`)

export const stateDirOf = ({ flags }: Pick<ServicePlan, 'flags'>): string => flags.get('state-dir') ?? ''

/** The folder of the service's own output, which no reboot or clean-up empties. */
export const serviceLogFolder = (homeDir: string): string => path.join(homeDir, 'Library/Logs/Metalbar')

/** What a service runs and how; what launchd is told besides is the same for everybody. */
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

/** Refuses control characters, which a plist cannot carry. Throws InstallationError. */
export function refuseUnusableTexts(plan: ServicePlan): void {
  const { program, flags, environment, workingDirectory, errorFile } = plan
  const texts = [...program, ...flags.values(), ...Object.values(environment), workingDirectory, errorFile]
  // oxlint-disable-next-line no-control-regex -- it is what is looked for
  const found = texts.find((text) => /[\u0000-\u001f\u007f]/.test(text))
  if (found === undefined) return
  throw new InstallationError(
    `${JSON.stringify(found)} has a line break or another control character in it, which a service cannot have: choose another.`,
  )
}

/** Folders of Homebrew and of a person, which launchd leaves out of PATH: credential plugins are found there. */
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

/** What a plist of launchd says, read back. */
export interface PlistContent {
  readonly label: string
  readonly words: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  readonly workingDirectory: string | undefined
  readonly errorFile: string | undefined
  readonly exitTimeoutS: number | undefined
  readonly userName: string | undefined
}

/** Completes "<file> …": why a file cannot be read as a plist of launchd. */
export class PlistError extends Error {
  override readonly name = 'PlistError'
}

/** How a process ended. */
export type LastExit = { readonly code: number } | { readonly signal: string }

/** What launchd knows about the service. */
export interface ServiceState {
  /** It is started with the Mac or the login, and again where it ends with an error. */
  readonly isLoaded: boolean
  /** Undefined where it does not run. */
  readonly pid: number | undefined
  /** Undefined where it has not ended yet. */
  readonly lastExit: LastExit | undefined
}
