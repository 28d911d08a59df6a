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
import { shellCommand } from '../../contract/shell.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'
import { InstallationError, type InstallationHost } from '../installation-host.ts'
import { LaunchctlJob } from '../service/launchd.ts'
import { clusterSilence, lookAtCluster, type ClusterLook } from './cluster-look.ts'
import {
  argsOf,
  findGoAgentJobs,
  findGoAgents,
  readGoAgentCommand,
  readJob,
  textOf,
  type GoAgentCommand,
  type GoAgentJob,
  type GoAgentProcess,
} from './go-agent.ts'
import { planMigration, type MigrationPlan } from './plan.ts'
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
  /** Absent = whatever launchd would start. */
  readonly plist: string | undefined
  /** What our agent is to be started with besides; the last one given wins. */
  readonly ownFlags: readonly string[]
  readonly stopsOthers: boolean
  /** A migration that was begun before. */
  readonly begun: Migration | undefined
}

export interface Inspection {
  readonly job: GoAgentJob | undefined
  readonly agents: readonly GoAgentProcess[]
  /** Other Go agents of this user, which are ended first. */
  readonly others: readonly GoAgentProcess[]
  readonly command: GoAgentCommand
  readonly api: KubeApi | undefined
  readonly plan: MigrationPlan
}

/** Looks at the machine and the cluster, and changes nothing. */
export async function inspect(world: MigrationWorld, options: InspectOptions): Promise<Inspection> {
  const { job, problems: jobProblems } = await chooseJob(world, options)
  const running = await findGoAgents(world.platform, job, await ownPid(world.stateDir))
  const { agents, others, problems: agentProblems } = await chooseAgents(world, running, job, options.stopsOthers)
  const { command, problems: flagProblems } = readCommand(job, agents[0])
  const nothing = job === undefined && agents.length === 0 && jobProblems.length === 0
  const version = job === undefined ? undefined : await versionOf(job)
  const context = await openCluster(world, command, job)
  const cluster = typeof context === 'string' ? context : await clusterLook(world, command, context)
  const chosen = storeGiven(options.ownFlags)
  const store = await lookAtStore(textOf(command, 'model-store'), chosen ?? world.ownStore, chosen !== undefined)
  const plan = planMigration({
    job,
    command,
    agents,
    store,
    cluster,
    version,
    totalBytes: (await world.platform.memory()).totalBytes,
    ownLog: world.ownLog,
    ownAddress: typeof context === 'string' ? undefined : await ownAddress(world, context),
    ownFlags: options.ownFlags,
    problems: [
      ...(nothing ? [nothingFound] : []),
      ...jobProblems,
      ...agentProblems,
      ...flagProblems,
      ...relayProblem(cluster, version, command),
      ...(await rightsProblems(world, job)),
      ...(await ownAgentProblem(world, options.begun)),
    ],
  })
  const refused = world.checkFlags(plan.flags)
  return {
    job,
    agents,
    others,
    command,
    api: typeof context === 'string' ? undefined : new KubeApi(context),
    plan: refused === undefined ? plan : { ...plan, problems: [...plan.problems, refused] },
  }
}

const nothingFound =
  'There is no Go agent here: no plist of it in ~/Library/LaunchAgents, /Library/LaunchAgents and /Library/LaunchDaemons, and no process. Name a plist that lies elsewhere with --plist; without one, install this agent with metal-agent install.'

async function chooseJob(
  { host }: MigrationWorld,
  { plist, begun }: InspectOptions,
): Promise<{ readonly job: GoAgentJob | undefined; readonly problems: readonly string[] }> {
  if (begun?.job) {
    const { file, kept, domain } = begun.job
    const isGone = (await readIfThere(file)) === undefined
    const reading = await readJob(isGone ? kept : file, domain === 'system' ? 'system' : `gui/${host.user.id}`)
    return reading.ok
      ? { job: { ...reading.job, file }, problems: [] }
      : { job: undefined, problems: [reading.message] }
  }
  const readings = await findGoAgentJobs(host, plist)
  const jobs = readings.flatMap((reading) => (reading.ok ? [reading.job] : []))
  const unread = readings.flatMap((reading) => (reading.ok ? [] : [reading.message]))
  if (jobs.length > 1) {
    const files = jobs.map(({ file }) => file).join(' and ')
    return {
      job: undefined,
      problems: [`There is more than one job of a Go agent, ${files}: choose one with --plist.`, ...unread],
    }
  }
  return { job: jobs[0], problems: unread }
}

async function chooseAgents(
  { host }: MigrationWorld,
  running: readonly GoAgentProcess[],
  job: GoAgentJob | undefined,
  stopsOthers: boolean,
) {
  if (running.length <= 1) return { agents: running, others: [], problems: [] }
  const loaded = job && (await new LaunchctlJob(host, job.domain, job.label).look().catch(noLaunchd))
  const first = running.find(({ pid }) => pid === loaded?.pid) ?? running[0]
  const others = running.filter((one) => one !== first)
  const named = others.map(({ pid, commandLine }) => `process ${pid} (${commandLine.slice(0, 120)})`).join(' and ')
  const problem = `${running.length} Go agents run; process ${first?.pid ?? 0} would be moved. End ${named} with "kill ${others.map(({ pid }) => pid).join(' ')}", or have it done with --stop-others.`
  return { agents: first ? [first] : [], others, problems: stopsOthers ? [] : [problem] }
}

