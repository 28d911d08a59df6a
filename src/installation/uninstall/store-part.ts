import { realpath } from 'node:fs/promises'
import path from 'node:path'
import { manifestSuffix, readManifest } from '../../agent-core/models/store/records.ts'
import { ownFolder } from '../../agent-core/models/store/files.ts'
import { pathBelow } from '../../agent-core/util/is-below.ts'
import { bytesOf, lookAt, namesIn, removeAll, removeIfEmpty } from './own-files.ts'
import type { TracePart } from './trace-part.ts'

export interface StorePlaces {
  /** Every folder that was a model store, as far as that is known. */
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
  const lookAtAll = async () => {
    const looks = await Promise.all((await distinct(places.stores)).map((store) => lookAtStore(store, places.userId)))
    return looks
  }
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

/** Each once, whatever links lead to it. */
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

/** So many are named; of a store that belongs to others there may be thousands. */
const mostNamed = 20

function sentencesAbout(root: string, files: readonly string[]): string[] {
  const named = files.slice(0, mostNamed).map((file) => `${file} was not downloaded by Metalbar, so it stays.`)
  const more = files.length - named.length
  return more > 0 ? [...named, `${more} more files of ${root} were not downloaded by Metalbar, so they stay.`] : named
}

interface Walked {
  readonly files: readonly { readonly path: string; readonly bytes: number }[]
  readonly folders: readonly string[]
  /** Links and what else is neither file nor folder. */
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
