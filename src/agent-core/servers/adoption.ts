import { realpath } from 'node:fs/promises'
import type { Logger } from '../observability/logger.ts'
import type { Platform, ProcessFacts, Workplace } from '../platform/platform.ts'
import { lacksFiles } from '../util/error-code.ts'
import { messageOf } from '../util/message-of.ts'
import { digestVariable, type GeneralRules, servedOf } from './launch.ts'
import { daemonRuntimes } from './daemon.ts'
import { everyAddress, hostInText } from './listening.ts'
import { digestOf, runOfEntry, type HostSession, type Ledger, type LedgerContent, type LedgerEntry } from './ledger.ts'
import type { ServerRuntime } from './probe.ts'
import { ProcessGroup } from './process-group.ts'
import { keyOfRun, runOfPlace, serverFolders, type ServerFolders } from './run-folder.ts'
import type { Servers } from './servers.ts'
import type { AdoptableModel, AdoptableProcess, AdoptableServer } from './service-server.ts'

export interface AdoptionOptions {
  readonly ledger: Ledger
  readonly servers: Servers
  readonly platform: Pick<Platform, 'processes' | 'workplaces' | 'variableOf' | 'process' | 'processGroup'>
  readonly log: Logger
  readonly stateDir: string
  readonly rules: (runtime: ServerRuntime) => GeneralRules
  /** Servers ran when the machine went down, and the agent had not been asked to end before. */
  readonly onUncleanBoot?: () => void
}

/** SIGKILL takes effect at once unless the process hangs in the kernel. */
const killLimitMs = 2_000

/**
 * Before anything is started: takes over what an earlier agent left running. Answers what a person should know. What cannot be
 * seen is neither adopted nor touched; rejects only for want of files to open, as the next agent may see it.
 */
export async function adoptServers(options: AdoptionOptions): Promise<string[]> {
  const { ledger, servers, log, rules } = options
  const content = await loaded(options)
  const { entries, notice } = content
  const notices = notice === undefined ? [] : [notice]
  if (wasCutShort(content, await ledger.host())) options.onUncleanBoot?.()
  let sight: Sight
  try {
    sight = await look(options)
  } catch (error) {
    log.warn('processes not seen', { error })
    if (lacksFiles(error)) throw error
    const why = messageOf(error)
    return [
      ...notices,
      `Servers that an earlier agent left running were not adopted and keep running unmanaged: ${why}`,
    ]
  }
  const { adopt, reap } = judge(entries, sight)
  const adopted = new Set(adopt.map(runOfEntry))
  for (const run of entries.map(runOfEntry)) if (!adopted.has(run)) ledger.forget(run)
  for (const entry of adopt) {
    ledger.keep(entry)
    servers.adopt(entry, rules(entry.daemon?.runtime ?? entry.runtime ?? 'llama-server'))
  }
  const left = await Promise.all(reap.map((leftover) => ended(leftover, options)))
  return [...notices, ...left.filter((sentence) => sentence !== undefined)]
}

/** Where the system does not identify its boots, nothing is known of their ends. */
const wasCutShort = ({ entries, leftIn }: LedgerContent, now: HostSession): boolean =>
  now.bootId !== '' && entries.some(({ bootId }) => !['', now.bootId, leftIn].includes(bootId))

async function loaded({ ledger, log }: AdoptionOptions): Promise<LedgerContent> {
  try {
    return await ledger.load()
  } catch (error) {
    log.warn('ledger not read', { error })
    if (lacksFiles(error)) throw error
    return { entries: [], notice: `The ledger of running servers could not be read: ${messageOf(error)}.` }
  }
}

async function look({ platform, ledger, log, stateDir }: AdoptionOptions): Promise<Sight> {
  const named = serverFolders(stateDir)
  const [host, processes, workplaces, runs] = await Promise.all([
    ledger.host(),
    platform.processes(),
    platform.workplaces().catch((error: unknown) => {
      log.warn('working directories of processes not read', { error })
      if (lacksFiles(error)) throw error
      return []
    }),
    realPath(named.runs),
  ])
  const folders = { runs }
  const inside = workplaces.filter((place) => runOfPlace(place, folders) !== undefined)
  const digests = await Promise.all(
    inside.map(async ({ pid }) => [pid, (await platform.variableOf(pid, digestVariable)) ?? ''] as const),
  )
  return { host, processes, workplaces: inside, folders, digests: new Map(digests) }
}

