import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { KubeApi } from '../../agent-core/kube/kube-api.ts'
import { PinnedContext } from '../../agent-core/kube/pinned-context.ts'
import type { Platform } from '../../agent-core/platform/platform.ts'
import { hostAddress } from '../../agent-core/publishing/host-address.ts'
import { askProgram, ProgramError } from '../../agent-core/util/ask-program.ts'
import { parseJson, readIfThere } from '../../agent-core/util/files.ts'
import { FlagError } from '../../agent-core/util/go-flags.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { shellCommand } from '../../contract/shell.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'
import { InstallationError, type InstallationHost } from '../installation-host.ts'
import { LaunchctlJob } from '../service/launchd.ts'
import { identityFolder } from '../../agent-core/gateway/relay-identity.ts'
import { lookAtCluster, type ClusterLook } from './cluster.ts'
import {
  argsOf,
  findGoAgentJobs,
  findGoAgents,
  hasRelayMode,
  readGoAgentCommand,
  readJob,
  stateDirOf,
  storeOf,
  textOf,
  versionIn,
  type GoAgentCommand,
  type GoAgentJob,
  type GoAgentProcess,
} from './go-agent.ts'
import { lookAtIdentity } from './identity.ts'
import { planMigration, type Findings, type MigrationPlan } from './plan.ts'
import type { Migration } from './record.ts'
import { lookAtStore } from './store.ts'

/** The service that keeps our agent running. Every method throws InstallationError. */
export interface OwnService {
  /** Flags of the agent as `--name=value`. */
  install(flags: readonly string[]): Promise<void>
  /** Ends the agent with its servers and gives its services back. */
  uninstall(): Promise<void>
  /** Another process takes the running servers over. */
  restart(): Promise<void>
}

/** What a migration may touch. */
export interface MigrationWorld {
  readonly host: InstallationHost
  readonly platform: Pick<Platform, 'processes' | 'isRunning' | 'memory' | 'interfaces'>
  readonly service: OwnService
  readonly stateDir: string
  /** Where our agent keeps models unless told. */
  readonly ownStore: string
  readonly ownLog: string
  /** The state of our agent; undefined where none answers. */
  readonly ownAgent: () => Promise<AgentSnapshot | undefined>
  /** One sentence about flags that our agent would not start with. */
  readonly checkFlags: (flags: readonly string[]) => string | undefined
  readonly tell: (sentence: string) => void
  /** Aborted where a person gives up: what was begun is taken back. */
  readonly signal: AbortSignal
}

const clusterLimitMs = 15_000
const versionLimitMs = 5_000

export interface InspectOptions {
  /** Undefined = whatever launchd would start. */
  readonly plist: string | undefined
  /** Further flags for our agent; the last one given wins. */
  readonly ownFlags: readonly string[]
  readonly stopsOthers: boolean
  /** A migration that was begun before. */
  readonly begun: Migration | undefined
}

/** What was found, and what would be done about it. */
export interface Inspection extends MigrationPlan, Pick<Findings, 'job' | 'agent' | 'store' | 'identity'> {
  /** Other Go agents of this user, which are ended first. */
  readonly others: readonly GoAgentProcess[]
  /** Undefined where the cluster cannot be asked. */
  readonly api: KubeApi | undefined
}

