import { rm } from 'node:fs/promises'
import { dirname, join, posix } from 'node:path'
import type { Logger } from '../../observability/logger.ts'
import { syncFolder } from '../../util/files.ts'
import { pathBelow } from '../../util/is-below.ts'
import { expectsGguf, firstBytes, isGguf } from '../content-kind.ts'
import { localRepairMs, ModelError } from '../errors.ts'
import { parseShard, shardPaths } from '../selection.ts'
import { shortDigestLength, shownSource } from '../source.ts'
import {
  comparable,
  isInside,
  lstatIfThere,
  makeFolder,
  namingStoreErrors,
  requireInside,
  statIfThere,
} from './files.ts'
import {
  brokenManifestPath,
  isNamedBy,
  manifestPath,
  type Access,
  type HeaderSummary,
  type Manifest,
  type ManifestFile,
  type Recorded,
  type StoreRecords,
} from './records.ts'

/** Which bytes, for which Model. */
export interface Wanted {
  readonly model: string
  /** The Model's; `''` = of no Model, but a person's. */
  readonly namespace: string
  /** The Model's `spec.source`. */
  readonly source: string
  /** See `selectionDigest`. */
  readonly digest: string
}

/** A service whose Model's files are, or will be, in the store. */
export interface ModelUser {
  /** As namespace/name. */
  readonly service: string
  readonly model: string
  /** See `selectionDigest`. */
  readonly digest: string
  /** The path of a source on this machine, which may lie in the store. */
  readonly path?: string
  /** Neither suspended nor scaled to zero. */
  readonly isActive: boolean
}

/** What a server of the service loaded, or is to load next: absolute paths of files and folders. */
export interface LoadedFiles {
  /** As namespace/name. */
  readonly service: string
  /** Undefined where they are not known. */
  readonly files: readonly string[] | undefined
}

/** A complete model in the store. */
export interface StoredModel {
  /** The Model's name: its folder in the store. */
  readonly model: string
  /** What a runtime is given. */
  readonly path: string
  readonly mmproj: string | undefined
  readonly sizeBytes: number
  readonly manifest: Manifest
  /** Where the manifest's files are below. */
  readonly folder: string
  readonly manifestPath: string
}

/** What belongs to one store. */
export interface StoreParts {
  readonly directory: string
  readonly log: Logger
  readonly now: () => number
  readonly records: StoreRecords
  readonly claims: StoreClaims
}

/** Undefined where the files are not what the record says. */
export async function storedModel(
  { directory, log }: Pick<StoreParts, 'directory' | 'log'>,
  model: string,
  { path: record, manifest }: Recorded,
): Promise<StoredModel | undefined> {
  const folder = dirname(record)
  let sizeBytes = 0
  for (const file of manifest.files) {
    const path = pathBelow(folder, file.path)
    const size = await sizeInStore(directory, path)
    if (size === 0) return undefined
    if (size !== file.sizeBytes && manifest.origin === 'downloaded') {
      log.warn('model file has not the recorded size, fetching it again', {
        path,
        sizeBytes: size,
        recorded: file.sizeBytes,
      })
      return undefined
    }
    sizeBytes += size
  }
  return {
    model,
    path: manifest.primary === '' ? folder : pathBelow(folder, manifest.primary),
    mmproj: manifest.mmproj === undefined ? undefined : pathBelow(folder, manifest.mmproj),
    sizeBytes,
    manifest,
    folder,
    manifestPath: record,
  }
}

/** 0 where there is no such file, or it is not in the store. */
export async function sizeInStore(directory: string, path: string): Promise<number> {
  const found = await statIfThere(path)
  if (found?.isFile() !== true || !(await isInside(directory, path))) return 0
  return found.size
}

/** What a record says of any model. */
function recordFacts(
  { source, digest }: Wanted,
  { origin, now }: { readonly origin: Manifest['origin']; readonly now: number },
) {
  return {
    schema: 2,
    source: shownSource(source),
    sourceSha256: digest,
    completedAt: new Date(now).toISOString(),
    origin,
  } as const
}

export interface Arrived {
  /** Relative to the destination. */
  readonly path: string
  readonly sizeBytes: number
  readonly sha256: string
  readonly etag?: string | undefined
  /** Where the content lies on this machine already and stays. */
  readonly from?: string | undefined
  /** Puts the complete, synced content under this name, in place of what stands there. */
  readonly moveTo: (path: string) => Promise<void>
}

