import { realpath, rm, rmdir } from 'node:fs/promises'
import { dirname, join, posix, relative, sep } from 'node:path'
import type { Logger } from '../../observability/logger.ts'
import { syncFolder } from '../../util/files.ts'
import { isBelow, pathBelow } from '../../util/is-below.ts'
import { expectsGguf, firstBytes, isGguf } from '../content-kind.ts'
import { ModelError } from '../errors.ts'
import { parseShard, shardPaths } from '../selection.ts'
import { goAgentFileName, shortDigestLength, shownSource, sourceDigest } from '../source.ts'
import {
  comparable,
  entriesOf,
  isInside,
  lstatIfThere,
  makeFolder,
  namingStoreErrors,
  requireInside,
  statIfThere,
} from './files.ts'
import {
  brokenSuffix,
  isFound,
  isNamedBy,
  isOfOwnServer,
  isOpenTo,
  manifestSuffix,
  newestFirst,
  StoreRecords,
  type Manifest,
  type ManifestFile,
  type Recorded,
} from './records.ts'
import { digestInStamp, removeStamp, stampOf, writeStamp } from './stamp.ts'

/** Which bytes, for which Model. */
export interface Wanted {
  readonly model: string
  /** The Model's namespace; `''` = a person's, not a Model's. */
  readonly namespace: string
  /** The Model's `spec.source`. */
  readonly source: string
  /** See `selectionDigest`. */
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

/** A complete, synced file that is to become part of a model. */
export interface Arrived extends ManifestFile {
  readonly sha256: string
  /** The Model states this checksum. */
  readonly isStated?: boolean | undefined
  /** The file on this machine that has this content already, and keeps it. */
  readonly from?: string | undefined
  /** Puts the content under this name, in place of what stands there. */
  readonly moveTo: (path: string) => Promise<void>
}

/** What is known of all files together. */
export type Arrival = Pick<Manifest, 'access' | 'mmproj' | 'revision' | 'header'> & {
  readonly files: readonly Arrived[]
}

/** Where a model goes. These paths are given to no other caller until `release`. */
export interface Destination {
  readonly folder: string
  /** Makes what has arrived the model, with its record. */
  commit(arrival: Arrival): Promise<StoredModel>
  release(): void
}

interface Place {
  /** The Model's folder. */
  readonly root: string
  /** The Model's folder, or a folder in it for a further source. */
  readonly folder: string
  readonly files: readonly string[]
  /** The file that a runtime is given; empty = the folder. */
  readonly primary: string
  /** What the store has of this source stays, since it is in use. */
  readonly beside: boolean
}

/**
 * The folder of models, laid out so that LLMKube's Go agent finds its files in it: `<store>/<model>/<base name>`.
 *
 * That layout knows neither namespace nor source, so every model of ours has a record that names its source and files, and a file
 * serves that source alone. Another source that wants the same place, or the Model of another namespace, gets
 * `<store>/<model>/<short digest>/`. A record of a file that was found here names no namespace, until its
 * source would give it to one.
 * A file without a record is taken only under the very name the Go agent gives this source, and is recorded then, so
 * that no second source can take it. Nothing we have not recorded is ever overwritten or deleted, empty files aside.
 */
export class Store {
  readonly directory: string
  readonly #log: Logger
  readonly #now: () => number
  readonly #records: StoreRecords
  /** Who is writing a path, or has found a file there that could not be recorded. */
  readonly #claims = new Map<string, string>()

  constructor(options: { readonly directory: string; readonly log: Logger; readonly now?: () => number }) {
    this.directory = options.directory
    this.#log = options.log
    this.#now = options.now ?? Date.now
    this.#records = new StoreRecords(options.log)
  }

  /**
   * The complete model, if the store has it for a Model of this name and source. Of several contents the newest of its namespace's own, else
   * of those that are open to it, else of all. Throws ModelError.
   */
  find(wanted: Wanted): Promise<StoredModel | undefined> {
    return this.#guarded(async () => {
      const found = await this.#complete(wanted.model, wanted.digest)
      const goName = wanted.digest === sourceDigest(wanted.source) ? goAgentFileName(wanted.source) : undefined
      if (found.length > 0 || goName === undefined) return countingFor(found, wanted)[0]
      const adopted = await this.#adopt(wanted, goName)
      // Another request may have taken the file meanwhile.
      return adopted ?? countingFor(await this.#complete(wanted.model, wanted.digest), wanted)[0]
    })
  }