/** Looks at the machine and the cluster, and changes nothing. */
export async function inspect(world: MigrationWorld, options: InspectOptions): Promise<Inspection> {
  const { host, platform, stateDir, ownStore, ownLog } = world
  const { ownFlags, stopsOthers, begun } = options
  const problems: string[] = []
  const job = await chosenJob(world, options, problems)
  const running = await findGoAgents(platform, job ? [job.program] : [], await ownPid(stateDir))
  const agent = await chosenAgent(host, running, job)
  const others = running.filter((one) => one !== agent)
  if (agent && others.length > 0 && !stopsOthers) problems.push(tooManyAgents(agent, others))
  if (!job && !agent && problems.length === 0) problems.push(nothingFound)
  const command = commandOf(job, agent, problems)
  const version = job && (await versionOf(job))
  const context = await contextOf(host, command, job)
  const isReached = typeof context !== 'string'
  const api = isReached ? new KubeApi(context) : undefined
  const cluster = isReached ? await clusterLook(platform, command, new KubeApi(context)) : context
  if (job) problems.push(...(await jobProblem(host, job)))
  if (begun === undefined && (await world.ownAgent()) !== undefined) {
    problems.push(
      `An agent of Metalbar already runs on ${stateDir}: stop it with metal-agent shutdown, or with metal-agent uninstall if it is a service.`,
    )
  }
  const chosenStore = storeGiven(ownFlags)
  const { homeDir } = host.user
  const homes = { homeDir, workingDir: job?.workingDir ?? homeDir }
  const look = typeof cluster === 'string' ? undefined : cluster
  const isNew = [version ?? '', ...(look?.agentVersions ?? [])].some(hasRelayMode)
  const goStore = storeOf(command, isNew, homes)
  const store = await lookAtStore(goStore, chosenStore ?? ownStore, chosenStore !== undefined)
  const isDirect = command.values.get('legacy-direct-endpoints') === true
  const isRelay = !isDirect && (isNew || (look?.pins.length ?? 0) > 0)
  const identity = isRelay ? await lookAtIdentity(identityFolder(stateDirOf(command, homes))) : undefined
  const ownAddress = isReached ? await addressFor(platform, context) : undefined
  const { totalBytes } = await platform.memory()
  const found = {
    ...{ job, command, agent, store, identity, cluster, version },
    ...{ totalBytes, ownLog, ownAddress, ownFlags, problems },
  }
  const plan = planMigration(found)
  const refused = world.checkFlags(plan.flags)
  const all = refused === undefined ? plan.problems : [...plan.problems, refused]
  return { ...plan, problems: all, job, agent, others, store, identity, api }
}

const nothingFound =
  'There is no Go agent here: no plist of it in ~/Library/LaunchAgents, /Library/LaunchAgents and /Library/LaunchDaemons, and no process. If its plist is elsewhere, name it with --plist; otherwise install this agent with metal-agent install.'

async function chosenJob(
  { host }: MigrationWorld,
  { plist, begun }: InspectOptions,
  problems: string[],
): Promise<GoAgentJob | undefined> {
  if (begun?.job) {
    const { file, kept } = begun.job
    const isGone = (await readIfThere(file)) === undefined
    try {
      return { ...(await readJob(isGone ? kept : file, host)), file }
    } catch (error) {
      if (!(error instanceof InstallationError)) throw error
      problems.push(error.message)
      return undefined
    }
  }
  const found = await findGoAgentJobs(host, plist)
  const [job, ...more] = found.jobs
  if (job && more.length > 0) {
    const files = found.jobs.map(({ file }) => file).join(' and ')
    problems.push(`There is more than one job of a Go agent, ${files}: choose one with --plist.`)
  }
  problems.push(...found.problems)
  return more.length === 0 ? job : undefined
}

/** The one that launchd started, or else any. */
async function chosenAgent(host: InstallationHost, running: readonly GoAgentProcess[], job: GoAgentJob | undefined) {
  if (running.length <= 1 || !job) return running[0]
  const loaded = await new LaunchctlJob(host, job.domain, job.label).look().catch((error: unknown) => {
    // Without launchctl nothing is loaded.
    if (!(error instanceof InstallationError)) throw error
  })
  return running.find(({ pid }) => pid === loaded?.pid) ?? running[0]
}

function tooManyAgents({ pid }: GoAgentProcess, others: readonly GoAgentProcess[]): string {
  const named = others.map((one) => `process ${one.pid} (${one.commandLine.slice(0, 120)})`).join(' and ')
  const pids = others.map((one) => one.pid).join(' ')
  return `${others.length + 1} Go agents run; process ${pid} would be moved. End ${named} with "kill ${pids}", or use --stop-others.`
}

