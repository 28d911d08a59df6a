import { constants } from 'node:fs'
import { access, readdir, rename } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { KubeApi } from '../../agent-core/kube/kube-api.ts'
import { PinnedContext } from '../../agent-core/kube/pinned-context.ts'
import { parseEndpointSlice, readable, resources } from '../../agent-core/kube/resources.ts'
import type { Platform } from '../../agent-core/platform/platform.ts'
import { annotations, labels, managedBy, publishedOf } from '../../agent-core/publishing/objects.ts'
import { isWiped } from '../../agent-core/models/store/watch.ts'
import { askProgram, ProgramError } from '../../agent-core/util/ask-program.ts'
import { hasCode } from '../../agent-core/util/files.ts'
import { FlagError } from '../../agent-core/util/go-flags.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { shellCommand } from '../../contract/shell.ts'
import { lookAt } from '../files.ts'
import { attempt, InstallationError, type InstallationHost } from '../installation-host.ts'
import { LaunchctlJob } from '../service/launchd.ts'
import {
  findGoAgentJobs,
  findGoAgents,
  hasRelayMode,
  keptFlags,
  leftOut,
  readGoAgentCommand,
  readJob,
  storeOf,
  textOf,
  versionIn,
  type GoAgentCommand,
  type GoAgentJob,
} from './go-agent.ts'

/** The service that keeps our agent running. Every method throws InstallationError. */
export interface OwnService {
  /** Flags of the agent as `--name=value`. */
  install(flags: readonly string[]): Promise<void>
  /** Ends the agent with its servers and gives its services back. */
  uninstall(): Promise<void>
}

export interface MigrationWorld {
  readonly host: InstallationHost
  readonly platform: Pick<Platform, 'processes' | 'interfaces'>
  readonly service: OwnService
  /** One sentence about flags that our agent would not start with. */
  readonly checkFlags: (flags: readonly string[]) => string | undefined
  readonly tell: (sentence: string) => void
}

/** What would be done; nothing was changed yet. */
export interface MigrationPlan {
  /** Undefined where there is none, or more than one. */
  readonly job: GoAgentJob | undefined
  readonly command: GoAgentCommand
  /** Flags of our agent. */
  readonly flags: readonly string[]
  /** One sentence for each flag or variable that is left out, and why. */
  readonly leftOut: readonly string[]
  /** Nothing is begun while there is one. */
  readonly problems: readonly string[]
}

export interface PlanOptions {
  /** Undefined = whatever launchd would start. */
  readonly plist: string | undefined
  /** Further flags for our agent; the last one given wins. */
  readonly ownFlags: readonly string[]
}

/** Reads the Go agent's plist. Throws InstallationError. */
export async function planMigration(
  { host, platform, checkFlags }: MigrationWorld,
  { plist, ownFlags }: PlanOptions,
): Promise<MigrationPlan> {
  const { jobs, problems: unread } = await findGoAgentJobs(host, plist)
  const [job, ...more] = jobs
  if (!job || more.length > 0) {
    const files = jobs.map(({ file }) => file).join(' and ')
    const problem = job
      ? `There is more than one job of a Go agent, ${files}: choose one with --plist.`
      : await nothingFound(platform)
    return { job: undefined, command: readGoAgentCommand([]), flags: [], leftOut: [], problems: [...unread, problem] }
  }
  const problems = [...unread, ...(await jobProblem(host, job))]
  const command = commandOf(job, problems)
  const store = await storeFlag(job, command, host)
  const kubeconfig = job.environment['KUBECONFIG'] ?? ''
  const flags = [
    ...keptFlags(command),
    ...(kubeconfig === '' || kubeconfig.includes(':') ? [] : [`--kubeconfig=${kubeconfig}`]),
    ...store.flags,
    ...ownFlags,
  ]
  const refused = checkFlags(flags)
  return {
    job,
    command,
    flags,
    leftOut: [...leftOut(command), ...store.leftOut, ...variablesLeftOut(job)],
    problems: refused === undefined ? problems : [...problems, refused],
  }
}

async function nothingFound(platform: Pick<Platform, 'processes'>): Promise<string> {
  const [running] = await findGoAgents(platform, [], undefined)
  if (!running) {
    return 'There is no Go agent here: no plist of it in ~/Library/LaunchAgents, /Library/LaunchAgents and /Library/LaunchDaemons. If its plist is elsewhere, name it with --plist; otherwise install this agent with metal-agent install.'
  }
  return `The Go agent that runs as process ${running.pid} was started by hand (${running.commandLine.slice(0, 120)}): end it with "kill ${running.pid}", then install this agent with metal-agent install -- and the flags of that one.`
}