  /** All complete contents of the source that {@link find} chooses from, newest first. Throws ModelError. */
  contents(wanted: Wanted): Promise<readonly StoredModel[]> {
    return this.#guarded(async () => countingFor(await this.#complete(wanted.model, wanted.digest), wanted))
  }

  /** The same source under another Model's name, unless a Secret named its server. Throws ModelError. */
  findElsewhere(wanted: Wanted): Promise<StoredModel | undefined> {
    return this.#guarded(async () => {
      const others = (await this.#models()).filter((model) => model !== wanted.model)
      const found = await Promise.all(others.map((model) => this.#complete(model, wanted.digest)))
      const shared = found.flat().filter(({ manifest }) => !isOfOwnServer(manifest))
      return countingFor(shared, wanted)[0]
    })
  }

  /** A file of the store with this content, by its record and its length; only of records that `isMeant` accepts. Throws ModelError. */
  findContent(
    { sha256, sizeBytes }: { readonly sha256: string; readonly sizeBytes?: number | undefined },
    isMeant: (manifest: Manifest) => boolean,
  ): Promise<string | undefined> {
    return this.#guarded(async () => {
      for (const { manifest, folder } of await this.list()) {
        if (!isMeant(manifest)) continue
        for (const file of manifest.files) {
          if (file.sha256 !== sha256 || (sizeBytes !== undefined && file.sizeBytes !== sizeBytes)) continue
          const path = pathBelow(folder, file.path)
          if ((await this.#sizeOf(path)) === file.sizeBytes) return path
        }
      }
      return undefined
    })
  }

  /** False where the file, by its real path, is of a model that its source did not give to the namespace, or may be. Throws ModelError. */
  isOpen(path: string, namespace: string): Promise<boolean> {
    return this.#guarded(async () => {
      const below = relative(await realpath(this.directory), path)
      const file = join(this.directory, below)
      const [model = ''] = below.split(sep)
      if (!modelName.test(model)) return true
      const folder = join(this.directory, model)
      const naming = (await this.#records.of(folder)).filter((record) => isNamedBy(record, file))
      if (namespace === '') return true
      // A record that cannot be read may have named it.
      if (naming.length === 0) return !(await hasBrokenRecord(file, folder))
      return naming.every(({ manifest }) => isOpenTo(manifest, namespace) || isFound(manifest))
    })
  }

  /** Every recorded model whose files are there, sorted by name. Throws ModelError. */
  list(): Promise<StoredModel[]> {
    return this.#guarded(async () => {
      const found = await Promise.all((await this.#models()).map((model) => this.#complete(model, undefined)))
      return found.flat()
    })
  }

