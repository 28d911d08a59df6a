import path from 'node:path'
import { defaultModelStore } from '../../agent-core/models/default-store.ts'
import type { Platform } from '../../agent-core/platform/platform.ts'
import { socketPathFor } from '../../agent-core/state/socket-path.ts'
import type { InstallationHost } from '../installation-host.ts'
import { applicationsPart, clusterPart } from './cluster-part.ts'
import { factsOf } from './facts.ts'
import { fileParts } from './file-parts.ts'
import { commandLinkPart, keychainPart, macPreferencesPart, sudoRulePart, type AsRoot } from './mac-parts.ts'
import { serversPart } from './servers-part.ts'
import { storePart } from './store-part.ts'
import type { TracePart } from './trace-part.ts'

/** What an agent that runs, the service that starts it or a person can tell. Each wins over the files of the state folder. */
export interface KnownPlaces {
  readonly modelStore?: string | undefined
  /** Never as somebody tells over the socket: the file that it names would be deleted. */
  readonly logFile?: string | undefined
  readonly kubeconfig?: string | undefined
  readonly namespace?: string | undefined
  readonly cluster?: { readonly context: string; readonly server: string } | undefined
}

export interface AllPartsOptions {
  readonly host: InstallationHost
  readonly platform: Pick<Platform, 'process' | 'bootId' | 'isRunning'>
  readonly stateDir: string
  readonly temporaryDir: string
  /** The first that states something counts; of stores and logs all of them. */
  readonly known?: readonly KnownPlaces[]
  /** Absent where nobody can give a password. */
  readonly asRoot?: AsRoot
  /** Names in the state folder that this process has open. */
  readonly inUse?: readonly string[]
  /** What only the one who asks can look at, such as the login item of the app. */
  readonly others?: readonly TracePart[]
}

/** One part for each kind of trace that this system can have. */
export async function allParts(options: AllPartsOptions): Promise<TracePart[]> {
  const { host, platform, stateDir, temporaryDir, known = [], asRoot, inUse = [], others = [] } = options
  const { env, user } = host
  const facts = await factsOf(stateDir)
  const usual = defaultModelStore(host.platform, env, user.homeDir)
  const stores = [usual, ...facts.stores, ...known.flatMap(({ modelStore = '' }) => modelStore || [])]
  const logFiles = [...facts.logFiles, ...known.flatMap(({ logFile = '' }) => logFile || [])]
  const first = <T>(pick: (one: KnownPlaces) => T | undefined): T | undefined =>
    [...known, facts].map(pick).find((value) => value !== undefined && value !== '')
  const cluster = first((one) => one.cluster)
  const reach = cluster && {
    ...cluster,
    env,
    nodeId: facts.nodeId,
    kubeconfig: first((one) => one.kubeconfig),
    namespace: first((one) => one.namespace),
  }
  const storeInState = stores.find((store) => path.dirname(path.resolve(store)) === path.resolve(stateDir))
  const files = fileParts({
    platform: host.platform,
    homeDir: user.homeDir,
    stateDir,
    userId: user.id,
    socketFile: socketPathFor(stateDir, temporaryDir),
    logFiles,
    storeName: storeInState === undefined ? undefined : path.basename(storeInState),
    inUse,
  })
  // Below it there is nothing but the store, save on a Mac, where it is in the state folder.
  const parents = host.platform === 'linux' ? [path.dirname(usual)] : []
  return [
    ...others,
    ...files,
    serversPart(platform, stateDir),
    storePart({ stores, parents, userId: user.id }),
    commandLinkPart(host),
    ...(reach ? [clusterPart(reach), applicationsPart(reach)] : []),
    ...(host.platform === 'darwin' ? [keychainPart(host), macPreferencesPart(host), sudoRulePart(host, asRoot)] : []),
  ]
}
