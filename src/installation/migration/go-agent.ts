import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import type { Platform, ProcessFacts } from '../../agent-core/platform/platform.ts'
import { expandHome, hasCode } from '../../agent-core/util/files.ts'
import { FlagError, parseGoFlags, type FlagSpec, type FlagValue } from '../../agent-core/util/go-flags.ts'
import { formatDuration } from '../../contract/format.ts'
import { attempt, InstallationError, type InstallationHost } from '../installation-host.ts'
import { parsePlist, type LaunchdDomain } from '../service/launchd.ts'
import { PlistError, serviceLabel } from '../service/service-plan.ts'

/** What becomes of a flag of LLMKube's Go agent here. */
type Fate =
  /** There is a flag of this name with this meaning. */
  | { readonly kept: true }
  /** Decided by what is found on the machine: see `migrate.ts`. */
  | { readonly kept: 'planned' }
  /** Completes "--flag is left out: …". */
  | { readonly kept: false; readonly why: string }

export type GoAgentFlag = FlagSpec & Fate

const kept = { kept: true } as const
const text = { kind: 'string', default: '' } as const
const oneTimeout = { kept: false, why: 'one setting is for all runtimes here, --startup-timeout' } as const

/** Every flag of 0.9.19 with its default, then those of 0.10. */
export const goAgentFlags: Readonly<Record<string, GoAgentFlag>> = {
  namespace: { kind: 'string', default: 'default', ...kept },
  'model-store': { kind: 'string', default: '/tmp/llmkube-models', kept: 'planned' },
  'llama-server': { ...text, ...kept },
  'llama-server-port': { kind: 'int', default: 0, ...kept },
  runtime: { kind: 'string', default: 'llama-server', ...kept },
  'omlx-bin': { ...text, ...kept },
  'omlx-port': { kind: 'int', default: 8000, ...kept },
  'ollama-port': { kind: 'int', default: 11434, ...kept },
  'vllm-swift-bin': { ...text, ...kept },
  'mlx-server-bin': { ...text, ...kept },
  'mlx-server-port': {
    kind: 'int',
    default: 8080,
    kept: false,
    why: 'the first mlx-server gets 8080 if it is free, and --port-range says otherwise',
  },
  port: { kind: 'int', default: 9090, ...kept },
  'client-port': { kind: 'int', default: 9999, ...kept },
  'log-level': { kind: 'string', default: 'info', ...kept },
  'host-ip': { ...text, ...kept },
  'memory-fraction': { kind: 'float', default: 0, ...kept },
  'memory-check-mode': { kind: 'string', default: 'enforce', ...kept },
  'memory-watchdog-interval': { kind: 'duration', default: 10_000, kept: false, why: 'memory is checked every 10 s' },
  'memory-pressure-warning': { kind: 'float', default: 0.2, kept: false, why: 'memory is short below 20 %' },
  'memory-pressure-critical': {
    kind: 'float',
    default: 0.1,
    kept: false,
    why: 'memory is critically short below 10 %',
  },
  'eviction-enabled': { kind: 'bool', default: false, ...kept },
  'max-watch-failures': {
    kind: 'int',
    default: 3,
    kept: false,
    why: 'a cluster that does not answer never ends this agent',
  },
  'inference-service-allowlist': { ...text, ...kept },
  'llama-server-startup-timeout': { kind: 'duration', default: 120_000, ...kept },
  'omlx-startup-timeout': { kind: 'duration', default: 120_000, ...oneTimeout },
  'vllm-swift-startup-timeout': { kind: 'duration', default: 120_000, ...oneTimeout },
  'mlx-server-startup-timeout': { kind: 'duration', default: 120_000, ...oneTimeout },
  'apple-power-enabled': { kind: 'bool', default: false, ...kept },
  'apple-power-interval': { kind: 'duration', default: 1_000, kept: false, why: 'power is measured every second' },
  'powermetrics-bin': {
    kind: 'string',
    default: '/usr/bin/powermetrics',
    kept: false,
    why: 'the sudo rule names /usr/bin/powermetrics, and no other is run',
  },
  version: { kind: 'bool', default: false, kept: false, why: 'it only prints the version' },
  kubeconfig: { ...text, ...kept },
  'ingress-port': { kind: 'int', default: 9443, ...kept },
  'state-dir': {
    ...text,
    kept: false,
    why: 'this agent keeps state of its own, and relays learn its key from the cluster',
  },
  'legacy-direct-endpoints': { kind: 'bool', default: false, ...kept },
  'allowed-model-roots': { ...text, ...kept },
  'allowed-download-hosts': { ...text, ...kept },
  'allow-unsafe-extra-args': { kind: 'bool', default: false, ...kept },
  'kube-context': { ...text, ...kept },
  'tensorfold-bin': { ...text, ...kept },
  'tensorfold-startup-timeout': { kind: 'duration', default: 600_000, ...oneTimeout },
}