/** Where there is no launchctl nothing is loaded. */
function noLaunchd(error: unknown): undefined {
  if (!(error instanceof InstallationError)) throw error
}

function readCommand(job: GoAgentJob | undefined, agent: GoAgentProcess | undefined) {
  const args = job?.args ?? (agent ? argsOf(agent) : [])
  try {
    return { command: readGoAgentCommand(args), problems: [] }
  } catch (error) {
    if (!(error instanceof FlagError)) throw error
    const where = job?.file ?? `The command line of process ${agent?.pid ?? 0}`
    return {
      command: readGoAgentCommand([]),
      problems: [`${where} has a flag that the Go agent does not take either. ${error.message}`],
    }
  }
}

async function openCluster(
  { host }: MigrationWorld,
  command: GoAgentCommand,
  job: GoAgentJob | undefined,
): Promise<PinnedContext | string> {
  const env = { ...host.env, ...job?.environment }
  const file = textOf(command, 'kubeconfig') || undefined
  try {
    return await PinnedContext.load({ file, context: textOf(command, 'kube-context') || undefined, env })
  } catch (error) {
    return clusterSilence(error)
  }
}

async function clusterLook(
  { platform }: MigrationWorld,
  command: GoAgentCommand,
  context: PinnedContext,
): Promise<ClusterLook | string> {
  const interfaces = platform.interfaces().map(({ address }) => address)
  const query = {
    namespace: textOf(command, 'namespace') || undefined,
    allowlist: textOf(command, 'inference-service-allowlist')
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== ''),
    ownAddresses: new Set([...interfaces, textOf(command, 'host-ip')].filter((address) => address !== '')),
  }
  try {
    return await lookAtCluster(new KubeApi(context), query, AbortSignal.timeout(clusterLimitMs))
  } catch (error) {
    return clusterSilence(error)
  }
}

async function ownAddress({ platform }: MigrationWorld, { server }: PinnedContext): Promise<string | undefined> {
  const chosen = await hostAddress({ explicit: undefined, server, interfaces: () => platform.interfaces() })
  return chosen.kind === 'chosen' ? chosen.address : undefined
}

const goVersion = /\bv?(\d+)\.(\d+)\.(\d+)/

async function versionOf({ program }: GoAgentJob): Promise<string | undefined> {
  try {
    const { stdout } = await askProgram({ command: program, args: ['--version'], env: {}, timeLimitMs: versionLimitMs })
    return goVersion.exec(stdout)?.[0]
  } catch (error) {
    if (error instanceof ProgramError) return undefined
    throw error
  }
}

function relayProblem(cluster: ClusterLook | string, version: string | undefined, command: GoAgentCommand): string[] {
  const versions = [
    ...(version === undefined ? [] : [version]),
    ...(typeof cluster === 'string' ? [] : cluster.agentVersions),
  ]
  const isNew = versions.some((one) => {
    const [, major = '0', minor = '0'] = goVersion.exec(one) ?? []
    return Number(major) > 0 || Number(minor) >= 10
  })
  const isRelay = typeof cluster !== 'string' && cluster.isRelay
  if (!isRelay && !(isNew && command.values.get('legacy-direct-endpoints') !== true)) return []
  return [
    "This Go agent runs in LLMKube 0.10's relay mode, which cannot be taken over yet: that comes with a later version, and nothing was touched. Started with --legacy-direct-endpoints it can be moved.",
  ]
}

async function rightsProblems({ host }: MigrationWorld, job: GoAgentJob | undefined): Promise<string[]> {
  if (job === undefined) return []
  if (job.domain === 'system') {
    const commands = [
      ['launchctl', 'bootout', `system/${job.label}`],
      ['mv', job.file, `${job.file}.kept`],
      ['metal-agent', 'install', '--daemon', '--'],
    ].map((words) => shellCommand(['sudo', ...words]))
    return [
      `${job.file} is a LaunchDaemon, which is not moved from here yet. By hand, with about three minutes in which nothing serves: ${commands.join('; ')} and the flags above, with --model-store for the folder of its models.`,
    ]
  }
  const folder = path.dirname(job.file)
  const isWritable = await access(folder, constants.W_OK).then(
    () => true,
    () => false,
  )
  return isWritable
    ? []
    : [
        `${folder} may not be written by this user, so the plist could not be taken out of it: move it first, with ${shellCommand(['sudo', 'mv', job.file, path.join(host.user.homeDir, 'Library/LaunchAgents/')])}.`,
      ]
}

async function ownAgentProblem(
  { ownAgent, stateDir }: MigrationWorld,
  begun: Migration | undefined,
): Promise<string[]> {
  if (begun !== undefined || (await ownAgent()) === undefined) return []
  return [
    `An agent of Metalbar runs on ${stateDir} already: end it with metal-agent shutdown, or with metal-agent uninstall where it is a service.`,
  ]
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
