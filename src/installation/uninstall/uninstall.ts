import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { defaultModelStore } from '../../agent-core/models/default-store.ts'
import type { Platform } from '../../agent-core/platform/platform.ts'
import { socketPathFor } from '../../agent-core/state/socket-path.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { LinkError } from '../../contract/client.ts'
import type { CommandResult } from '../../contract/commands.ts'
import { formatBytes } from '../../contract/format.ts'
import { traceKinds, type Removal, type Trace, type TraceKind } from '../../contract/uninstall.ts'
import type { InstallationHost } from '../installation-host.ts'
import type { ServiceWork } from '../service/hand-over.ts'
import { applicationsPart, clusterPart } from './cluster-part.ts'
import { factsOf, fileParts, storePart, type KnownPlaces } from './file-parts.ts'
import {
  commandLinkPart,
  keychainPart,
  macPreferencesPart,
  placesOfServices,
  serversPart,
  servicePart,
  sudoRulePart,
  type AsRoot,
} from './machine-parts.ts'
import { removeByHand, traceTable, type Found, type TracePart } from './traces.ts'

export interface AllPartsOptions {
  readonly host: InstallationHost
  readonly platform: Pick<Platform, 'process' | 'bootId' | 'isRunning'>
  readonly stateDir: string
  readonly temporaryDir: string
  /** Where several state something the first counts; stores and logs are all looked at. */
  readonly known?: readonly KnownPlaces[]
  /** How the service that starts the agent is ended; absent = no service is looked for. */
  readonly work?: ServiceWork
  /** Absent where nobody can give a password. */
  readonly asRoot?: AsRoot
  /** Names in the state folder that this process has open. */
  readonly inUse?: readonly string[]
  /** What only the caller can look at, such as the login item of the app. */
  readonly others?: readonly TracePart[]
}

/** One part for each kind of trace that this system can have. */
export async function allParts(options: AllPartsOptions): Promise<TracePart[]> {
  const { host, platform, stateDir, temporaryDir, work, asRoot, inUse = [], others = [] } = options
  const { env, user } = host
  const known = [...(options.known ?? []), ...(work ? await placesOfServices(host) : [])]
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
  // On Linux nothing else is in the parent of the store; on a Mac the store is in the state folder.
  const parents = host.platform === 'linux' ? [path.dirname(usual)] : []
  return [
    ...others,
    ...(work ? [servicePart(host, work)] : []),
    ...files,
    serversPart(platform, stateDir),
    storePart({ stores, parents, userId: user.id }),
    commandLinkPart(host),
    ...(reach ? [clusterPart(reach), applicationsPart(reach)] : []),
    ...(host.platform === 'darwin' ? [keychainPart(host), macPreferencesPart(host), sudoRulePart(host, asRoot)] : []),
  ]
}

/** What a running agent says of the places that it uses. Not its log: the file that it names would be deleted. */
export function placesOfAgent(
  { settings, start }: SettingsAnswer,
  {
    context,
    server,
    namespace,
  }: { readonly context: string; readonly server: string; readonly namespace?: string | undefined },
): KnownPlaces {
  const kubeconfig = settings.find(({ name }) => name === 'kubeconfig')?.value
  return {
    modelStore: start.find(({ name }) => name === 'modelStore')?.value,
    namespace,
    ...(typeof kubeconfig === 'string' && { kubeconfig }),
    ...(server !== '' && { cluster: { context, server } }),
  }
}

interface SettingsAnswer {
  readonly settings: readonly { readonly name: string; readonly value?: unknown }[]
  readonly start: readonly { readonly name: string; readonly value?: string | undefined }[]
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

/** Everything that is there, in the order in which it is removed. Nothing is changed. */
export async function listTraces(parts: readonly TracePart[]): Promise<Trace[]> {
  const traces = inOrder(parts).map(async (part) => {
    const { found, problem } = await lookOf(part)
    if (found === undefined && problem === undefined) return []
    const { places = [], stays = [] } = found ?? {}
    return [{ kind: part.kind, ...traceTable[part.kind], places, stays, ...(problem !== undefined && { problem }) }]
  })
  return (await Promise.all(traces)).flat()
}

const inOrder = (parts: readonly TracePart[]): TracePart[] =>
  parts.toSorted((a, b) => traceKinds.indexOf(a.kind) - traceKinds.indexOf(b.kind))

async function lookOf(part: TracePart): Promise<{ readonly found?: Found; readonly problem?: string }> {
  try {
    const found = await part.look()
    return found ? { found } : {}
  } catch (error) {
    return { problem: messageOf(error) }
  }
}

export const bytesOfTrace = ({ places }: Pick<Trace, 'places'>): number =>
  places.reduce((sum, { bytes = 0 }) => sum + bytes, 0)

export interface RemoveOptions {
  readonly chosen: ReadonlySet<TraceKind>
  /** Called before each step, which may take a while. */
  readonly onStep: (what: string) => void
}

/** Removes what is chosen, one kind after the other, and looks at each again: only what is no longer found is called gone. */
export async function removeTraces(parts: readonly TracePart[], { chosen, onStep }: RemoveOptions): Promise<Removal[]> {
  const removals: Removal[] = []
  for (const part of inOrder(parts).filter(({ kind }) => chosen.has(kind))) {
    const { what } = traceTable[part.kind]
    const before = await lookOf(part)
    const isNothing = before.problem === undefined && (before.found?.places.length ?? 0) === 0
    if (isNothing && (before.found?.stays?.length ?? 0) === 0) continue
    onStep(what)
    removals.push(isNothing ? nothingOf(part.kind, before.found) : await removal(part, before))
  }
  return removals
}

const nothingOf = (kind: TraceKind, found: Found | undefined): Removal => ({
  kind,
  what: traceTable[kind].what,
  isGone: true,
  message: (found?.stays ?? []).join(' '),
  byHand: [],
})

async function removal(part: TracePart, before: { found?: Found; problem?: string }): Promise<Removal> {
  const { kind } = part
  const { what } = traceTable[kind]
  const why = before.problem ?? (await part.remove().then(() => undefined, messageOf))
  const after = await lookOf(part)
  const left = after.found?.places ?? []
  const stays = after.found?.stays ?? []
  if (after.problem === undefined && why === undefined && left.length === 0) {
    const bytes = bytesOfTrace({ places: before.found?.places ?? [] })
    const size = bytes === 0 ? '' : `, ${formatBytes(bytes)}`
    return { kind, what, isGone: true, message: [`Removed${size}.`, ...stays].join(' '), byHand: [] }
  }
  const problem = asSentence(why ?? after.problem ?? 'It was there again after it was removed')
  const byHand = after.found?.byHand ?? removeByHand(left.map((place) => place.path))
  return { kind, what, isGone: false, message: [problem, ...stays].join(' '), byHand }
}

const asSentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`)