/** The command line of a Go agent. */
export interface GoAgentCommand {
  readonly values: ReadonlyMap<string, FlagValue>
  readonly given: ReadonlySet<string>
  /** The Go agent ignores everything from the first word on that is no flag. */
  readonly ignored: readonly string[]
}

/** Throws FlagError, whose message is one sentence. */
export function readGoAgentCommand(args: readonly string[]): GoAgentCommand {
  const joined = args.find((word) => /^--?[\w-]+\s+\S/.test(word))
  if (joined !== undefined) {
    throw new FlagError(
      `${JSON.stringify(joined)} is in one <string> and must be in two: the flag in one, its value in the next.`,
    )
  }
  const { values, given, rest } = parseGoFlags(goAgentFlags, args)
  return { values, given, ignored: rest }
}

export const textOf = ({ values }: GoAgentCommand, flag: string): string => String(values.get(flag) ?? '')

const goVersion = /\bv?(\d+)\.(\d+)\.(\d+)/

/** The version in what an agent says of itself. */
export const versionIn = (said: string): string | undefined => goVersion.exec(said)?.[0]

/** Whether it is 0.10 or later, which has other defaults and a relay mode. */
export function hasRelayMode(version: string): boolean {
  const [, major = '0', minor = '0'] = goVersion.exec(version) ?? []
  return Number(major) > 0 || Number(minor) >= 10
}

/** In place of `~`, of a folder that is not absolute, and of one that is not stated, as LLMKube 0.10 has them. */
interface Homes {
  readonly homeDir: string
  readonly workingDir: string
}

const supportFolder = 'Library/Application Support/llmkube'

/** The folder of its models; since 0.10 below the home folder unless it is stated. */
export function storeOf(command: GoAgentCommand, isNew: boolean, homes: Homes): string {
  const isStated = command.given.has('model-store')
  const stated = textOf(command, 'model-store')
  if (!isNew) return stated
  return folderOf(isStated ? stated : path.join(homes.homeDir, supportFolder, 'models'), homes)
}

const folderOf = (stated: string, { homeDir, workingDir }: Homes): string =>
  path.resolve(workingDir, expandHome(stated, homeDir))

/** The value as it is written behind the flag. */
export function written(flag: string, value: FlagValue): string {
  if (goAgentFlags[flag]?.kind === 'duration') return formatDuration(Number(value))
  return String(value)
}

/** The given flags that our agent has too. */
export const keptFlags = ({ values, given }: GoAgentCommand): string[] =>
  [...given].flatMap((flag) => {
    const value = values.get(flag)
    return goAgentFlags[flag]?.kept === true && value !== undefined ? [`--${flag}=${written(flag, value)}`] : []
  })

/** One sentence for each flag that is left out. */
export const leftOut = ({ given, ignored }: GoAgentCommand): string[] => [
  ...[...given].flatMap((flag) => {
    const fate = goAgentFlags[flag]
    return fate?.kept === false ? [`--${flag} is left out: ${fate.why}.`] : []
  }),
  ...(ignored.length > 0
    ? [
        `${JSON.stringify(ignored.join(' '))} is left out: the Go agent ignored it, because it comes after a word that is not a flag.`,
      ]
    : []),
]

const word = z.string().max(4_096)
const plist = z.looseObject({
  Label: z.string().min(1).max(255),
  Program: word.optional(),
  ProgramArguments: z.array(word).max(500).optional(),
  EnvironmentVariables: z.record(z.string().max(256), word).default({}),
  WorkingDirectory: word.optional(),
  StandardErrorPath: word.optional(),
  StandardOutPath: word.optional(),
})

/** A plist that starts LLMKube's Go agent. */
export interface GoAgentJob {
  readonly file: string
  readonly label: string
  readonly domain: LaunchdDomain
  readonly program: string
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  readonly workingDir?: string | undefined
  readonly logFile: string | undefined
}

const goAgentProgram = 'llmkube-metal-agent'

const maxPlistBytes = 256 * 1_024

