import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { parse } from 'plist'
import { z } from 'zod'
import type { Platform, ProcessFacts } from '../../agent-core/platform/platform.ts'
import { hasCode } from '../../agent-core/util/files.ts'
import { FlagError, parseGoFlags, type FlagSpec, type FlagValue } from '../../agent-core/util/go-flags.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { formatDuration } from '../../contract/format.ts'
import type { InstallationHost } from '../installation-host.ts'
import type { LaunchdDomain } from '../service/launchd.ts'
import { serviceLabel } from '../service/service-plan.ts'

/** What becomes of a flag of LLMKube's Go agent here. */
type Fate =
  /** There is a flag of this name with this meaning. */
  | { readonly kept: true }
  /** Decided by what is found on the machine: see `plan.ts`. */
  | { readonly kept: 'planned' }
  /** Completes "--flag is left out: …". */
  | { readonly kept: false; readonly why: string }

export type GoAgentFlag = FlagSpec & Fate

const kept = { kept: true } as const
const text = { kind: 'string', default: '' } as const
const otherRuntime = { kept: false, why: 'only the runtime llama-server is built here yet' } as const
const noRelay = { kept: false, why: 'this agent publishes its servers directly, and has no ingress' } as const

/** Every flag of 0.9.19 with its default, then those of 0.10. */
export const goAgentFlags: Readonly<Record<string, GoAgentFlag>> = {
  namespace: { kind: 'string', default: 'default', ...kept },
  'model-store': { kind: 'string', default: '/tmp/llmkube-models', kept: 'planned' },
  'llama-server': { ...text, ...kept },
  'llama-server-port': { kind: 'int', default: 0, ...kept },
  runtime: { kind: 'string', default: 'llama-server', ...kept },
  'omlx-bin': { ...text, ...otherRuntime },
  'omlx-port': { kind: 'int', default: 8000, ...otherRuntime },
  'ollama-port': { kind: 'int', default: 11434, ...otherRuntime },
  'vllm-swift-bin': { ...text, ...otherRuntime },
  'mlx-server-bin': { ...text, ...otherRuntime },
  'mlx-server-port': { kind: 'int', default: 8080, ...otherRuntime },
  port: { kind: 'int', default: 9090, ...kept },
  'client-port': { kind: 'int', default: 9999, kept: false, why: 'the client proxy is not built here yet' },
  'log-level': { kind: 'string', default: 'info', ...kept },
  'host-ip': { ...text, ...kept },
  'memory-fraction': { kind: 'float', default: 0, ...kept },
  'memory-check-mode': { kind: 'string', default: 'enforce', ...kept },
  'memory-watchdog-interval': { kind: 'duration', default: 10_000, ...kept },
  'memory-pressure-warning': { kind: 'float', default: 0.2, ...kept },
  'memory-pressure-critical': { kind: 'float', default: 0.1, ...kept },
  'eviction-enabled': { kind: 'bool', default: false, ...kept },
  'max-watch-failures': {
    kind: 'int',
    default: 3,
    kept: false,
    why: 'a cluster that does not answer never ends this agent',
  },
  'inference-service-allowlist': { ...text, ...kept },
  'llama-server-startup-timeout': { kind: 'duration', default: 120_000, ...kept },
  'omlx-startup-timeout': { kind: 'duration', default: 120_000, ...otherRuntime },
  'vllm-swift-startup-timeout': { kind: 'duration', default: 120_000, ...otherRuntime },
  'mlx-server-startup-timeout': { kind: 'duration', default: 120_000, ...otherRuntime },
  'apple-power-enabled': { kind: 'bool', default: false, ...kept },
  'apple-power-interval': { kind: 'duration', default: 1_000, ...kept },
  'powermetrics-bin': { kind: 'string', default: '/usr/bin/powermetrics', ...kept },
  version: { kind: 'bool', default: false, kept: false, why: 'it only prints the version' },
  kubeconfig: { ...text, ...kept },
  'ingress-port': { kind: 'int', default: 9443, ...noRelay },
  'state-dir': { ...text, kept: false, why: 'that folder holds the identity of an ingress, which this agent has not' },
  'legacy-direct-endpoints': { kind: 'bool', default: false, ...noRelay },
  'allowed-model-roots': { ...text, ...kept },
  'allowed-download-hosts': { ...text, ...kept },
  'allow-unsafe-extra-args': { kind: 'bool', default: false, ...kept },
  'kube-context': { ...text, ...kept },
  'tensorfold-bin': { ...text, ...otherRuntime },
  'tensorfold-startup-timeout': { kind: 'duration', default: 600_000, ...otherRuntime },
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
      `${JSON.stringify(joined)} stands in one <string> and has to be two: the flag in one, its value in the next.`,
    )
  }
  const { values, given, rest } = parseGoFlags(goAgentFlags, args)
  return { values, given, ignored: rest }
}

