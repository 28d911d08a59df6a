import { lstat, mkdir, opendir, readdir, stat, statfs, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { errorCode } from '../util/error-code.ts'
import { entriesUpTo } from '../util/files.ts'
import { expectsGguf } from './content-kind.ts'
import { usualReserveBytes } from './download/limits.ts'
import type { OpenPlace } from './local.ts'
import { isWeightsName } from './selection.ts'
import { brokenSuffix, manifestSuffix } from './store/records.ts'

/** `closed`: who asks may not have it, or it holds something of a person. `ofModel`: it is, lies in or contains the folder of a model. */
export type CacheFolderProblem =
  { readonly kind: 'closed' } | { readonly kind: 'ofModel'; readonly modelFolder: string }

const closed = { kind: 'closed' } as const
const ofModel = (modelFolder: string) => ({ kind: 'ofModel', modelFolder }) as const

/** Marks a folder that was made as a cache, so that nothing of a person's is taken for one. */
const cacheMark = '.metalbar-cache'

/** Makes the folder where it is not there. Undefined where it may be written to as a cache. */
export async function claimCacheFolder(place: OpenPlace | undefined): Promise<CacheFolderProblem | undefined> {
  if (!place) return closed
  const { path } = place
  try {
    const around = await modelAround(place)
    if (around !== undefined) return ofModel(around)
    await mkdir(path, { recursive: true, mode: 0o700 })
    // The Finder leaves its own in a folder that a person has opened.
    const names = (await readdir(path)).filter((name) => name !== '.DS_Store' && name !== '.localized')
    if (names.length === 0) await writeFile(join(path, cacheMark), '', { mode: 0o600, flag: 'a' })
    else if (!names.includes(cacheMark)) return closed
    const within = await modelWithin(path)
    return within === undefined ? undefined : ofModel(within)
  } catch (error) {
    if (errorCode(error) !== undefined) return closed
    throw error
  }
}

/** The folder itself, or the nearest above it, that is of a model. A person's root may have GGUF files beside other folders, and the store has models below it. */
async function modelAround({ path, root, isStore }: OpenPlace): Promise<string | undefined> {
  for (let folder = path; folder !== root; folder = dirname(folder)) {
    const names = await namesIn(folder)
    if (isOfModel(names) || (!names.includes(cacheMark) && names.some(isWeightsName))) return folder
  }
  return !isStore && isMlxFolder(await namesIn(root)) ? root : undefined
}

/** As deep as oMLX looks for models, and in no more folders than its cache has. */
const looked = { deep: 2, most: 1_000 }

/** Links are followed. */
async function modelWithin(cache: string): Promise<string | undefined> {
  let level = [cache]
  let count = 0
  for (let depth = 0; depth < looked.deep; depth += 1) {
    const below: string[] = []
    for (const folder of level) {
      for (const name of await namesIn(folder)) {
        const child = join(folder, name)
        if ((await stat(child).catch(ifGone))?.isDirectory() !== true) continue
        if (isOfModel(await namesIn(child))) return child
        below.push(child)
        count += 1
        if (count === looked.most) return undefined
      }
    }
    level = below
  }
  return undefined
}

/** Weights alone say nothing: oMLX writes what it keeps in the same format. */
const isOfModel = (names: readonly string[]): boolean =>
  isMlxFolder(names) || names.some((name) => expectsGguf(name) || isRecord(name))

const isMlxFolder = (names: readonly string[]): boolean => names.includes('config.json') && names.some(isWeightsName)

const isRecord = (name: string): boolean =>
  name.endsWith(manifestSuffix) || name.endsWith(manifestSuffix + brokenSuffix)

/** A folder that others fill may have more than is looked at. */
const maxNames = 20_000

/** None where there is no such folder yet. */
async function namesIn(folder: string): Promise<string[]> {
  const entries = await entriesUpTo(folder, maxNames).catch(ifGone)
  return (entries ?? []).map(({ name }) => name)
}

function ifGone(error: unknown): undefined {
  const code = errorCode(error)
  if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP') return undefined
  throw error
}

/** How large a cache there may become, with what it has already: what its disk has free, but for what stays free. `reserveBytes`: undefined = as usual. */
export async function cacheRoomBytes(folder: string, reserveBytes: number | undefined): Promise<number> {
  const { bavail, blocks, bsize } = await volumeOf(folder)
  const reserve = reserveBytes ?? usualReserveBytes(blocks * bsize)
  return Math.max(0, bavail * bsize + (await bytesBelow(folder)) - reserve)
}

async function volumeOf(folder: string) {
  for (let existing = folder; ; existing = dirname(existing)) {
    const volume = await statfs(existing).catch(ifGone)
    if (volume) return volume
  }
}

/** What has gone meanwhile or may not be read counts as nothing. */
async function bytesBelow(folder: string): Promise<number> {
  let bytes = 0
  const folders = [folder]
  for (let next = folders.pop(); next !== undefined; next = folders.pop()) {
    for await (const entry of (await opendir(next).catch(ifUnreadable)) ?? []) {
      const path = join(next, entry.name)
      if (entry.isDirectory()) folders.push(path)
      else if (entry.isFile()) bytes += (await lstat(path).catch(ifUnreadable))?.size ?? 0
    }
  }
  return bytes
}

function ifUnreadable(error: unknown): undefined {
  const code = errorCode(error)
  if (code !== 'EACCES' && code !== 'EPERM') ifGone(error)
}
