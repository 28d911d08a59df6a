import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { z } from 'zod'
import { defaultModelStore } from '../../agent-core/models/default-store.ts'
import type { Platform } from '../../agent-core/platform/platform.ts'
import { acquireLock, startTimeOf } from '../../agent-core/state/lock.ts'
import { socketPathFor } from '../../agent-core/state/socket-path.ts'
import { parseJson, readIfThere } from '../../agent-core/util/files.ts'
import { LinkError, type AgentLink } from '../../contract/client.ts'
import type { CommandResult } from '../../contract/commands.ts'
import type { Removal } from '../../contract/uninstall.ts'
import { lookAt } from '../files.ts'
import type { InstallationHost } from '../installation-host.ts'
import { clusterPart } from './cluster-part.ts'
import { fileParts } from './file-parts.ts'
import {
  commandLinkPart,
  keychainPart,
  macPreferencesPart,
  serversPart,
  servicePart,
  sudoRulePart,
  type AsRoot,
} from './machine-parts.ts'
import { modelPart } from './model-part.ts'
import { removeTraces, UninstallError, type RemoveOptions, type TracePart } from './traces.ts'

export interface AllPartsOptions {
  readonly host: InstallationHost
  readonly platform: Pick<Platform, 'process' | 'bootId' | 'isRunning'>
  readonly stateDir: string
  readonly temporaryDir: string
  /** Places that the person names, beside those in the files of the state folder. */
  readonly stated?: StatedPlaces
  /** Says what is waited for while the service ends; absent = no service is looked for. */
  readonly tell?: (sentence: string) => void
  /** Absent where nobody can give a password. */
  readonly asRoot?: AsRoot
  /** Names in the state folder that this process has open. */
  readonly inUse?: readonly string[]
  /** What only the caller can look at, such as the login item of the app. */
  readonly others?: readonly TracePart[]
}

/** One part for each kind of trace that this system can have. */
export async function allParts(options: AllPartsOptions): Promise<TracePart[]> {
  const { host, platform, stateDir, temporaryDir, tell, asRoot, inUse = [], others = [] } = options
  const { env, user } = host
  const isAbsolute = (file: string) => path.isAbsolute(file)
  const noted = await placesOfState(stateDir)
  const usual = defaultModelStore(host.platform, env, user.homeDir)
  const absolute = (...files: (string | undefined)[]) => files.filter((file) => file !== undefined).filter(isAbsolute)
  const stores = absolute(usual, options.stated?.modelStore, noted.modelStore)
  const logFiles = absolute(options.stated?.logFile, noted.logFile)
  const { cluster, kubeconfig, namespace } = noted
  const reach = cluster && { ...cluster, kubeconfig, namespace, env, nodeId: await nodeIdIn(stateDir) }
  const { homeDir, id: userId } = user
  const socketFile = socketPathFor(stateDir, temporaryDir)
  // On Linux nothing else is in the parent of the store; on a Mac the store is in the state folder.
  const parents = host.platform === 'linux' ? [path.dirname(usual)] : []
  return [
    ...others,
    ...(tell ? [servicePart(host, tell)] : []),
    ...fileParts({ platform: host.platform, homeDir, stateDir, userId, socketFile, logFiles, stores, inUse }),
    serversPart(platform, { stateDir, socketPath: socketPathFor(stateDir, temporaryDir, 'gateway.sock') }),
    modelPart({ stores, parents, userId }),
    commandLinkPart(host),
    ...(reach ? [clusterPart(reach)] : []),
    ...(host.platform === 'darwin' ? [keychainPart(host), macPreferencesPart(host), sudoRulePart(host, asRoot)] : []),
  ]
}

/** Places that the person names where no file of the state folder does. */
export interface StatedPlaces {
  readonly modelStore?: string | undefined
  readonly logFile?: string | undefined
}

/** The models that a running agent has in memory, as namespace/name. Throws LinkError. */
export async function servedModels(link: Pick<AgentLink, 'snapshot'>): Promise<readonly string[]> {
  const { services } = await link.snapshot()
  return services.filter(({ pid }) => pid !== undefined).map((one) => `${one.namespace}/${one.name}`)
}