function commandOf(job: GoAgentJob, problems: string[]): GoAgentCommand {
  try {
    return readGoAgentCommand(job.args)
  } catch (error) {
    if (!(error instanceof FlagError)) throw error
    problems.push(`${job.file} has a flag that the Go agent does not know. ${error.message}`)
    return readGoAgentCommand([])
  }
}

/** The model store stays where it is, unless it would not last or is somebody else's. */
async function storeFlag(job: GoAgentJob, command: GoAgentCommand, { user }: InstallationHost) {
  const homes = { homeDir: user.homeDir, workingDir: job.workingDir ?? user.homeDir }
  const store = path.resolve(homes.workingDir, storeOf(command, await hasNewDefaults(job), homes))
  const facts = await lookAt(store)
  const why = isWiped(store)
    ? 'a reboot empties that folder'
    : facts !== undefined && facts.uid !== user.id
      ? 'that folder belongs to another user'
      : undefined
  if (facts === undefined && why === undefined) return { flags: [], leftOut: [] }
  if (why === undefined) return { flags: [`--model-store=${store}`], leftOut: [] }
  return { flags: [], leftOut: [`The model store ${store} is left out: ${why}. Models are downloaded again.`] }
}

const versionLimitMs = 5_000

async function hasNewDefaults({ program }: GoAgentJob): Promise<boolean> {
  try {
    const { stdout } = await askProgram({ command: program, args: ['--version'], env: {}, timeLimitMs: versionLimitMs })
    return hasRelayMode(versionIn(stdout) ?? '')
  } catch (error) {
    if (error instanceof ProgramError) return false
    throw error
  }
}

function variablesLeftOut({ environment, label }: GoAgentJob): string[] {
  const names = Object.keys(environment).filter((name) => name !== 'PATH' && name !== 'KUBECONFIG')
  return [
    ...(environment['KUBECONFIG']?.includes(':') === true
      ? [`KUBECONFIG of ${label} is left out: it names several files. Give the one to use with "-- --kubeconfig FILE".`]
      : []),
    ...names.map((name) => `${name} of ${label} is left out: servers here do not get the agent's variables.`),
  ]
}

/** Why the plist could not be taken out of its place. */
async function jobProblem({ user }: InstallationHost, { domain, label, file }: GoAgentJob): Promise<string[]> {
  const sudo = (...words: string[]) => shellCommand(['sudo', ...words])
  if (domain === 'system') {
    const unload = sudo('launchctl', 'bootout', `system/${label}`)
    const keep = sudo('mv', file, file + keptSuffix)
    return [
      `${file} is a LaunchDaemon, which is moved by hand: ${unload}; ${keep}; ${sudo('metal-agent', 'install', '--daemon', '--')} and the flags above.`,
    ]
  }
  const folder = path.dirname(file)
  const isWritable = await access(folder, constants.W_OK).then(
    () => true,
    () => false,
  )
  if (isWritable) return []
  const move = sudo('mv', file, path.join(user.homeDir, 'Library/LaunchAgents/'))
  return [`${folder} is not writable by this user: move the plist first with ${move}.`]
}

const section = (title: string, lines: readonly string[]): string =>
  lines.length === 0 ? '' : `\n${title}:\n${lines.map((line) => `  ${line}\n`).join('')}`

/** The plan as a person reads it. */
export function planText({ job, flags, leftOut, problems }: MigrationPlan): string {
  const steps = job && [
    `${job.label} is unloaded, which ends the Go agent and its models.`,
    `${job.file} is kept as ${path.basename(job.file)}${keptSuffix}.`,
    'This agent is installed as a LaunchAgent and starts the models: each is away while it loads.',
  ]
  return [
    section('Settings', job ? (flags.length === 0 ? ['The defaults of this agent.'] : flags) : []),
    section('Left out', leftOut),
    section('Steps', steps ?? []),
    section('In the way', problems),
  ]
    .join('')
    .replace(/^\n/, '')
}

/** Of a plist beside its place; launchd loads only files that end in .plist. */
const keptSuffix = '.before-metalbar'