function commandOf(job: GoAgentJob | undefined, agent: GoAgentProcess | undefined, problems: string[]): GoAgentCommand {
  try {
    return readGoAgentCommand(job?.args ?? (agent ? argsOf(agent) : []))
  } catch (error) {
    if (!(error instanceof FlagError)) throw error
    const where = job?.file ?? `The command line of process ${agent?.pid ?? 0}`
    problems.push(`${where} has a flag that the Go agent does not know. ${error.message}`)
    return readGoAgentCommand([])
  }
}

/** One sentence why nothing can be said of the cluster. */
const clusterSilence = (error: unknown): string =>
  `The cluster does not answer, and no service can move without it: ${messageOf(error).replace(/\.$/, '')}.`

function contextOf(
  host: InstallationHost,
  command: GoAgentCommand,
  job: GoAgentJob | undefined,
): Promise<PinnedContext | string> {
  const env = { ...host.env, ...job?.environment }
  const file = textOf(command, 'kubeconfig') || undefined
  const context = textOf(command, 'kube-context') || undefined
  return PinnedContext.load({ file, context, env }).catch(clusterSilence)
}

function clusterLook(
  platform: Pick<Platform, 'interfaces'>,
  command: GoAgentCommand,
  api: KubeApi,
): Promise<ClusterLook | string> {
  const interfaces = platform.interfaces().map(({ address }) => address)
  const allowlist = textOf(command, 'inference-service-allowlist').split(',')
  const query = {
    namespace: textOf(command, 'namespace') || undefined,
    allowlist: allowlist.map((name) => name.trim()).filter((name) => name !== ''),
    ownAddresses: new Set([...interfaces, textOf(command, 'host-ip')].filter((address) => address !== '')),
  }
  return lookAtCluster(api, query, AbortSignal.timeout(clusterLimitMs)).catch(clusterSilence)
}

/** The address that our agent would publish by itself. */
async function addressFor(platform: Pick<Platform, 'interfaces'>, { server }: PinnedContext) {
  const chosen = await hostAddress({ explicit: undefined, server, interfaces: () => platform.interfaces() })
  return chosen.kind === 'chosen' ? chosen.address : undefined
}

async function versionOf({ program }: GoAgentJob): Promise<string | undefined> {
  try {
    const { stdout } = await askProgram({ command: program, args: ['--version'], env: {}, timeLimitMs: versionLimitMs })
    return versionIn(stdout)
  } catch (error) {
    if (error instanceof ProgramError) return undefined
    throw error
  }
}

/** Why the plist could not be taken out of its place. */
async function jobProblem({ user }: InstallationHost, { domain, label, file }: GoAgentJob): Promise<string[]> {
  const sudo = (...words: string[]) => shellCommand(['sudo', ...words])
  if (domain === 'system') {
    const unload = sudo('launchctl', 'bootout', `system/${label}`)
    const replace = `${sudo('mv', file, `${file}.kept`)}; ${sudo('metal-agent', 'install', '--daemon', '--')}`
    return [
      `${file} is a LaunchDaemon, which is not moved from here yet. By hand, with about three minutes in which nothing serves: ${unload}; ${replace} and the flags above, with --model-store for the folder of its models.`,
    ]
  }
  const folder = path.dirname(file)
  const move = sudo('mv', file, path.join(user.homeDir, 'Library/LaunchAgents/'))
  return access(folder, constants.W_OK).then(
    () => [],
    () => [
      `${folder} is not writable by this user, so the plist could not be moved out of it: move it first with ${move}.`,
    ],
  )
}

const lock = z.object({ pid: z.int().positive() })

/** The process that has the lock of our state folder. */
export async function ownPid(stateDir: string): Promise<number | undefined> {
  const text = await readIfThere(path.join(stateDir, 'agent.lock'))
  return lock.safeParse(parseJson(text ?? '')).data?.pid
}

/** The value of --model-store; the last one given wins. */
function storeGiven(flags: readonly string[]): string | undefined {
  const at = flags.findLastIndex((flag) => /^--?model-store(=|$)/.test(flag))
  return at === -1 ? undefined : flags[at]?.includes('=') === true ? flags[at].replace(/^[^=]*=/, '') : flags[at + 1]
}