/** In a folder that does not exist yet no process works. */
const realPath = (folder: string): Promise<string> => realpath(folder).catch(() => folder)

/** A sentence where something could not be ended. */
async function ended({ key, groupId, leaderStartTime }: Leftover, { platform, log }: AdoptionOptions) {
  const group = new ProcessGroup({ groupId, platform, leaderStartTime, log })
  try {
    if (leaderStartTime === undefined) group.leaderReaped()
    await group.signal('SIGKILL')
    const members = await group.gone(performance.now() + killLimitMs)
    if (members.length === 0) {
      log.info('ended leftover', { service: key, group: groupId })
      return undefined
    }
  } catch (error) {
    log.warn('leftover not ended', { service: key, group: groupId, error })
  }
  return `Processes that an earlier server of ${key} left behind (process group ${groupId}) could not be ended.`
}

/** The digest of a server of which it is not known what it serves, or that was started for another login session: it is replaced in good order. */
export const unknownDigest = ''

/** The processes found on this host. */
export interface Sight {
  readonly host: HostSession
  /** Processes of this user. */
  readonly processes: readonly ProcessFacts[]
  /** Where they work, as far as that can be seen. */
  readonly workplaces: readonly Workplace[]
  /** Real paths: only our servers work in such a folder and write their output there. */
  readonly folders: ServerFolders
  /** The digests that servers have in their environment, by pid. */
  readonly digests: ReadonlyMap<number, string>
}

export interface Adoption {
  readonly adopt: readonly AdoptableServer[]
  /** Groups of which a process is provably of ours, but none is a server that could be taken over. */
  readonly reap: readonly Leftover[]
}

export interface Leftover {
  readonly key: string
  readonly groupId: number
  /** Absent where the leader is gone. */
  readonly leaderStartTime: string | undefined
}

/**
 * What an agent may take over of an earlier one's servers. The ledger's word counts where pid, start time and command line (or workplace)
 * are still the same; a process that works in a server's folder and writes its output there is a server of ours even where the ledger says
 * nothing of it. Every other process is a stranger's and left alone.
 */
export function judge(entries: readonly LedgerEntry[], sight: Sight): Adoption {
  const adopt = new Map<string, AdoptableServer>()
  const placed = new Map(
    sight.workplaces.flatMap((place) => {
      const run = runOfPlace(place, sight.folders)
      return run === undefined ? [] : [[place.pid, run] as const]
    }),
  )
  for (const entry of entries) {
    if (isModel(entry)) {
      if (isThisBoot(entry.bootId, sight)) adopt.set(runOfEntry(entry), entry)
      continue
    }
    const leader = entry.process ? noted(entry, entry.process, sight, placed) : intended(entry, sight, placed)
    if (leader) adopt.set(runOfEntry(entry), adoptable(entry, leader, sight.host))
  }
  const ours = sight.processes.filter(({ pid }) => placed.has(pid))
  for (const leader of ours.filter(isLeader)) {
    const run = placed.get(leader.pid) ?? ''
    const entry = adopt.has(run) ? undefined : rebuilt(run, leader, sight)
    if (entry) adopt.set(run, entry)
  }
  // A service has one server: what else is found of it is ended.
  for (const found of Map.groupBy(adopt, ([, { key }]) => key).values()) {
    for (const [run] of found.toSorted(byLikelihood).slice(1)) adopt.delete(run)
  }
  const isLeft = (process: ProcessFacts) => {
    const server = adopt.get(placed.get(process.pid) ?? '')
    return server?.process === undefined || !belongsTo(process, server.process, server.port)
  }
  const left = Map.groupBy(ours.filter(isLeft), ({ groupId }) => groupId)
  const reap = [...left].map(([groupId, members]) => ({
    key: keyOfRun(placed.get(members[0]?.pid ?? 0) ?? ''),
    groupId,
    leaderStartTime: sight.processes.find(({ pid }) => pid === groupId)?.startTime,
  }))
  return { adopt: [...adopt.values()], reap }
}