const text = z.string().nullish().catch(undefined)
const place = z.string().optional().catch(undefined)
const reached = { kubeconfig: text, namespace: text }
const stateFiles = {
  'model-store.json': z.object({ directory: z.string() }),
  'log-file.json': z.object({ logFile: z.string() }),
  'cluster.json': z.object({ pin: z.object({ context: z.string(), server: z.string() }) }),
  'settings.json': z.object({ settings: z.object(reached) }),
  'start-settings.json': z.object({ ...reached, modelStore: place, logFile: place }),
  'node.json': z.object({ nodeId: z.string() }),
}
type StateFiles = typeof stateFiles

/** A larger file is none of ours. */
const maxBytes = 4_000_000

/** Undefined where it is missing or broken. */
async function stateFile<K extends keyof StateFiles>(stateDir: string, name: K) {
  const content = await readIfThere(path.join(stateDir, name), maxBytes)
  return stateFiles[name].safeParse(parseJson(content ?? '')).data as z.infer<StateFiles[K]> | undefined
}

/** The places that the files of a state folder name, as its last agent wrote them. */
async function placesOfState(stateDir: string) {
  const settings = (await stateFile(stateDir, 'settings.json'))?.settings
  const start = await stateFile(stateDir, 'start-settings.json')
  return {
    modelStore: (await stateFile(stateDir, 'model-store.json'))?.directory ?? start?.modelStore,
    logFile: (await stateFile(stateDir, 'log-file.json'))?.logFile ?? start?.logFile,
    cluster: (await stateFile(stateDir, 'cluster.json'))?.pin,
    kubeconfig: settings?.kubeconfig ?? start?.kubeconfig ?? undefined,
    namespace: settings?.namespace ?? start?.namespace ?? undefined,
  }
}

const nodeIdIn = async (stateDir: string) => (await stateFile(stateDir, 'node.json'))?.nodeId

/**
 * Removes what is chosen with the lock of the state folder, so that no agent starts meanwhile. The service goes before: its agent may wait for
 * the state folder, and would get it now. Throws UninstallError where another agent has it.
 */
export async function removeChosen(
  parts: readonly TracePart[],
  { stateDir, platform, ...options }: RemoveOptions & Pick<AllPartsOptions, 'stateDir' | 'platform'>,
): Promise<Removal[]> {
  const isService = ({ kind }: TracePart) => kind === 'service'
  const rest = parts.filter((part) => !isService(part))
  const services = await removeTraces(parts.filter(isService), options)
  if ((await lookAt(stateDir)) === undefined) return [...services, ...(await removeTraces(rest, options))]
  const file = path.join(stateDir, 'agent.lock')
  const locked = await acquireLock({ file, processStartTime: (pid) => startTimeOf(platform, pid) })
  if (!locked.ok && locked.holder !== undefined) {
    const what = services.length === 0 ? 'Nothing' : 'Nothing but the service'
    throw new UninstallError(
      `An agent that does not answer has the state folder (process ${locked.holder.pid}): end it first. ${what} was removed.`,
    )
  }
  try {
    return [...services, ...(await removeTraces(rest, options))]
  } finally {
    if (locked.ok) await locked.lock.release()
  }
}

/** The longest drain that a person can set, and what an end takes besides. */
const endLimitMs = 3_700_000
const endLookMs = 200

/** Has an agent withdraw, let requests finish, stop its servers and end, and waits for that. Throws LinkError. */
export async function endAgent(shutDown: () => Promise<CommandResult>, listens: () => Promise<boolean>): Promise<void> {
  const { outcome, message } = await shutDown()
  if (outcome !== 'accepted' && outcome !== 'done') throw new LinkError('refused', message)
  const until = performance.now() + endLimitMs
  while (await listens()) {
    if (performance.now() > until) throw new LinkError('refused', 'The agent does not end. Nothing was removed.')
    await delay(endLookMs)
  }
}
