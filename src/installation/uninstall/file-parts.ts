import { realpath } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { ownFolder } from '../../agent-core/models/store/files.ts'
import { manifestSuffix, readManifest } from '../../agent-core/models/store/records.ts'
import { parseJson, readIfThere } from '../../agent-core/util/files.ts'
import { pathBelow } from '../../agent-core/util/is-below.ts'
import type { TraceKind } from '../../contract/uninstall.ts'
import { keepsGoPlist, migrationFolder } from '../migration/record.ts'
import {
  bytesOf,
  kindInStateFolder,
  lookAt,
  macHomeRows,
  namesIn,
  removeAll,
  removeIfEmpty,
  type TracePart,
} from './traces.ts'

export interface FilePlaces {
  readonly platform: 'darwin' | 'linux'
  readonly homeDir: string
  readonly stateDir: string
  readonly userId: number
  /** In the state folder, or elsewhere where that path is too long for a socket. */
  readonly socketFile: string
  /** Files that the agent's log was sent to, wherever that is. */
  readonly logFiles: readonly string[]
  /** The name of the model store, where it is in the state folder. */
  readonly storeName: string | undefined
  /** Names in the state folder that this process has open itself; they are removed when it has ended. */
  readonly inUse: readonly string[]
}

/** Traces that are files with names of ours; what has another name in the same folder is left alone. */
export const fileParts = (places: FilePlaces): TracePart[] =>
  (['token', 'crashReports', 'appData', 'logs', 'settings', 'state'] as const).map((kind) => filePart(kind, places))

function filePart(kind: TraceKind, places: FilePlaces): TracePart {
  const used = places.inUse.map((name) => path.join(places.stateDir, name))
  return {
    kind,
    look: async () => {
      const files = await filesOf(kind, places)
      const now = files.filter((file) => !used.includes(file))
      const later = files.filter((file) => used.includes(file))
      const found = now.map(async (file) => ({ path: file, bytes: await bytesOf(file) }))
      const others = kind === 'state' ? [...(await strangers(places)), ...(await openMove(places))] : []
      const stays = [...later.map((file) => `${file} goes when the app has ended.`), ...others]
      return files.length === 0 && stays.length === 0 ? undefined : { places: await Promise.all(found), stays }
    },
    remove: async () => {
      const files = await filesOf(kind, places)
      await removeAll(files.filter((file) => !used.includes(file)))
      for (const folder of ownFolders(kind, places)) await removeIfEmpty(folder)
    },
  }
}

async function filesOf(kind: TraceKind, places: FilePlaces): Promise<string[]> {
  const { stateDir, userId, homeDir, platform, socketFile, logFiles } = places
  const names = await namesIn(stateDir)
  const isHeld = kind === 'state' && (await keepsGoPlist(stateDir))
  const inState = names
    .filter((name) => kindInStateFolder(name) === kind)
    .map((name) => path.join(stateDir, name))
    .filter((file) => !isHeld || file !== migrationFolder(stateDir))
  const isLeftEmpty = kind === 'state' && names.length === 0 && (await lookAt(stateDir))?.isDirectory() === true
  const rows = platform === 'darwin' ? macHomeRows.filter((row) => row.kind === kind) : []
  const inHome = rows.map(async ({ folder, name: isOurs }) => {
    const there = await namesIn(path.join(homeDir, folder))
    return there.filter((name) => isOurs.test(name)).map((name) => path.join(homeDir, folder, name))
  })
  const socketFolder = path.dirname(socketFile)
  const isOutside = kind === 'state' && socketFolder !== path.resolve(stateDir)
  const outside = isOutside ? await lookAt(socketFolder) : undefined
  // Another user may have made it in a temporary folder.
  const socket = outside?.isDirectory() === true && outside.uid === userId
  const logs = kind === 'logs' ? await Promise.all(logFiles.map(partsOfLog)) : []
  return [
    ...new Set([
      ...inState,
      ...(await Promise.all(inHome)).flat(),
      ...logs.flat(),
      ...(socket ? [socketFolder] : []),
      ...(isLeftEmpty ? [stateDir] : []),
    ]),
  ]
}

/** A log, its earlier files and its lock. */
async function partsOfLog(file: string): Promise<string[]> {
  const folder = path.dirname(file)
  const base = path.basename(file)
  const isPart = (name: string) => name.startsWith(base) && /^(?:\.\d+|\.lock)?$/.test(name.slice(base.length))
  const parts = (await namesIn(folder)).filter(isPart).map((name) => path.join(folder, name))
  // A folder or a device such as /dev/null is not a log.
  const facts = await Promise.all(parts.map(lookAt))
  return parts.filter((_, index) => facts[index]?.isFile() === true || facts[index]?.isSymbolicLink() === true)
}

