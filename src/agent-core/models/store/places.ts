import { rm } from 'node:fs/promises'
import { dirname, join, posix } from 'node:path'
import type { Logger } from '../../observability/logger.ts'
import { syncFolder } from '../../util/files.ts'
import { pathBelow } from '../../util/is-below.ts'
import { localRepairMs, ModelError } from '../errors.ts'
import { shortDigestLength, shownSource } from '../source.ts'
import { comparable, isInside, lstatIfThere, makeFolder, requireInside, statIfThere } from './files.ts'
import {
  type Access,
  brokenManifestPath,
  type HeaderSummary,
  isNamedBy,
  type Manifest,
  manifestPath,
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

export interface StorePlace {
  readonly directory: string
  readonly log: Logger
}

/** Undefined where the files are not what the record says. */
export async function storedModel(
  { directory, log }: StorePlace,
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
export function recordFacts(
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

export interface StorePlacesOptions extends StorePlace {
  readonly records: StoreRecords
  readonly claims: StoreClaims
  readonly now: () => number
  /** Names what the disk says of the store. */
  readonly guarded: <T>(work: () => Promise<T>, neededBytes?: number) => Promise<T>
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

/** Where in the store a model that is fetched goes. */
export class StorePlaces {
  readonly #options: StorePlacesOptions

  constructor(options: StorePlacesOptions) {
    this.#options = options
  }

  /** A place for these files below the Model's folder. */
  async reserve(
    wanted: Wanted,
    folder: string,
    content: { readonly files: readonly string[]; readonly primary: string; readonly beside: boolean },
  ): Promise<Destination> {
    const short = wanted.digest.slice(0, shortDigestLength)
    for (let attempt = 0; ; attempt += 1) {
      const base = attempt === 0 ? folder : join(folder, attempt === 1 ? short : `${short}-${attempt}`)
      const destination = await this.#claimAll(wanted, { root: folder, folder: base }, content)
      if (destination) return destination
      this.#options.log.info('keeping model beside another of the same name', {
        model: wanted.model,
        source: shownSource(wanted.source),
        folder: base,
      })
    }
  }

  /** Undefined where one of the places belongs to another model. */
  async #claimAll(
    wanted: Wanted,
    { root, folder }: { readonly root: string; readonly folder: string },
    { files, primary, beside }: { files: readonly string[]; primary: string; beside: boolean },
  ): Promise<Destination | undefined> {
    const { directory, claims, guarded } = this.#options
    const record = manifestPath(pathBelow(folder, primary === '' ? 'model' : posix.basename(primary)))
    const paths = [record, ...files.map((file) => pathBelow(folder, file))]
    const claimed: string[] = []
    const release = () => {
      for (const path of claimed) claims.release(path, claimOf(wanted))
    }
    try {
      for (const path of paths) {
        if (!claims.take(path, claimOf(wanted))) return (release(), undefined)
        claimed.push(path)
      }
      await requireInside(directory, folder)
      const records = await this.#options.records.in(folder)
      if (records.some(({ manifest }) => !isOwn(manifest, wanted))) return (release(), undefined)
      for (const path of paths) {
        if (!(await this.#isFree(path, { records, digest: wanted.digest, beside }))) return (release(), undefined)
      }
      await makeFolder(folder)
      await requireInside(directory, folder)
    } catch (error) {
      release()
      throw error
    }
    return {
      folder,
      commit: (arrival) => guarded(() => this.#commit(wanted, { root, record }, arrival), sizeOf(arrival)),
      release,
    }
  }

  async #isFree(
    path: string,
    { records, digest, beside }: { records: readonly Recorded[]; digest: string; beside: boolean },
  ): Promise<boolean> {
    const owner = records.find((record) => record.path === path || isNamedBy(record, path))
    if (owner) return owner.manifest.sourceSha256 === digest && !beside
    const found = await lstatIfThere(path)
    return found === undefined || (found.isFile() && found.size === 0)
  }

  /** The record comes first: a crash in between leaves a record without files (absent), never a file without record (adoptable). */
  async #commit(
    wanted: Wanted,
    { root, record }: { readonly root: string; readonly record: string },
    arrival: Arrival,
  ): Promise<StoredModel> {
    const { directory, records, now } = this.#options
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
    const stored = await storedModel(this.#options, wanted.model, { path: record, manifest })
    if (stored) return stored
    throw new ModelError(
      'transient',
      'StoreUnusable',
      `What was just written to ${folder} is not there: look whether something else clears the model store ${directory}.`,
      { retryAfterMs: localRepairMs },
    )
  }
}

const claimOf = ({ digest, namespace }: Wanted): string => `${digest} ${namespace}`

/** Files without a named owner were left by an earlier version, or found here: the first Model of that name takes them over. */
const isOwn = ({ namespace }: Manifest, wanted: Wanted): boolean =>
  namespace === undefined || namespace === wanted.namespace

const sizeOf = ({ files }: Arrival): number => files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