/** What has served comes before what has not, and the latest start before others. */
const byLikelihood = ([, a]: readonly [string, LedgerEntry], [, b]: readonly [string, LedgerEntry]): number =>
  Number(b.readySince !== undefined) - Number(a.readySince !== undefined) || (a.intendedAt < b.intendedAt ? 1 : -1)

const isThisBoot = (bootId: string, { host }: Sight): boolean => bootId !== '' && bootId === host.bootId

type Noted = NonNullable<LedgerEntry['process']>

const isModel = (entry: LedgerEntry): entry is AdoptableModel => entry.daemon !== undefined

function noted(entry: LedgerEntry, wanted: Noted, sight: Sight, placed: ReadonlyMap<number, string>) {
  if (!isThisBoot(entry.bootId, sight)) return undefined
  const found = sight.processes.find(({ pid }) => pid === wanted.pid)
  if (found?.startTime !== wanted.startTime || !isLeader(found)) return undefined
  const isSame = digestOf(found.commandLine) === wanted.commandLineDigest || placed.get(found.pid) === runOfEntry(entry)
  return isSame ? found : undefined
}

/** The agent ended between noting the start and noting its pid, so the process, if there is one, is the server that was to get the port. */
function intended(entry: LedgerEntry, sight: Sight, placed: ReadonlyMap<number, string>) {
  if (!isThisBoot(entry.bootId, sight)) return undefined
  const run = runOfEntry(entry)
  return sight.processes.find(
    (process) => isLeader(process) && placed.get(process.pid) === run && isAtPort(process, entry),
  )
}

/** A daemon is not told its port by its arguments. */
const isAtPort = (process: ProcessFacts, { runtime, port }: LedgerEntry): boolean =>
  portOf(process) === port || (isDaemon(runtime) && portOf(process) === undefined)

const isDaemon = (runtime: ServerRuntime | undefined): boolean => daemonRuntimes.some((name) => name === runtime)

function adoptable(entry: LedgerEntry, leader: ProcessFacts, { loginSession }: HostSession): AdoptableProcess {
  const digest = entry.loginSession === loginSession ? entry.digest : unknownDigest
  return { ...entry, digest, process: processOf(leader), ...hostIn(leader) }
}

function rebuilt(run: string, leader: ProcessFacts, sight: Sight): AdoptableProcess | undefined {
  const { workingDirectory, output: logFile } = sight.workplaces.find(({ pid }) => pid === leader.pid) ?? {}
  const port = portOf(leader)
  if (workingDirectory === undefined || logFile === undefined || port === undefined) return undefined
  return {
    key: keyOfRun(run),
    uid: '',
    ...servedOf(sight.digests.get(leader.pid) ?? unknownDigest),
    executable: leader.commandLine.split(' ', 1)[0] ?? '',
    workingDirectory,
    logFile,
    outputOffset: 0,
    port,
    sleepsWhenIdle: leader.commandLine.includes('--sleep-idle-seconds'),
    ...sight.host,
    intendedAt: new Date().toISOString(),
    process: processOf(leader),
    ...hostIn(leader),
  }
}

/** A process that a server started may have left its group; a second server would have another port. */
function belongsTo(process: ProcessFacts, leader: Noted, serverPort: number): boolean {
  const port = portOf(process)
  return process.groupId === leader.pid || port === undefined || port === serverPort
}

const processOf = ({ pid, startTime, commandLine }: ProcessFacts): Noted => ({
  pid,
  startTime,
  commandLineDigest: digestOf(commandLine),
})

const hostIn = ({ commandLine }: ProcessFacts): Pick<AdoptableProcess, 'host'> => {
  const host = hostInText(commandLine)
  return host === undefined || host === everyAddress ? {} : { host }
}

const isLeader = ({ pid, groupId }: ProcessFacts): boolean => pid === groupId

const portOf = ({ commandLine }: ProcessFacts): number | undefined => {
  const port = / --port (\d+)( |$)/.exec(commandLine)?.[1]
  return port === undefined ? undefined : Number(port)
}
