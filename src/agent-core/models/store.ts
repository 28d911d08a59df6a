import { readdir, realpath, rm, rmdir } from 'node:fs/promises'
import { dirname, join, posix, relative, sep } from 'node:path'
import type { Logger } from '../observability/logger.ts'
import { syncFolder } from '../support/files.ts'
import { isBelow } from '../support/is-below.ts'
import { isOpenTo } from './access.ts'
import { expectsGguf, isGguf } from './content.ts'
import { namingStoreErrors } from './disk.ts'
import { localRepairMs, ModelError } from './errors.ts'
import { firstBytes } from './local-file.ts'
import {
  brokenManifestPath,
  manifestPath,
  manifestSuffix,
  readManifest,
  setManifestAside,
  writeManifest,
  type Access,
  type HeaderSummary,
  type Manifest,
  type ManifestFile,
} from './manifest.ts'
import { goAgentFileName, shortDigestLength, shownSource, sourceDigest } from './source.ts'
import { parseShard, shardPaths } from './shards.ts'
import { comparable, isInside, lstatIfThere, makeFolder, requireInside, statIfThere } from './store-paths.ts'
import { StoreRests } from './store-rests.ts'

/** Which bytes, for which Model. */
export interface Wanted {
  readonly model: string
  /** The Model's; `''` = of no Model, but a person's. */
  readonly namespace: string
  /** The Model's `spec.source`. */
  readonly source: string
  /** See `wantedDigest`. */
  readonly digest: string
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

export interface StoreOptions {
  directory: string
  log: Logger
  now?: () => number
}

/**
 * The folder of models, laid out so that LLMKube's Go agent finds its files in it: `<store>/<model>/<base name>`.
 *
 * That layout knows neither namespace nor source, so every model of ours has a record that names its source and files, and a file
 * serves that source alone. Another source that wants the same place, or the Model of another namespace, gets
 * `<store>/<model>/<short digest>/`.
 * A file without a record is taken only under the very name the Go agent gives this source, and is recorded then, so
 * that no second source can take it. Nothing we have not recorded is ever overwritten or deleted, empty files aside.
 */
export class Store {
  readonly directory: string
  readonly rests: StoreRests
  readonly #log: Logger
  readonly #now: () => number
  /** Comparable path → who may use it, and for what (`claimOf`): what is being written, and what could not be recorded. */
  readonly #claims = new Map<string, string>()

  constructor({ directory, log, now = Date.now }: StoreOptions) {
    this.directory = directory
    this.#log = log
    this.#now = now
    this.rests = new StoreRests({ directory, log, now })
  }