export const textOf = ({ values }: GoAgentCommand, flag: string): string => String(values.get(flag) ?? '')

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
        `${JSON.stringify(ignored.join(' '))} is left out: the Go agent ignored it, because it stands behind a word that is not a flag.`,
      ]
    : []),
]

const word = z.string().max(4_096)
const plist = z.looseObject({
  Label: z.string().min(1).max(255),
  Program: word.optional(),
  ProgramArguments: z.array(word).max(500).optional(),
  EnvironmentVariables: z.record(z.string().max(256), word).default({}),
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
  readonly logFile: string | undefined
}

export type JobReading =
  | { readonly ok: true; readonly job: GoAgentJob }
  /** One sentence about a file that may be one. */
  | { readonly ok: false; readonly message: string }

export const goAgentProgram = 'llmkube-metal-agent'

const maxPlistBytes = 256 * 1_024

/** The one that is named, or every one that launchd would load. */
export async function findGoAgentJobs(host: InstallationHost, file: string | undefined): Promise<JobReading[]> {
  if (file !== undefined) return [await readJob(file, domainOf(file, host))]
  const readings = await Promise.all(
    launchdFolders(host).map(async ({ folder, domain }) => {
      const names = (await namesIn(folder)).filter((name) => name.endsWith('.plist'))
      const inFolder = await Promise.all(names.sort().map((name) => lookAt(path.join(folder, name), domain)))
      return inFolder.filter((reading) => reading !== undefined)
    }),
  )
  return readings.flat()
}

const launchdFolders = ({ user, systemRoot }: InstallationHost) => [
  { folder: path.join(user.homeDir, 'Library/LaunchAgents'), domain: `gui/${user.id}` as const },
  { folder: path.join(systemRoot, 'Library/LaunchAgents'), domain: `gui/${user.id}` as const },
  { folder: path.join(systemRoot, 'Library/LaunchDaemons'), domain: 'system' as const },
]

const domainOf = (file: string, { user }: InstallationHost): LaunchdDomain =>
  /\/LaunchDaemons\//.test(path.resolve(file)) ? 'system' : `gui/${user.id}`

/** Undefined where it has nothing to do with the Go agent. */
async function lookAt(file: string, domain: LaunchdDomain): Promise<JobReading | undefined> {
  const reading = await readJob(file, domain)
  if (!reading.ok) {
    const name = path.basename(file).toLowerCase()
    const [, ...behind] = name.split('llmkube')
    const isNamedSo = behind.join('').includes('metal-agent') && !path.basename(file).startsWith(serviceLabel)
    return isNamedSo ? reading : undefined
  }
  const { label, program } = reading.job
  const isOurs = label === serviceLabel
  return !isOurs && path.basename(program) === goAgentProgram ? reading : undefined
}

/** One plist, whatever it starts. */
export async function readJob(file: string, domain: LaunchdDomain): Promise<JobReading> {
  const refused = (why: string): JobReading => ({ ok: false, message: `${file} ${why}` })
  let content: Buffer
  try {
    content = await readFile(file)
  } catch (error) {
    return refused(`cannot be read: ${messageOf(error)}.`)
  }
  if (content.length > maxPlistBytes) return refused('is too large for a plist of launchd.')
  let value: unknown
  try {
    value = parsed(content)
  } catch (error) {
    return refused(
      `is no complete plist (${firstLine(messageOf(error))}): "plutil -lint" says where; mend it, or name another with --plist.`,
    )
  }
  const checked = plist.safeParse(value)
  if (!checked.success) {
    const [issue] = checked.error.issues
    return refused(`is not a job of launchd: ${issue?.path.join('.') || 'the plist'} ${issue?.message ?? ''}.`)
  }
  const {
    Label,
    Program,
    ProgramArguments = [],
    EnvironmentVariables,
    StandardErrorPath,
    StandardOutPath,
  } = checked.data
  const program = Program ?? ProgramArguments[0]
  if (program === undefined) return refused('names no program: ProgramArguments is empty.')
  return {
    ok: true,
    job: {
      file,
      label: Label,
      domain,
      program,
      args: ProgramArguments.slice(1),
      environment: EnvironmentVariables,
      logFile: StandardErrorPath ?? StandardOutPath,
    },
  }
}

/** XML or binary. */
function parsed(content: Buffer): unknown {
  if (content.subarray(0, 6).toString('latin1') === 'bplist') return parse(new Uint8Array(content))
  const text = content.toString('utf8')
  // The parser reads what is cut off inside an element as if it ended there.
  if (!/<\/plist>\s*$/.test(text)) throw new Error('it has no end')
  return parse(text)
}

const firstLine = (text: string): string => text.split('\n')[0]?.slice(0, 200) ?? ''

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if (hasCode(error, 'ENOENT') || hasCode(error, 'EACCES')) return []
    throw error
  }
}