export interface GoAgentJobs {
  readonly jobs: readonly GoAgentJob[]
  /** One sentence about each file that may be one and cannot be understood. */
  readonly problems: readonly string[]
}

/** The one that is named, or every one that launchd would load. */
export async function findGoAgentJobs(host: InstallationHost, named: string | undefined): Promise<GoAgentJobs> {
  const files = named === undefined ? await plistsOf(host) : [named]
  const jobs: GoAgentJob[] = []
  const problems: string[] = []
  for (const file of files) {
    try {
      const job = await readJob(file, host)
      if (named !== undefined || isGoAgentJob(job)) jobs.push(job)
    } catch (error) {
      if (!(error instanceof InstallationError)) throw error
      if (named !== undefined || isNamedSo(file)) problems.push(error.message)
    }
  }
  return { jobs, problems }
}

async function plistsOf({ user, systemRoot }: InstallationHost): Promise<string[]> {
  const folders = [
    path.join(user.homeDir, 'Library/LaunchAgents'),
    path.join(systemRoot, 'Library/LaunchAgents'),
    path.join(systemRoot, 'Library/LaunchDaemons'),
  ]
  const files = folders.map(async (folder) => {
    const names = await readdir(folder).catch((error: unknown) => {
      if (hasCode(error, 'ENOENT') || hasCode(error, 'EACCES')) return []
      throw error
    })
    return names.sort().map((name) => path.join(folder, name))
  })
  return (await Promise.all(files)).flat().filter((file) => file.endsWith('.plist'))
}

const isGoAgentJob = ({ label, program }: GoAgentJob): boolean =>
  label !== serviceLabel && path.basename(program) === goAgentProgram

function isNamedSo(file: string): boolean {
  const name = path.basename(file).toLowerCase()
  const at = name.indexOf('llmkube')
  return at !== -1 && name.includes('metal-agent', at) && !path.basename(file).startsWith(serviceLabel)
}

/** One plist, whatever it starts. Throws InstallationError. */
export async function readJob(file: string, { user }: InstallationHost): Promise<GoAgentJob> {
  const content = await attempt(`${file} cannot be read`, () => readFile(file))
  if (content.length > maxPlistBytes) throw new InstallationError(`${file} is too large for a plist of launchd.`)
  const checked = plist.safeParse(parsed(file, content))
  if (!checked.success) {
    const [issue] = checked.error.issues
    const where = issue?.path.join('.') || 'the plist'
    throw new InstallationError(`${file} is not a job of launchd: ${where} ${issue?.message ?? ''}.`)
  }
  const { Label, Program, ProgramArguments = [], StandardErrorPath, StandardOutPath } = checked.data
  const program = Program ?? ProgramArguments[0]
  if (program === undefined) throw new InstallationError(`${file} names no program: ProgramArguments is empty.`)
  return {
    file,
    label: Label,
    domain: /\/LaunchDaemons\//.test(path.resolve(file)) ? 'system' : `gui/${user.id}`,
    program,
    args: ProgramArguments.slice(1),
    environment: checked.data.EnvironmentVariables,
    workingDir: checked.data.WorkingDirectory,
    logFile: StandardErrorPath ?? StandardOutPath,
  }
}

function parsed(file: string, content: Buffer): unknown {
  try {
    return parsePlist(content)
  } catch (error) {
    if (!(error instanceof PlistError)) throw error
    throw new InstallationError(
      `${file} ${error.message}: "plutil -lint" says where; fix it, or name another with --plist.`,
      { cause: error },
    )
  }
}

/** A running Go agent of this user. */
export type GoAgentProcess = Pick<ProcessFacts, 'pid' | 'commandLine'>

/** Every Go agent that runs. `programs`: what plists start, whatever it is called; `ours`: the pid of our own agent. */
export async function findGoAgents(
  platform: Pick<Platform, 'processes'>,
  programs: readonly string[],
  ours: number | undefined,
): Promise<GoAgentProcess[]> {
  const processes = await platform.processes()
  return processes.filter(({ pid, commandLine }) => pid !== ours && isGoAgent(commandLine, programs))
}

function isGoAgent(commandLine: string, programs: readonly string[]): boolean {
  if (programs.some((one) => commandLine === one || commandLine.startsWith(`${one} `))) return true
  const [program = '', first = '-'] = commandLine.split(' ')
  // Our own command of that name has verbs; the Go agent has flags alone.
  return path.basename(program) === goAgentProgram && first.startsWith('-')
}