  /** The complete model, if the store has it for a Model of this name and source; of several contents its namespace's newest. Throws ModelError. */
  async find(wanted: Wanted): Promise<StoredModel | undefined> {
    return this.#guarded(async () => {
      const folder = this.#modelFolder(wanted.model)
      const complete = await this.#complete(wanted.model, wanted.digest)
      const newest = complete.find(({ manifest }) => manifest.namespace === wanted.namespace) ?? complete[0]
      if (newest) return newest
      const goName = wanted.digest === sourceDigest(wanted.source) ? goAgentFileName(wanted.source) : undefined
      return goName === undefined ? undefined : await this.#adopt(folder, goName, wanted)
    })
  }

  /** The same source under another Model's name. Throws ModelError. */
  async findElsewhere({ model, digest }: Wanted): Promise<StoredModel | undefined> {
    return this.#guarded(async () => {
      for (const other of await this.#models()) {
        const [found] = other === model ? [] : await this.#complete(other, digest)
        if (found) return found
      }
      return undefined
    })
  }

  /** A file of the store, of those whose record is `meant`, that has this content by its record and its length. Throws ModelError. */
  async findContent(
    { sha256, sizeBytes }: { readonly sha256: string; readonly sizeBytes?: number | undefined },
    isMeant: (manifest: Manifest) => boolean,
  ): Promise<string | undefined> {
    return this.#guarded(async () => {
      for (const stored of await this.list()) {
        if (!isMeant(stored.manifest)) continue
        for (const file of stored.manifest.files) {
          if (file.sha256 !== sha256 || (sizeBytes !== undefined && file.sizeBytes !== sizeBytes)) continue
          const path = join(stored.folder, file.path)
          if ((await this.#sizeOf(path)) === file.sizeBytes) return path
        }
      }
      return undefined
    })
  }

  /** False where the file, by its real path, is of a model that its source did not give to the namespace. Throws ModelError. */
  async isOpen(path: string, namespace: string): Promise<boolean> {
    return this.#guarded(async () => {
      const below = relative(await realpath(this.directory), path)
      const file = join(this.directory, below)
      const [model = ''] = below.split(sep)
      if (!modelName.test(model)) return true
      const naming = (await this.#records(join(this.directory, model))).filter((record) => isNamedBy(record, file))
      return naming.every(({ manifest }) => manifest.access === undefined || isOpenTo(manifest, namespace))
    })
  }

  /** Every recorded model whose files are there, sorted by name. Throws ModelError. */
  async list(): Promise<StoredModel[]> {
    return this.#guarded(async () => {
      const found = await Promise.all((await this.#models()).map((model) => this.#complete(model, undefined)))
      return found.flat()
    })
  }

  /**
   * A place for these files; call after `find` found nothing. `beside`: what the store has of this source stays, since it is in use.
   * Throws ModelError.
   */
  async reserve(
    wanted: Wanted,
    files: readonly string[],
    { primary, beside = false }: { readonly primary: string; readonly beside?: boolean },
  ): Promise<Destination> {
    return this.#guarded(async () => {
      const folder = this.#modelFolder(wanted.model)
      const short = wanted.digest.slice(0, shortDigestLength)
      for (let attempt = 0; ; attempt += 1) {
        const base = attempt === 0 ? folder : join(folder, attempt === 1 ? short : `${short}-${attempt}`)
        const destination = await this.#claimAll(wanted, base, { files, primary, beside })
        if (destination) return destination
        this.#log.info('keeping model beside another of the same name', {
          model: wanted.model,
          source: shownSource(wanted.source),
          folder: base,
        })
      }
    })
  }

  /** Puts the moment down at which a server was started with it. */
  async markUsed({ manifestPath: path }: StoredModel): Promise<void> {
    try {
      const state = await readManifest(path)
      if (state.kind === 'valid') await writeManifest(path, { ...state.manifest, lastUsedAt: this.#time() })
    } catch (error) {
      this.#log.debug('use of a model cannot be recorded', { path, error })
    }
  }

  /** Adds what has been found out about a complete model. Throws ModelError. */
  async amend(stored: StoredModel, changes: Partial<Manifest>): Promise<StoredModel> {
    return this.#guarded(async () => {
      const manifest = { ...stored.manifest, ...changes }
      await writeManifest(stored.manifestPath, manifest)
      return { ...stored, manifest }
    })
  }

  /** Deletes what the record names, the record, and the folders that are empty then. Throws ModelError. */
  async remove({ model, folder, manifest, manifestPath: record }: StoredModel): Promise<void> {
    return this.#guarded(async () => {
      const root = this.#modelFolder(model)
      await requireInside(this.directory, folder)
      await rm(record, { force: true })
      for (const { path } of manifest.files) {
        const file = join(folder, path)
        if (!(await isInside(this.directory, dirname(file)))) continue
        await rm(file, { force: true })
        await removeEmpty(dirname(file), root)
      }
      await removeEmpty(folder, root)
      await rmdir(root).catch(() => undefined)
    })
  }

  /** Newest first. `digest` undefined = of any source. */
  async #complete(model: string, digest: string | undefined): Promise<StoredModel[]> {
    const folder = this.#modelFolder(model)
    await requireInside(this.directory, folder)
    const records = await this.#records(folder)
    const meant = records.filter(({ manifest }) => digest === undefined || manifest.sourceSha256 === digest)
    const stored = await Promise.all(meant.map((record) => this.#stored(model, record)))
    return stored
      .filter((one) => one !== undefined)
      .sort((a, b) => (a.manifest.completedAt < b.manifest.completedAt ? 1 : -1))
  }

  /** Undefined where the files are not what the record says. */
  async #stored(model: string, { path: record, manifest }: Recorded): Promise<StoredModel | undefined> {
    const folder = dirname(record)
    let sizeBytes = 0
    for (const file of manifest.files) {
      const path = join(folder, file.path)
      const size = await this.#sizeOf(path)
      if (size === 0) return undefined
      if (size !== file.sizeBytes && manifest.origin === 'downloaded') {
        this.#log.warn('model file has not the recorded size, fetching it again', {
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
      path: manifest.primary === '' ? folder : join(folder, manifest.primary),
      mmproj: manifest.mmproj === undefined ? undefined : join(folder, manifest.mmproj),
      sizeBytes,
      manifest,
      folder,
      manifestPath: record,
    }
  }

  /** 0 where there is no such file, or it is not in the store. */
  async #sizeOf(path: string): Promise<number> {
    const found = await statIfThere(path)
    if (found?.isFile() !== true || !(await isInside(this.directory, path))) return 0
    return found.size
  }

  /** Of a Model's folder and the folders of its other sources. */
  async #records(folder: string): Promise<Recorded[]> {
    const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
    const below = entries.filter((entry) => entry.isDirectory() && sourceFolder.test(entry.name))
    const deeper = await Promise.all(below.map(({ name }) => this.#recordsIn(join(folder, name))))
    return [...(await this.#recordsIn(folder)), ...deeper.flat()]
  }

  /** Sets broken ones aside. */
  async #recordsIn(folder: string): Promise<Recorded[]> {
    const names = await readdir(folder).catch(() => [])
    const read = names
      .filter((name) => name.endsWith(manifestSuffix))
      .map(async (name) => {
        const path = join(folder, name)
        const state = await readManifest(path)
        if (state.kind === 'broken') await this.#setAside(path, state.why)
        return state.kind === 'valid' ? [{ path, manifest: state.manifest }] : []
      })
    return (await Promise.all(read)).flat()
  }

  async #setAside(path: string, why: string): Promise<void> {
    try {
      await setManifestAside(path)
      this.#log.warn('broken record of a model set aside', { path: brokenManifestPath(path), why })
    } catch (error) {
      this.#log.warn('broken record of a model cannot be set aside', { path, why, error })
    }
  }

  async #adopt(folder: string, goName: string, wanted: Wanted): Promise<StoredModel | undefined> {
    const shard = parseShard(goName)
    const names = shard === undefined ? [goName] : shardPaths(goName, shard)
    const path = join(folder, goName)
    if (!this.#claim(path, claimOf(wanted))) return undefined
    let recorded = true
    try {
      const files: ManifestFile[] = []
      for (const name of names) {
        const sizeBytes = await this.#unrecorded(folder, name)
        if (sizeBytes === 0) return undefined
        files.push({ path: name, sizeBytes })
      }
      if (expectsGguf(path) && !isGguf(await firstBytes(path))) {
        this.#log.warn('file in the model store is not the model its name promises', { path })
        return undefined
      }
      const record = manifestPath(path)
      const manifest: Manifest = {
        ...this.#facts(wanted, 'adopted'),
        namespace: wanted.namespace,
        files,
        primary: goName,
      }
      recorded = await this.#record(record, manifest)
      const stored = await this.#stored(wanted.model, { path: record, manifest })
      this.#log.info('using model found in the store', {
        path,
        source: shownSource(wanted.source),
        sizeBytes: stored?.sizeBytes,
      })
      return stored
    } finally {
      if (recorded) this.#release(path, claimOf(wanted))
    }
  }

  /** Length of a file of the store that no record names and nothing speaks against; 0 where there is none. */
  async #unrecorded(folder: string, name: string): Promise<number> {
    const path = join(folder, name)
    const records = await this.#recordsIn(folder)
    if (records.some((record) => isNamedBy(record, path))) return 0
    if ((await lstatIfThere(brokenManifestPath(manifestPath(path)))) !== undefined) return 0
    return this.#sizeOf(path)
  }

  /** False where the store cannot be written: the claim in memory then keeps other sources away from the file. */
  async #record(path: string, manifest: Manifest): Promise<boolean> {
    try {
      await writeManifest(path, manifest)
      return true
    } catch (error) {
      this.#log.debug('model found in the store cannot be recorded', { path, error })
      return false
    }
  }

  /** Undefined where one of the places belongs to another model. */
  async #claimAll(
    wanted: Wanted,
    folder: string,
    { files, primary, beside }: { files: readonly string[]; primary: string; beside: boolean },
  ): Promise<Destination | undefined> {
    const record = manifestPath(join(folder, primary === '' ? 'model' : posix.basename(primary)))
    const paths = [record, ...files.map((file) => join(folder, file))]
    const claimed: string[] = []
    const release = () => {
      for (const path of claimed) this.#release(path, claimOf(wanted))
    }
    try {
      for (const path of paths) {
        if (!this.#claim(path, claimOf(wanted))) return (release(), undefined)
        claimed.push(path)
      }
      await requireInside(this.directory, folder)
      const records = await this.#recordsIn(folder)
      if (records.some(({ manifest }) => !isOwn(manifest, wanted))) return (release(), undefined)
      for (const path of paths) {
        if (!(await this.#isFree(path, { records, digest: wanted.digest, beside }))) return (release(), undefined)
      }
      await makeFolder(folder)
      await requireInside(this.directory, folder)
    } catch (error) {
      release()
      throw error
    }
    return {
      folder,
      commit: (arrival) => this.#guarded(() => this.#commit(wanted, record, arrival), sizeOf(arrival)),
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
  async #commit(wanted: Wanted, record: string, arrival: Arrival): Promise<StoredModel> {
    const folder = dirname(record)
    const files = arrival.files.map(({ path, sizeBytes, sha256, etag }) => ({
      path,
      sizeBytes,
      sha256,
      ...(etag !== undefined && { etag }),
    }))
    const { primary, mmproj, revision, header, access } = arrival
    const manifest: Manifest = {
      ...this.#facts(wanted, 'downloaded'),
      namespace: wanted.namespace,
      ...(access !== undefined && { access }),
      files,
      primary,
      ...(mmproj !== undefined && { mmproj }),
      ...(revision !== undefined && { revision }),
      ...(header !== undefined && { header }),
    }
    for (const { path, from } of arrival.files) {
      const to = join(folder, path)
      if (from === undefined || comparable(from) !== comparable(to)) await rm(to, { force: true })
    }
    await writeManifest(record, manifest)
    await syncFolder(folder)
    for (const { path, moveTo } of arrival.files) {
      const to = join(folder, path)
      await makeFolder(dirname(to))
      await requireInside(this.directory, dirname(to))
      await moveTo(to)
      await syncFolder(dirname(to))
      // As earlier versions left them.
      await rm(`${to}.metalbar.partial`, { force: true })
    }
    await rm(brokenManifestPath(record), { force: true })
    const stored = await this.#stored(wanted.model, { path: record, manifest })
    if (stored) return stored
    throw new ModelError(
      'transient',
      'StoreUnusable',
      `What was just written to ${folder} is not there: look whether something else clears the model store ${this.directory}.`,
      { retryAfterMs: localRepairMs },
    )
  }

  async #models(): Promise<string[]> {
    const entries = await readdir(this.directory, { withFileTypes: true }).catch((error: unknown) => {
      if (isAbsence(error)) return []
      throw error
    })
    const inside = entries.map(async (entry) => {
      const isFolder = entry.isDirectory() || entry.isSymbolicLink()
      if (!isFolder || !modelName.test(entry.name) || entry.name.length > 253) return []
      return (await isInside(this.directory, join(this.directory, entry.name))) ? [entry.name] : []
    })
    return (await Promise.all(inside)).flat().sort()
  }

  #modelFolder(model: string): string {
    if (!modelName.test(model) || model.length > 253) {
      throw new ModelError(
        'terminal',
        'BadModelName',
        `${JSON.stringify(model)} is not a name Kubernetes allows for a Model: give it another.`,
      )
    }
    return join(this.directory, model)
  }

  #claim(path: string, claim: string): boolean {
    const key = comparable(path)
    const holder = this.#claims.get(key)
    if (holder !== undefined && holder !== claim) return false
    this.#claims.set(key, claim)
    return true
  }

  #release(path: string, claim: string): void {
    const key = comparable(path)
    if (this.#claims.get(key) === claim) this.#claims.delete(key)
  }

  #facts({ source, digest }: Wanted, origin: Manifest['origin']) {
    return { schema: 2, source: shownSource(source), sourceSha256: digest, completedAt: this.#time(), origin } as const
  }

  #time(): string {
    return new Date(this.#now()).toISOString()
  }

  #guarded<T>(work: () => Promise<T>, neededBytes?: number): Promise<T> {
    return namingStoreErrors(this.directory, work, neededBytes)
  }
}

interface Recorded {
  /** Of the record. */
  readonly path: string
  readonly manifest: Manifest
}

const claimOf = ({ digest, namespace }: Wanted): string => `${digest} ${namespace}`

/** Files without a named owner were left by an earlier version or pulled by a person: the first Model of that name takes them over. */
const isOwn = ({ namespace = '' }: Manifest, wanted: Wanted): boolean =>
  namespace === '' || namespace === wanted.namespace

const modelName = /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/

/** Folder of a source beside the one that has the Model's own. */
const sourceFolder = new RegExp(`^[0-9a-f]{${shortDigestLength}}(-\\d+)?$`)

function isNamedBy({ path: record, manifest }: Recorded, path: string): boolean {
  const folder = dirname(record)
  return manifest.files.some((file) => comparable(join(folder, file.path)) === comparable(path))
}

const sizeOf = ({ files }: Arrival): number => files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)

const isAbsence = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR')

/** From `folder` up to but not including `root`. */
async function removeEmpty(folder: string, root: string): Promise<void> {
  for (let current = folder; isBelow(current, root);) {
    const isEmpty = await rmdir(current).then(
      () => true,
      () => false,
    )
    if (!isEmpty) return
    current = dirname(current)
  }
}