/** What the Go agent may take to end: it stops its servers one after the other. */
const endLimitMs = 120_000
const lookMs = 200

/** Ends the Go agent and installs ours in its place; where ours cannot be installed, the Go agent runs again. Throws InstallationError. */
export async function migrate(
  { host, platform, service, tell }: MigrationWorld,
  { command, flags }: Pick<MigrationPlan, 'command' | 'flags'>,
  job: GoAgentJob,
): Promise<void> {
  const launchd = new LaunchctlJob(host, job.domain, job.label)
  tell(`Ending the Go agent (${job.label}) and its models.`)
  await launchd.unload()
  const ends = performance.now() + endLimitMs
  while ((await launchd.look()) !== undefined) {
    if (performance.now() > ends) {
      throw new InstallationError(
        `${job.label} has not ended within ${endLimitMs / 1_000} s; nothing else was changed: run this again once it has.`,
      )
    }
    await delay(lookMs)
  }
  const kept = job.file + keptSuffix
  await attempt(`${job.file} could not be renamed`, () => rename(job.file, kept))
  try {
    await withdraw({ host, platform, tell }, job, command)
    tell('Installing this agent.')
    await service.install(flags)
  } catch (error) {
    tell('This agent could not be installed: starting the Go agent again.')
    await attempt(`${kept} could not be renamed`, () => rename(kept, job.file))
    await launchd.load(job.file)
    throw error
  }
}

const clusterLimitMs = 15_000

/** Deletes what the Go agent leaves published at this Mac; our agent would otherwise wait until its heartbeats count as dead. */
async function withdraw(
  { host, platform, tell }: Pick<MigrationWorld, 'host' | 'platform' | 'tell'>,
  { environment }: GoAgentJob,
  command: GoAgentCommand,
): Promise<void> {
  const own = new Set([...platform.interfaces().map(({ address }) => address), textOf(command, 'host-ip')])
  try {
    const file = textOf(command, 'kubeconfig') || undefined
    const context = textOf(command, 'kube-context') || undefined
    const api = new KubeApi(await PinnedContext.load({ file, context, env: { ...host.env, ...environment } }))
    const signal = AbortSignal.timeout(clusterLimitMs)
    const namespace = textOf(command, 'namespace') || undefined
    const query = { namespace, labelSelector: `${labels.managedBy}=${managedBy}` }
    for await (const { items } of api.pages(resources.endpointSlices, query, signal)) {
      for (const slice of readable(items, parseEndpointSlice)) {
        const { metadata } = slice
        const isOfAnother = !own.has(publishedOf(slice)?.address ?? '') || annotations.claim in metadata.annotations
        if (!isOfAnother) await api.delete(resources.endpointSlices, metadata.namespace, metadata.name, metadata)
      }
    }
  } catch (error) {
    tell(
      `What the Go agent published could not be withdrawn (${messageOf(error)}): this agent takes its services over within three minutes.`,
    )
  }
}

/** Removes our service and starts the Go agent again from the plist that was kept. Throws InstallationError. */
export async function undoMigration({ host, service, tell }: MigrationWorld): Promise<void> {
  const folders = [
    path.join(host.user.homeDir, 'Library/LaunchAgents'),
    path.join(host.systemRoot, 'Library/LaunchAgents'),
  ]
  const kept = (await Promise.all(folders.map(keptIn))).flat()
  const [file, other] = kept
  if (file === undefined || other !== undefined) {
    throw new InstallationError(
      file === undefined
        ? `There is nothing to undo: no plist that ends in ${keptSuffix} is in ${folders.join(' or ')}.`
        : `More than one plist was kept, ${kept.join(' and ')}: move all but one elsewhere.`,
    )
  }
  const job = await readJob(file, host)
  tell('Removing this agent, which gives its services back.')
  await service.uninstall()
  tell(`Starting the Go agent (${job.label}) again.`)
  const place = file.slice(0, -keptSuffix.length)
  await attempt(`${file} could not be renamed`, () => rename(file, place))
  await new LaunchctlJob(host, job.domain, job.label).load(place)
}

async function keptIn(folder: string): Promise<string[]> {
  try {
    const names = await readdir(folder)
    return names.filter((name) => name.endsWith(`.plist${keptSuffix}`)).map((name) => path.join(folder, name))
  } catch (error) {
    if (hasCode(error, 'ENOENT') || hasCode(error, 'EACCES')) return []
    throw error
  }
}