/** A model server that a Go agent started: it stays in that agent's process group. */
export interface GoServer extends Pick<ProcessFacts, 'pid' | 'startTime'> {
  readonly port: number
}

export interface GoAgentProcess extends Pick<
  ProcessFacts,
  'pid' | 'startTime' | 'groupId' | 'commandLine' | 'suspended'
> {
  readonly servers: readonly GoServer[]
}

/** Every Go agent of this user that runs, and what it started. `ours` is the pid of our own agent. */
export async function findGoAgents(
  platform: Pick<Platform, 'processes'>,
  job: Pick<GoAgentJob, 'program'> | undefined,
  ours: number | undefined,
): Promise<GoAgentProcess[]> {
  const processes = await platform.processes()
  const agents = processes.filter(({ pid, commandLine }) => pid !== ours && isGoAgent(commandLine, job))
  const pids = new Set(agents.map(({ pid }) => pid))
  return agents.map(({ pid, startTime, groupId, commandLine, suspended }) => ({
    pid,
    startTime,
    groupId,
    commandLine,
    suspended,
    servers: processes.flatMap((process) => {
      const port = portOf(process.commandLine)
      const isServer = process.groupId === groupId && !pids.has(process.pid) && port !== undefined
      return isServer ? [{ pid: process.pid, startTime: process.startTime, port }] : []
    }),
  }))
}

function isGoAgent(commandLine: string, job: Pick<GoAgentJob, 'program'> | undefined): boolean {
  if (job !== undefined && (commandLine === job.program || commandLine.startsWith(`${job.program} `))) return true
  const [program = '', first = '-'] = commandLine.split(' ')
  // Our own command of that name has verbs; the Go agent has flags alone.
  return path.basename(program) === goAgentProgram && first.startsWith('-')
}

/** The words behind the program; one with a space in it counts as two, since ps does not tell them apart. */
export const argsOf = ({ commandLine }: GoAgentProcess): string[] =>
  commandLine
    .split(' ')
    .slice(1)
    .filter((word) => word !== '')

const portOf = (commandLine: string): number | undefined => {
  const at = commandLine.indexOf(' --model ')
  const ports = at === -1 ? [] : [...commandLine.slice(at).matchAll(/ --port (\d{1,5})(?= |$)/g)]
  const port = ports.at(-1)?.[1]
  return port === undefined ? undefined : Number(port)
}