export interface Arrival {
  readonly files: readonly Arrived[]
  readonly access?: Access | undefined
  /** Empty = the folder. */
  readonly primary: string
  readonly mmproj?: string | undefined
  readonly revision?: string | undefined
  readonly header?: HeaderSummary | undefined
}

/** Where a model goes. These paths are given to no other caller until `release`. */
export interface Destination {
  readonly folder: string
  /** Makes what has arrived the model, with its record. */
  commit(arrival: Arrival): Promise<StoredModel>
  release(): void
}

/** Who may use which path of the store, and for what: what is being written, and what could not be recorded. */
export class StoreClaims {
  readonly #holders = new Map<string, string>()

  /** False where it is another's. */
  take(path: string, claim: string): boolean {
    const key = comparable(path)
    const holder = this.#holders.get(key)
    if (holder !== undefined && holder !== claim) return false
    this.#holders.set(key, claim)
    return true
  }

  release(path: string, claim: string): void {
    const key = comparable(path)
    if (this.#holders.get(key) === claim) this.#holders.delete(key)
  }
}

/** A place for these files below the Model's folder. `beside`: what the store has of this source stays, since it is in use. */
export async function reservePlace(
  store: StoreParts,
  wanted: Wanted,
  { root, ...content }: Reservation,
): Promise<Destination> {
  const short = wanted.digest.slice(0, shortDigestLength)
  for (let attempt = 0; ; attempt += 1) {
    const folder = attempt === 0 ? root : join(root, attempt === 1 ? short : `${short}-${attempt}`)
    const destination = await claimAll(store, wanted, { root, ...content }, folder)
    if (destination) return destination
    store.log.info('keeping model beside another of the same name', {
      ...{ model: wanted.model, source: shownSource(wanted.source), folder },
    })
  }
}

interface Reservation {
  /** The Model's folder. */
  readonly root: string
  readonly files: readonly string[]
  readonly primary: string
  readonly beside: boolean
}

/** Undefined where one of the places belongs to another model. */
async function claimAll(
  store: StoreParts,
  wanted: Wanted,
  { root, files, primary, beside }: Reservation,
  folder: string,
): Promise<Destination | undefined> {
  const { directory, claims } = store
  const record = manifestPath(pathBelow(folder, primary === '' ? 'model' : posix.basename(primary)))
  const paths = [record, ...files.map((file) => pathBelow(folder, file))]
  const claim = `${wanted.digest} ${wanted.namespace}`
  const claimed: string[] = []
  const release = (): void => {
    for (const path of claimed) claims.release(path, claim)
  }
  const isOurs = async (): Promise<boolean> => {
    for (const path of paths) {
      if (!claims.take(path, claim)) return false
      claimed.push(path)
    }
    await requireInside(directory, folder)
    const records = await store.records.in(folder)
    // Files without a named owner were left by an earlier version, or found here: the first Model of that name takes them over.
    if (records.some(({ manifest: { namespace = wanted.namespace } }) => namespace !== wanted.namespace)) return false
    for (const path of paths) if (!(await isFree(path, { records, digest: wanted.digest, beside }))) return false
    await makeFolder(folder)
    await requireInside(directory, folder)
    return true
  }
  let isHeld = false
  try {
    isHeld = await isOurs()
  } finally {
    if (!isHeld) release()
  }
  if (!isHeld) return undefined
  const commit = (arrival: Arrival): Promise<StoredModel> => {
    const neededBytes = arrival.files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
    return namingStoreErrors(directory, () => commitModel(store, wanted, { root, record }, arrival), neededBytes)
  }
  return { folder, commit, release }
}

async function isFree(
  path: string,
  { records, digest, beside }: { records: readonly Recorded[]; digest: string; beside: boolean },
): Promise<boolean> {
  const owner = records.find((record) => record.path === path || isNamedBy(record, path))
  if (owner) return owner.manifest.sourceSha256 === digest && !beside
  const found = await lstatIfThere(path)
  return found === undefined || (found.isFile() && found.size === 0)
}

/** The record comes first: a crash in between leaves a record without files (absent), never a file without record (adoptable). */
async function commitModel(
  store: StoreParts,
  wanted: Wanted,
  { root, record }: { readonly root: string; readonly record: string },
  arrival: Arrival,
): Promise<StoredModel> {
  const { directory, records, now } = store
  const folder = dirname(record)
  const files = arrival.files.map(({ path, sizeBytes, sha256, etag }) => ({
    path,
    sizeBytes,
    sha256,
    ...(etag !== undefined && { etag }),
  }))
  const { primary, mmproj, revision, header, access } = arrival
  const facts: Manifest = {
    ...recordFacts(wanted, { origin: 'downloaded', now: now() }),
    namespace: wanted.namespace,
    ...(access !== undefined && { access }),
    files,
    primary,
    ...(mmproj !== undefined && { mmproj }),
    ...(revision !== undefined && { revision }),
    ...(header !== undefined && { header }),
  }
  for (const { path, from } of arrival.files) {
    const to = pathBelow(folder, path)
    if (from === undefined || comparable(from) !== comparable(to)) await rm(to, { force: true })
  }
  const manifest = await records.write(record, facts, root)
  await syncFolder(folder)
  for (const { path, moveTo } of arrival.files) {
    const to = pathBelow(folder, path)
    await makeFolder(dirname(to))
    await requireInside(directory, dirname(to))
    await moveTo(to)
    await syncFolder(dirname(to))
    // As earlier versions left them.
    await rm(`${to}.metalbar.partial`, { force: true })
  }
  await rm(brokenManifestPath(record), { force: true })
  const stored = await storedModel(store, wanted.model, { path: record, manifest })
  if (stored) return stored
  throw new ModelError(
    'transient',
    'StoreUnusable',
    `What was just written to ${folder} is not there: look whether something else clears the model store ${directory}.`,
    { retryAfterMs: localRepairMs },
  )
}

/**
 * Takes a file without a record for this source where it has the name that the Go agent's store gives it. It belongs to no namespace yet.
 * Undefined where there is no such file, or another request has it.
 */
export async function adopt(
  store: StoreParts,
  { folder, goName }: { readonly folder: string; readonly goName: string },
  wanted: Wanted,
): Promise<StoredModel | undefined> {
  const { log, records, claims, now } = store
  const shard = parseShard(goName)
  const names = shard === undefined ? [goName] : shardPaths(goName, shard)
  const path = pathBelow(folder, goName)
  if (!claims.take(path, wanted.digest)) return undefined
  let keepsClaim = false
  try {
    const files: ManifestFile[] = []
    for (const name of names) {
      const sizeBytes = await unrecorded(store, folder, name)
      if (sizeBytes === 0) return undefined
      files.push({ path: name, sizeBytes })
    }
    if (expectsGguf(path) && !isGguf(await firstBytes(path))) {
      log.warn('file in the model store is not the model its name promises', { path })
      return undefined
    }
    const record = manifestPath(path)
    const manifest: Manifest = { ...recordFacts(wanted, { origin: 'adopted', now: now() }), files, primary: goName }
    const outcome = await records.add(record, manifest).then(
      (isAdded) => (isAdded ? 'recorded' : 'taken'),
      (error: unknown) => {
        log.debug('model found in the store cannot be recorded', { path: record, error })
        return 'unrecorded' as const
      },
    )
    if (outcome === 'taken') return undefined
    // The claim in memory then keeps other sources away from the file.
    keepsClaim = outcome === 'unrecorded'
    const stored = await storedModel(store, wanted.model, { path: record, manifest })
    log.info('using model found in the store', {
      path,
      source: shownSource(wanted.source),
      sizeBytes: stored?.sizeBytes,
    })
    return stored
  } finally {
    if (!keepsClaim) claims.release(path, wanted.digest)
  }
}

/** Length of a file of the store that no record names and nothing speaks against; 0 where there is none. */
async function unrecorded({ directory, records }: StoreParts, folder: string, name: string): Promise<number> {
  const path = pathBelow(folder, name)
  if ((await records.in(folder)).some((record) => isNamedBy(record, path))) return 0
  if ((await lstatIfThere(brokenManifestPath(manifestPath(path)))) !== undefined) return 0
  return sizeInStore(directory, path)
}