  /**
   * A place for these files; call after `find` found nothing. `beside`: what the store has of this source stays, since it is in use.
   * Throws ModelError.
   */
  reserve(
    wanted: Wanted,
    files: readonly string[],
    { primary, beside = false }: { readonly primary: string; readonly beside?: boolean },
  ): Promise<Destination> {
    return this.#guarded(async () => {
      const root = this.#modelFolder(wanted.model)
      const short = wanted.digest.slice(0, shortDigestLength)
      for (let attempt = 0; ; attempt += 1) {
        const folder = attempt === 0 ? root : join(root, attempt === 1 ? short : `${short}-${attempt}`)
        const destination = await this.#claim(wanted, { root, folder, files, primary, beside })
        if (destination) return destination
        const source = shownSource(wanted.source)
        this.#log.info('keeping model beside another of the same name', { model: wanted.model, source, folder })
      }
    })
  }

  /** Adds what has been found out about a complete model to what its record says by now. Throws ModelError. */
  amend(
    stored: StoredModel,
    changes: (now: Manifest) => Partial<Manifest>,
    { asNewest = false }: { readonly asNewest?: boolean } = {},
  ): Promise<StoredModel> {
    return this.#guarded(async () => {
      const { manifestPath: path, manifest: known } = stored
      const changed = (now: Manifest): Manifest => ({ ...now, ...changes(now) })
      const newestIn = asNewest ? this.#modelFolder(stored.model) : undefined
      const manifest = await this.#records.change({ path, manifest: known }, changed, newestIn)
      return { ...stored, manifest: manifest ?? changed(known) }
    })
  }

  /** What another agent wrote down as the digest of a file of the store, where that can be trusted. */
  async stamped(path: string): Promise<string | undefined> {
    return (await this.#hasOwnStamp(path)) ? digestInStamp(path) : undefined
  }

  /** Writes the digest of a file down for another agent; without a digest it removes what is written there. Told in the log where that cannot be done. */
  async stamp(path: string, sha256: string | undefined): Promise<void> {
    try {
      if (!(await this.#hasOwnStamp(path))) return
      await (sha256 === undefined ? removeStamp(path) : writeStamp(path, sha256))
    } catch (error) {
      this.#log.debug('stamp of a model file not written', { path, error })
    }
  }

  /** Deletes what the record names, the record, and the folders that are empty then; nothing where it is another record by now. Throws ModelError. */
  remove({ model, folder, manifest, manifestPath: record }: StoredModel): Promise<void> {
    return this.#guarded(async () => {
      const root = this.#modelFolder(model)
      await requireInside(this.directory, folder)
      await this.#records.remove({ path: record, manifest }, async () => {
        for (const { path } of manifest.files) {
          const file = pathBelow(folder, path)
          if (!(await isInside(this.directory, dirname(file)))) continue
          await this.stamp(file, undefined)
          await rm(file, { force: true })
          await removeEmpty(dirname(file), root)
        }
      })
      await removeEmpty(folder, root)
      await rmdir(root).catch(() => undefined)
    })
  }

  /** Newest first. `digest` undefined = of any source. */
  async #complete(model: string, digest: string | undefined): Promise<StoredModel[]> {
    const folder = this.#modelFolder(model)
    await requireInside(this.directory, folder)
    const records = await this.#records.of(folder)
    const meant = records.filter(({ manifest }) => digest === undefined || manifest.sourceSha256 === digest)
    const stored = await Promise.all(meant.map((record) => this.#stored(model, record)))
    return stored.filter((one) => one !== undefined).sort((a, b) => newestFirst(a.manifest, b.manifest))
  }

  /** Undefined where the files are not what the record says. */
  async #stored(model: string, { path: record, manifest }: Recorded): Promise<StoredModel | undefined> {
    const folder = dirname(record)
    let total = 0
    for (const { path: name, sizeBytes: recorded } of manifest.files) {
      const path = pathBelow(folder, name)
      const sizeBytes = await this.#sizeOf(path)
      if (sizeBytes === 0) return undefined
      if (sizeBytes !== recorded && manifest.origin === 'downloaded') {
        this.#log.warn('model file has not the recorded size, fetching it again', { path, sizeBytes, recorded })
        return undefined
      }
      total += sizeBytes
    }
    return {
      model,
      path: manifest.primary === '' ? folder : pathBelow(folder, manifest.primary),
      mmproj: manifest.mmproj === undefined ? undefined : pathBelow(folder, manifest.mmproj),
      sizeBytes: total,
      manifest,
      folder,
      manifestPath: record,
    }
  }

  /** 0 where there is no such file, or it is not in the store. */
  async #sizeOf(path: string): Promise<number> {
    const found = await statIfThere(path)
    return found?.isFile() === true && (await isInside(this.directory, path)) ? found.size : 0
  }

  async #models(): Promise<string[]> {
    const entries = await entriesOf(this.directory)
    const inside = entries.map(async (entry) => {
      const isFolder = entry.isDirectory() || entry.isSymbolicLink()
      if (!isFolder || !isModelName(entry.name)) return []
      return (await isInside(this.directory, join(this.directory, entry.name))) ? [entry.name] : []
    })
    return (await Promise.all(inside)).flat().sort()
  }

  #modelFolder(model: string): string {
    if (isModelName(model)) return pathBelow(this.directory, model)
    throw ModelError.terminal(
      'BadModelName',
      `${JSON.stringify(model)} is not a name Kubernetes allows for a Model: give it another.`,
    )
  }

  /** Undefined where one of the paths belongs to another model. */
  async #claim(wanted: Wanted, place: Place): Promise<Destination | undefined> {
    const { folder, files, primary } = place
    const record = pathBelow(folder, primary === '' ? 'model' : posix.basename(primary)) + manifestSuffix
    const paths = [record, ...files.map((file) => pathBelow(folder, file))]
    const claim = `${wanted.digest} ${wanted.namespace}`
    const firstOfOthers = paths.findIndex((path) => !this.#take(path, claim))
    const taken = firstOfOthers === -1 ? paths : paths.slice(0, firstOfOthers)
    const release = (): void => {
      for (const path of taken) this.#release(path, claim)
    }
    let isHeld = false
    try {
      if (firstOfOthers !== -1) return undefined
      if (!(await this.#isFree(wanted, place, paths))) return undefined
      await makeFolder(folder)
      await requireInside(this.directory, folder)
      isHeld = true
    } finally {
      if (!isHeld) release()
    }
    const commit = (arrival: Arrival): Promise<StoredModel> => {
      const neededBytes = arrival.files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
      return namingStoreErrors(this.directory, () => this.#commit(wanted, place, record, arrival), neededBytes)
    }
    return { folder, commit, release }
  }

  /** False where the path is another's. */
  #take(path: string, claim: string): boolean {
    const key = comparable(path)
    if ((this.#claims.get(key) ?? claim) !== claim) return false
    this.#claims.set(key, claim)
    return true
  }

  #release(path: string, claim: string): void {
    const key = comparable(path)
    if (this.#claims.get(key) === claim) this.#claims.delete(key)
  }

  /** Whether each path holds nothing, or what this model may replace. */
  async #isFree(wanted: Wanted, { folder, beside }: Place, paths: readonly string[]): Promise<boolean> {
    await requireInside(this.directory, folder)
    const records = await this.#records.in(folder)
    // Files without a named owner were found here: the first Model of that name takes them over.
    if (records.some(({ manifest: { namespace = wanted.namespace } }) => namespace !== wanted.namespace)) return false
    for (const path of paths) {
      const owner = records.find((record) => record.path === path || isNamedBy(record, path))
      if (owner && (beside || owner.manifest.sourceSha256 !== wanted.digest)) return false
      const found = owner ? undefined : await lstatIfThere(path)
      if (found && !(found.isFile() && found.size === 0)) return false
    }
    return true
  }

  /** The record comes first: a crash in between leaves a record without files (absent), never a file without record (adoptable). */
  async #commit(wanted: Wanted, place: Place, record: string, arrival: Arrival): Promise<StoredModel> {
    const { root, folder, primary } = place
    const { files, access, mmproj, revision, header } = arrival
    const facts: Manifest = {
      ...this.#facts(wanted, 'downloaded'),
      ...{ namespace: wanted.namespace, access, primary, mmproj, revision, header },
      files: files.map(({ path, sizeBytes, sha256, etag }) => ({ path, sizeBytes, sha256, etag })),
    }
    for (const { path, from } of files) {
      const to = pathBelow(folder, path)
      if (from !== undefined && comparable(from) === comparable(to)) continue
      await this.stamp(to, undefined)
      await rm(to, { force: true })
    }
    const manifest = await this.#records.write(record, facts, root)
    await syncFolder(folder)
    for (const { path, moveTo, isStated, sha256 } of files) {
      const to = pathBelow(folder, path)
      await makeFolder(dirname(to))
      await requireInside(this.directory, dirname(to))
      await moveTo(to)
      if (isStated === true) await this.stamp(to, sha256)
      await syncFolder(dirname(to))
    }
    await rm(record + brokenSuffix, { force: true })
    const stored = await this.#stored(wanted.model, { path: record, manifest })
    if (stored) return stored
    throw ModelError.untilRepairedHere(
      'StoreUnusable',
      `The files that were just written to ${folder} are gone: check whether something else clears the model store ${this.directory}.`,
    )
  }

  /** What a record says of any model. */
  #facts({ source, digest }: Wanted, origin: Manifest['origin']) {
    const completedAt = new Date(this.#now()).toISOString()
    return { schema: 1, source: shownSource(source), sourceSha256: digest, completedAt, origin } as const
  }

  /**
   * Takes a file without a record for this source where it has the name that the Go agent's store gives it. It belongs to no namespace yet.
   * Undefined where there is no such file, or another request has it.
   */
  async #adopt(wanted: Wanted, goName: string): Promise<StoredModel | undefined> {
    const folder = this.#modelFolder(wanted.model)
    const path = pathBelow(folder, goName)
    if (!this.#take(path, wanted.digest)) return undefined
    let keepsClaim = false
    try {
      const shard = parseShard(goName)
      const files: ManifestFile[] = []
      for (const name of shard === undefined ? [goName] : shardPaths(goName, shard)) {
        const sizeBytes = await this.#unrecordedSize(folder, name)
        if (sizeBytes === 0) return undefined
        files.push({ path: name, sizeBytes })
      }
      if (expectsGguf(path) && !isGguf(await firstBytes(path))) {
        this.#log.warn('file in the model store is not the model its name promises', { path })
        return undefined
      }
      const manifest: Manifest = { ...this.#facts(wanted, 'adopted'), files, primary: goName }
      const record = { path: path + manifestSuffix, manifest }
      const outcome = await this.#records.add(record).then(
        (isAdded) => (isAdded ? 'recorded' : 'taken'),
        (error: unknown) => {
          this.#log.debug('model found in the store cannot be recorded', { path: record.path, error })
          return 'unrecorded' as const
        },
      )
      if (outcome === 'taken') return undefined
      // The claim in memory then keeps other sources away from the file.
      keepsClaim = outcome === 'unrecorded'
      const stored = await this.#stored(wanted.model, record)
      const facts = { path, source: shownSource(wanted.source), sizeBytes: stored?.sizeBytes }
      this.#log.info('using model found in the store', facts)
      return stored
    } finally {
      if (!keepsClaim) this.#release(path, wanted.digest)
    }
  }

  /** Length of a file of the store that no record names and nothing speaks against; 0 where there is none. */
  async #unrecordedSize(folder: string, name: string): Promise<number> {
    const path = pathBelow(folder, name)
    if ((await this.#records.in(folder)).some((record) => isNamedBy(record, path))) return 0
    if ((await lstatIfThere(path + manifestSuffix + brokenSuffix)) !== undefined) return 0
    return this.#sizeOf(path)
  }

  /** False where a model has a file of the stamp's name: what a server sent says nothing about other files. */
  async #hasOwnStamp(path: string): Promise<boolean> {
    if (!(await isInside(this.directory, dirname(path)))) return false
    const [model = ''] = relative(this.directory, path).split(sep)
    const records = await this.#records.of(join(this.directory, model))
    return !records.some((record) => isNamedBy(record, stampOf(path)))
  }

  #guarded<T>(work: () => Promise<T>): Promise<T> {
    return namingStoreErrors(this.directory, work)
  }
}

/** The contents of a source that count for a Model of the namespace: its own, else those open to it, else all; in the order given. */
export function countingFor(
  complete: readonly StoredModel[],
  { namespace }: Pick<Wanted, 'namespace'>,
): readonly StoredModel[] {
  const own = complete.filter(({ manifest }) => manifest.namespace === namespace)
  if (own.length > 0) return own
  const open = complete.filter(({ manifest }) => isOpenTo(manifest, namespace))
  return open.length > 0 ? open : complete
}

const modelName = /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/

const isModelName = (name: string): boolean => modelName.test(name) && name.length <= 253

/** In `folder`, or above it up to `root`. */
async function hasBrokenRecord(folder: string, root: string): Promise<boolean> {
  if ((await entriesOf(folder)).some(({ name }) => name.endsWith(manifestSuffix + brokenSuffix))) return true
  return isBelow(folder, root) && hasBrokenRecord(dirname(folder), root)
}

/** From `folder` up to but not including `root`. */
async function removeEmpty(folder: string, root: string): Promise<void> {
  for (let current = folder; isBelow(current, root); current = dirname(current)) {
    const isEmpty = await rmdir(current).then(
      () => true,
      () => false,
    )
    if (!isEmpty) return
  }
}
