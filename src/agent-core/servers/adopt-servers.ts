import { realpath } from 'node:fs/promises'
import type { Logger } from '../observability/logger.ts'
import type { Boot } from '../power/panic-fuse/machine-end.ts'
import type { Platform } from '../platform/platform.ts'
import { messageOf } from '../util/message-of.ts'
import { judge, type Leftover, type Sight } from './adoption.ts'
import { digestVariable, type GeneralRules } from './launch.ts'
import { runOfEntry, type Ledger, type LedgerContent } from './ledger.ts'
import { ProcessGroup } from './process-group.ts'
import { runOfPlace, serverFolders } from './run-folder.ts'
import type { Servers } from './servers.ts'

export interface AdoptionOptions {
  readonly ledger: Ledger
  readonly servers: Servers
  readonly platform: Pick<Platform, 'processes' | 'workplaces' | 'variableOf' | 'processGroup'>
  readonly log: Logger
  readonly stateDir: string
  readonly rules: GeneralRules
  /** What the ledger had, before anything of it is forgotten. */
  readonly onBoot?: (boot: Boot) => Promise<void>
}

/** SIGKILL takes effect at once unless the process hangs in the kernel. */
const killLimitMs = 2_000

/**
 * Before anything is started: takes over what an earlier agent left running. Answers what a person should know. Never rejects: what
 * cannot be seen is neither adopted nor touched.
 */
export async function adoptServers(options: AdoptionOptions): Promise<string[]> {
  const { ledger, servers, log, rules } = options
  const { entries, notice } = await loaded(options)
  const notices = notice === undefined ? [] : [notice]
  await options.onBoot?.({ bootId: (await ledger.host()).bootId, starts: entries })
  let sight: Sight
  try {
    sight = await look(options)
  } catch (error) {
    log.warn('processes not seen', { error })
    const why = messageOf(error)
    return [...notices, `Servers that an earlier agent left running were not taken over and go on unattended: ${why}`]
  }
  const { adopt, reap } = judge(entries, sight)
  const adopted = new Set(adopt.map(runOfEntry))
  for (const run of entries.map(runOfEntry)) if (!adopted.has(run)) ledger.forget(run)
  for (const entry of adopt) {
    ledger.keep(entry)
    servers.adopt(entry, rules)
  }
  const left = await Promise.all(reap.map((leftover) => ended(leftover, options)))
  return [...notices, ...left.filter((sentence) => sentence !== undefined)]
}

async function loaded({ ledger, log }: AdoptionOptions): Promise<LedgerContent> {
  try {
    return await ledger.load()
  } catch (error) {
    log.warn('ledger not read', { error })
    return { entries: [], notice: `The ledger of running servers could not be read: ${messageOf(error)}.` }
  }
}

async function look({ platform, ledger, log, stateDir }: AdoptionOptions): Promise<Sight> {
  const named = serverFolders(stateDir)
  const [host, processes, workplaces, runs, work, logs] = await Promise.all([
    ledger.host(),
    platform.processes(),
    platform.workplaces().catch((error: unknown) => {
      log.warn('workplaces of processes not seen', { error })
      return []
    }),
    realPath(named.runs),
    realPath(named.work),
    realPath(named.logs),
  ])
  const folders = { runs, work, logs }
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
  const onTrouble = (error: unknown) => log.warn('leftover not ended', { service: key, group: groupId, error })
  const group = new ProcessGroup({ groupId, table: platform, leaderStartTime, onTrouble })
  try {
    if (leaderStartTime === undefined) group.leaderReaped()
    await group.signal('SIGKILL')
    const members = await group.gone(performance.now() + killLimitMs)
    if (members.length === 0) {
      log.info('ended leftover', { service: key, group: groupId })
      return undefined
    }
  } catch (error) {
    onTrouble(error)
  }
  return `Processes that an earlier server of ${key} left behind (process group ${groupId}) could not be ended.`
}