function ownFolders(kind: TraceKind, { homeDir, stateDir, platform }: FilePlaces): string[] {
  // Whichever is removed last leaves it empty.
  if (platform !== 'darwin') return [stateDir]
  const own = macHomeRows.filter((row) => row.kind === kind && row.isOwnFolder === true)
  return [stateDir, ...own.map(({ folder }) => path.join(homeDir, folder))]
}

/** The only copy of a plist that is not ours is kept. */
const openMove = async ({ stateDir }: FilePlaces): Promise<string[]> =>
  (await keepsGoPlist(stateDir))
    ? [
        `${migrationFolder(stateDir)} has the plist of LLMKube's Go agent, which metal-agent migrate took out of its place: "metal-agent migrate --undo" puts it back, "metal-agent migrate --confirm" gives it up; then repeat this.`,
      ]
    : []

async function strangers({ stateDir, storeName }: FilePlaces): Promise<string[]> {
  const names = await namesIn(stateDir)
  return names
    .filter((name) => kindInStateFolder(name) === undefined && name !== storeName)
    .map((name) => `${path.join(stateDir, name)} is none of Metalbar's files, so it and its folder stay.`)
}

export interface StorePlaces {
  /** Every folder that is known to have been a model store. */
  readonly stores: readonly string[]
  /** The parent of the usual store, where that has no other use. */
  readonly parents: readonly string[]
  readonly userId: number
}

/** Files that downloads are made of: what a record of ours names, the record, and what is written beside it. */
interface StoreLook {
  readonly ours: readonly { readonly path: string; readonly bytes: number }[]
  readonly stays: readonly string[]
  /** Folders in which something of ours lies, the deepest first. */
  readonly folders: readonly string[]
}

/** Downloaded models, and nothing else that lies in their folder: what LLMKube's agent or a person put there stays. */
export function storePart(places: StorePlaces): TracePart {
  const lookAtAll = async () =>
    Promise.all((await distinct(places.stores)).map((store) => lookAtStore(store, places.userId)))
  return {
    kind: 'models',
    look: async () => {
      const looks = await lookAtAll()
      const found = looks.flatMap(({ ours }) => ours)
      const stays = looks.flatMap((look) => look.stays)
      return found.length === 0 && stays.length === 0 ? undefined : { places: found, stays }
    },
    remove: async () => {
      for (const { ours, folders } of await lookAtAll()) {
        await removeAll(ours.map((one) => one.path))
        for (const folder of folders) await removeIfEmpty(folder)
      }
      for (const parent of places.parents) await removeIfEmpty(parent)
    },
  }
}

/** Each folder once, whatever links lead to it. */
async function distinct(stores: readonly string[]): Promise<string[]> {
  const byPlace = new Map<string, string>()
  for (const store of stores) {
    const place = await realpath(store).catch(() => path.resolve(store))
    if (!byPlace.has(place)) byPlace.set(place, store)
  }
  return [...byPlace.values()]
}

async function lookAtStore(store: string, userId: number): Promise<StoreLook> {
  const nothing = { ours: [], stays: [], folders: [] }
  const entry = await lookAt(store)
  if (entry === undefined) {
    const volume = /^\/(?:Volumes|media|mnt|run\/media)\/[^/]+/.exec(store)?.[0]
    const isAway = volume !== undefined && (await lookAt(volume)) === undefined
    return isAway
      ? { ...nothing, stays: [`${store} is on a volume that is not there: connect it and repeat this.`] }
      : nothing
  }
  const root = entry.isSymbolicLink() ? await realpath(store).catch(() => undefined) : store
  if (root === undefined)
    return { ...nothing, stays: [`${store} is a link that leads nowhere, which Metalbar did not make.`] }
  const facts = await lookAt(root)
  if (facts?.isDirectory() !== true) return { ...nothing, stays: [`${store} is no folder, so it is no model store.`] }
  if (facts.uid !== userId) return { ...nothing, stays: [`${store} belongs to another user (${facts.uid}).`] }
  const walked = await walk(root)
  const recorded = await recordedIn(walked)
  const own = path.join(root, ownFolder)
  const ours = walked.files.filter(({ path: file, bytes }) => {
    const record = recorded.get(file)
    return isBesideRecord(file) || (record !== undefined && record === bytes)
  })
  const isOwnFolder = (await lookAt(own))?.isDirectory() === true
  const whole = isOwnFolder ? [{ path: own, bytes: await bytesOf(own) }] : []
  const names = new Set(ours.map((one) => one.path))
  const others = [...walked.files.filter((one) => !names.has(one.path)).map((one) => one.path), ...walked.strange]
  const folders = walked.folders.filter((folder) => ours.some((one) => one.path.startsWith(`${folder}${path.sep}`)))
  const link = entry.isSymbolicLink() ? [`${store} is a link to ${root}; both folder and link stay.`] : []
  return {
    ours: [...ours, ...whole],
    stays: [...link, ...sentencesAbout(root, others)],
    folders: [...folders.toSorted((a, b) => b.length - a.length), ...(entry.isSymbolicLink() ? [] : [root])],
  }
}

/** Others may have thousands of files in a store. */
const mostNamed = 20

function sentencesAbout(root: string, files: readonly string[]): string[] {
  const named = files.slice(0, mostNamed).map((file) => `${file} was not downloaded by Metalbar, so it stays.`)
  const more = files.length - named.length
  return more > 0 ? [...named, `${more} more files of ${root} were not downloaded by Metalbar, so they stay.`] : named
}

interface Walked {
  readonly files: readonly { readonly path: string; readonly bytes: number }[]
  readonly folders: readonly string[]
  /** Links, and anything else that is neither file nor folder. */
  readonly strange: readonly string[]
}

/** Below the folders of models, without the store's own folder; no link is followed. */
async function walk(root: string): Promise<Walked> {
  const files: { path: string; bytes: number }[] = []
  const folders: string[] = []
  const strange: string[] = []
  const visit = async (folder: string): Promise<void> => {
    for (const name of await namesIn(folder)) {
      const file = path.join(folder, name)
      if (folder === root && name === ownFolder) continue
      const found = await lookAt(file)
      if (found?.isDirectory() === true) {
        folders.push(file)
        await visit(file)
      } else if (found?.isFile() === true) files.push({ path: file, bytes: found.size })
      else if (found !== undefined) strange.push(file)
    }
  }
  await visit(root)
  return { files, folders, strange }
}

/** Files that a record says were downloaded, with their sizes. */
async function recordedIn({ files }: Walked): Promise<Map<string, number>> {
  const recorded = new Map<string, number>()
  for (const { path: file } of files.filter((one) => one.path.endsWith(manifestSuffix))) {
    const state = await readManifest(file)
    if (state.kind !== 'valid' || state.manifest.origin !== 'downloaded') continue
    for (const one of state.manifest.files) {
      recorded.set(pathBelow(path.dirname(file), one.path), one.sizeBytes)
    }
  }
  return recorded
}

/** Records, broken ones too, and what a killed process left of writing a file or record. */
const isBesideRecord = (file: string): boolean =>
  /\.metalbar\.(?:json(?:\.broken|\.\d+)?|new(?:er)*|partial)$/.test(path.basename(file))

/** What a running agent, its service or a person states. It wins over what the files of the state folder say. */
export interface KnownPlaces {
  readonly modelStore?: string | undefined
  readonly logFile?: string | undefined
  readonly kubeconfig?: string | undefined
  readonly namespace?: string | undefined
  readonly cluster?: { readonly context: string; readonly server: string } | undefined
}

/** What the files of a state folder say of the places that are written to. Broken values count as missing. */
interface StateFacts extends Pick<KnownPlaces, 'kubeconfig' | 'namespace' | 'cluster'> {
  readonly nodeId?: string | undefined
  readonly stores: readonly string[]
  readonly logFiles: readonly string[]
}

const node = z.object({ nodeId: z.string() })
const store = z.object({ directory: z.string() })
const cluster = z.object({ pin: z.object({ context: z.string(), server: z.string() }) })
const chosen = {
  kubeconfig: z.string().nullish().catch(undefined),
  namespace: z.string().nullish().catch(undefined),
}
const log = z.object({ logFile: z.string() })
const person = z.object({ settings: z.object(chosen) })
const start = z.object({
  ...chosen,
  modelStore: z.string().optional().catch(undefined),
  logFile: z.string().optional().catch(undefined),
})

/** A larger file is none of ours. */
const maxBytes = 4_000_000

export async function factsOf(stateDir: string): Promise<StateFacts> {
  const read = async <T>(name: string, schema: z.ZodType<T>): Promise<T | undefined> => {
    const text = await readIfThere(path.join(stateDir, name), maxBytes)
    return text === undefined ? undefined : schema.safeParse(parseJson(text)).data
  }
  const started = await read('start-settings.json', start)
  const persons = (await read('settings.json', person))?.settings
  const given = [(await read('model-store.json', store))?.directory, started?.modelStore]
  const logFiles = [(await read('log-file.json', log))?.logFile, started?.logFile]
  return {
    nodeId: (await read('node.json', node))?.nodeId,
    stores: given.filter((one) => one !== undefined && path.isAbsolute(one)).map(String),
    logFiles: logFiles.filter((one) => one !== undefined && path.isAbsolute(one)).map(String),
    kubeconfig: persons?.kubeconfig ?? started?.kubeconfig ?? undefined,
    namespace: persons?.namespace ?? started?.namespace ?? undefined,
    cluster: (await read('cluster.json', cluster))?.pin,
  }
}
