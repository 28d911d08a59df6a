import { realpath, rm, rmdir } from 'node:fs/promises'
import { dirname, join, posix, relative, sep } from 'node:path'
import PQueue from 'p-queue'
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
import { folderOfOwner, isOpenTo, ownerOfFolder, owners } from './owner.ts'
import {
  brokenSuffix,
  contentRevision,
  isSameRecord,
  manifestSuffix,
  namedBy,
  readManifest,
  recordsIn,
  recordsOf,
  writeRecord,
  type Manifest,
  type ManifestFile,
  type Recorded,
} from './records.ts'

/** Which bytes, for which Model. */
export interface Wanted {
  readonly model: string
  /** The Model's namespace; `''` = a person asks. */
  readonly namespace: string
  /** The Model's `spec.source`. */
  readonly source: string
  /** See `selectionDigest`. */
  readonly digest: string
  /** The owners whose contents it may use besides everybody's, the preferred first. */
  readonly owners: readonly string[]
}

/** A complete model in the store. */
export interface StoredModel {
  /** See `owners`. */
  readonly owner: string
  /** Name of the Model that it was fetched for: its folder. */
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

/** Sorts contents of one source. */
export const newestFirst = (a: StoredModel, b: StoredModel): number =>
  a.manifest.completedAt < b.manifest.completedAt ? 1 : a.manifest.completedAt > b.manifest.completedAt ? -1 : 0

/** A complete, synced file that is to become part of a model. */
export interface Arrived extends ManifestFile {
  readonly sha256: string
  /** Puts the content under this name. */
  readonly moveTo: (path: string) => Promise<void>
}

/** A model that is complete. */
export interface Arrival extends Pick<Manifest, 'mmproj' | 'primary'> {
  readonly owner: string
  readonly files: readonly Arrived[]
}

/** A Model's name, and whose contents are meant. */
type Place = Pick<StoredModel, 'owner' | 'model'>

/**
 * The folder of models: `<store>/<model>/<file>` for what is everybody's, as LLMKube's Go agent lays it out, and `<store>/@<owner>/<model>/<file>`
 * for the rest. A model is found by its owner and source, whatever Model it was fetched for.
 *
 * Every model of ours has a record that names its source and files. Another source, or another content, of a Model gets
 * `<store>/<model>/<short digest>/`. A file without a record is taken only under the very name the Go agent gives this source, and is
 * recorded then, so that no second source can take it. Nothing we have not recorded is ever overwritten or deleted, empty files aside.
 */
export class Store {
  readonly directory: string
  readonly #log: Logger
  readonly #now: () => number
  /** One at a time, so that none undoes another or takes its place. */
  readonly #changes = new PQueue({ concurrency: 1 })
  /** Found files that could not be recorded, and the source that each is taken for until the agent ends. */
  readonly #unrecorded = new Map<string, string>()

  constructor(options: { readonly directory: string; readonly log: Logger; readonly now?: () => number }) {
    this.directory = options.directory
    this.#log = options.log
    this.#now = options.now ?? Date.now
  }

  /**
   * The complete contents of the source that the owners may have: theirs in the order given, then everybody's, each newest first. Those of other
   * Models count where the Model has none of its own. Throws ModelError.
   */
  contents(wanted: Wanted): Promise<readonly StoredModel[]> {
    return this.#guarded(async () => {
      const everybodys = { owner: owners.everybody, model: wanted.model }
      await requireInside(this.directory, this.#folderOf(everybodys))
      const found: StoredModel[] = []
      for (const models of [[wanted.model], undefined]) {
        if (found.length > 0) break
        for (const owner of [...wanted.owners, owners.everybody])
          found.push(...(await this.#complete(owner, wanted.digest, models)))
      }
      const goName = wanted.digest === sourceDigest(wanted.source) ? goAgentFileName(wanted.source) : undefined
      if (found.length > 0 || goName === undefined) return found
      const adopted = await this.#changes.add(() => this.#adopt(wanted, everybodys, goName))
      // Another request may have taken the file meanwhile.
      return adopted ? [adopted] : this.#complete(owners.everybody, wanted.digest)
    })
  }

  /** A file with this content that is the owner's or everybody's, by its record and its length. Throws ModelError. */
  findContent(
    { sha256, sizeBytes }: { readonly sha256: string; readonly sizeBytes?: number | undefined },
    owner: string,
  ): Promise<string | undefined> {
    return this.#guarded(async () => {
      for (const one of new Set([owner, owners.everybody])) {
        for (const { manifest, folder } of await this.#complete(one)) {
          const file = manifest.files.find(
            (each) => each.sha256 === sha256 && each.sizeBytes === (sizeBytes ?? each.sizeBytes),
          )
          const path = file && pathBelow(folder, file.path)
          if (path !== undefined && (await this.#sizeOf(path)) === file?.sizeBytes) return path
        }
      }
      return undefined
    })
  }

  /** Whether a Model of the namespace may name the file, by its real path. Throws ModelError. */
  isOpen(path: string, namespace: string): Promise<boolean> {
    return this.#guarded(async () => {
      const [first = ''] = relative(await realpath(this.directory), path).split(sep)
      return isOpenTo(ownerOfFolder(first), namespace)
    })
  }

  /** Every recorded model whose files are there, sorted by name. Throws ModelError. */
  list(): Promise<StoredModel[]> {
    return this.#guarded(async () => {
      const names = (await entriesOf(this.directory)).map(({ name }) => name)
      const found: StoredModel[] = []
      for (const owner of new Set([owners.everybody, ...names.map(ownerOfFolder)]))
        found.push(...(await this.#complete(owner)))
      return found.sort((a, b) => (a.model < b.model ? -1 : a.model > b.model ? 1 : 0))
    })
  }

  /** Makes what has arrived a model beside all that is there; what the owner has of the source with the same bytes is that model. Throws ModelError. */
  add(wanted: Wanted, arrival: Arrival): Promise<StoredModel> {
    const neededBytes = arrival.files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
    return this.#changing(() => this.#add(wanted, arrival), neededBytes)
  }

  /** Makes it the newest of the contents of its source. Throws ModelError. */
  asNewest(stored: StoredModel): Promise<StoredModel> {
    return this.#changing(() => this.#renewed(stored, {}))
  }

  /** Adds what has been found out about a complete model to what its record says by now. Throws ModelError. */
  amend(stored: StoredModel, changes: (now: Manifest) => Partial<Manifest>): Promise<StoredModel> {
    return this.#changing(async () => {
      const { manifestPath: path, manifest: known } = stored
      const state = await readManifest(path)
      const isSame = state.kind === 'valid' && isSameRecord(state.manifest, known)
      const before = isSame ? state.manifest : known
      const manifest = { ...before, ...changes(before) }
      if (isSame) await writeRecord({ path, manifest })
      return { ...stored, manifest }
    })
  }

  /** Deletes what the record names, the record, and the folders that are empty then; nothing where it is another record by now. Throws ModelError. */
  remove({ folder, manifest, manifestPath: path }: StoredModel): Promise<void> {
    return this.#changing(async () => {
      await requireInside(this.directory, folder)
      const state = await readManifest(path)
      if (state.kind !== 'valid' || isSameRecord(state.manifest, manifest)) await this.#remove({ path, manifest })
    })
  }

  /** The record goes last: a crash in between leaves a record without files, never a file that another source could take. */
  async #remove({ path: record, manifest }: Recorded): Promise<void> {
    const folder = dirname(record)
    for (const { path } of manifest.files) {
      const file = pathBelow(folder, path)
      if (!(await isInside(this.directory, dirname(file)))) continue
      await rm(file, { force: true })
      await removeEmpty(dirname(file), folder)
    }
    await rm(record, { force: true })
    await removeEmpty(folder, this.directory)
  }

  /** Newest first. `digest` absent = of any source; `models` absent = of every Model. */
  async #complete(owner: string, digest?: string, models?: readonly string[]): Promise<StoredModel[]> {
    const found: StoredModel[] = []
    for (const model of models ?? (await this.#modelsOf(owner))) {
      const records = await recordsOf(this.#folderOf({ owner, model }), this.#log)
      for (const record of records.filter(({ manifest }) => digest === undefined || manifest.sourceSha256 === digest)) {
        const stored = await this.#stored({ owner, model }, record)
        if (stored) found.push(stored)
      }
    }
    return found.sort(newestFirst)
  }

  /** Undefined where the files are not what the record says. */
  async #stored(place: Place, { path: record, manifest }: Recorded): Promise<StoredModel | undefined> {
    const folder = dirname(record)
    let total = 0
    for (const { path: name, sizeBytes: recorded } of manifest.files) {
      const path = pathBelow(folder, name)
      const sizeBytes = await this.#sizeOf(path)
      if (sizeBytes === 0) return undefined
      if (sizeBytes !== recorded && manifest.origin !== 'adopted') {
        this.#log.warn('model file has not the recorded size, fetching it again', { path, sizeBytes, recorded })
        return undefined
      }
      total += sizeBytes
    }
    return {
      ...place,
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

  /** Sorted. */
  async #modelsOf(owner: string): Promise<string[]> {
    const root = join(this.directory, folderOfOwner(owner))
    if (!(await isInside(this.directory, root))) return []
    const names: string[] = []
    for (const entry of await entriesOf(root)) {
      const isFolder = entry.isDirectory() || entry.isSymbolicLink()
      if (!isFolder || !isModelName(entry.name)) continue
      if (!entry.isSymbolicLink() || (await isInside(this.directory, join(root, entry.name)))) names.push(entry.name)
    }
    return names.sort()
  }

  #folderOf({ owner, model }: Place): string {
    if (isModelName(model)) return pathBelow(join(this.directory, folderOfOwner(owner)), model)
    throw ModelError.terminal(
      'BadModelName',
      `${JSON.stringify(model)} is not a name Kubernetes allows for a Model: give it another.`,
    )
  }

  async #add(wanted: Wanted, { owner, files, primary, mmproj }: Arrival): Promise<StoredModel> {
    const { model, namespace, digest } = wanted
    const place = { owner, model }
    const manifest: Manifest = {
      ...this.#facts(wanted, namespace === '' ? 'pulled' : 'downloaded'),
      ...{
        primary,
        mmproj,
        files: files.map(({ path, sizeBytes, sha256, etag }) => ({ path, sizeBytes, sha256, etag })),
      },
    }
    const revision = contentRevision(manifest.files)
    const earlier = await this.#complete(owner, digest)
    const twin = earlier.find((one) => contentRevision(one.manifest.files) === revision)
    // A server may name the same bytes anew.
    const etags = new Map(files.map(({ path, etag }) => [path, etag]))
    if (twin) {
      return this.#renewed(twin, {
        files: twin.manifest.files.map((file) => ({ ...file, etag: etags.get(file.path) })),
      })
    }
    const path = await this.#freePlace(wanted, place, manifest)
    const folder = dirname(path)
    await makeFolder(folder)
    await requireInside(this.directory, folder)
    for (const file of files) await rm(pathBelow(folder, file.path), { force: true })
    // The record comes first: a crash in between leaves a record without files, never a file that another source could take.
    const record = { path, manifest: { ...manifest, completedAt: this.#laterThan(earlier) } }
    await writeRecord(record)
    await syncFolder(folder)
    for (const { path: name, moveTo } of files) {
      const to = pathBelow(folder, name)
      await makeFolder(dirname(to))
      await requireInside(this.directory, dirname(to))
      await moveTo(to)
      await syncFolder(dirname(to))
    }
    const stored = await this.#stored(place, record)
    if (stored) return stored
    throw ModelError.untilRepairedHere(
      'StoreUnusable',
      `The files that were just written to ${folder} are gone: check whether something else clears the model store ${this.directory}.`,
    )
  }

  /** Where the record of a new content goes. */
  async #freePlace(wanted: Wanted, place: Place, { files, primary }: Manifest): Promise<string> {
    const root = this.#folderOf(place)
    const short = wanted.digest.slice(0, shortDigestLength)
    const name = (primary === '' ? 'model' : posix.basename(primary)) + manifestSuffix
    for (let attempt = 0; ; attempt += 1) {
      const folder = attempt === 0 ? root : join(root, attempt === 1 ? short : `${short}-${attempt}`)
      await requireInside(this.directory, folder)
      await this.#clearTorn(wanted, place, folder)
      if (await this.#isFree(folder, [name, ...files.map(({ path }) => path)])) {
        if (attempt > 0) this.#log.info('keeping model beside another of the same name', { model: place.model, folder })
        return pathBelow(folder, name)
      }
    }
  }

  /** Removes what a crash, or a person who deleted some of its files, left of a content of the source. */
  async #clearTorn({ digest }: Wanted, place: Place, folder: string): Promise<void> {
    for (const record of await recordsIn(folder, this.#log)) {
      if (record.manifest.sourceSha256 === digest && !(await this.#stored(place, record))) await this.#remove(record)
    }
  }

  /** Whether each path holds nothing but perhaps an empty file. */
  async #isFree(folder: string, names: readonly string[]): Promise<boolean> {
    const taken = new Set((await recordsIn(folder, this.#log)).flatMap(namedBy))
    for (const name of names) {
      const path = pathBelow(folder, name)
      if (taken.has(comparable(path))) return false
      const found = await lstatIfThere(path)
      if (found && !(found.isFile() && found.size === 0)) return false
    }
    return true
  }

  async #renewed(stored: StoredModel, changes: Partial<Manifest>): Promise<StoredModel> {
    const { owner, manifest, manifestPath: path } = stored
    const all = await this.#complete(owner, manifest.sourceSha256)
    const isNewest = all[0]?.manifestPath === path
    const next = { ...manifest, ...changes, ...(!isNewest && { completedAt: this.#laterThan(all) }) }
    await writeRecord({ path, manifest: next })
    return { ...stored, manifest: next }
  }

  /** Now, or just after the newest of the contents where the clock says otherwise. */
  #laterThan([newest]: readonly StoredModel[]): string {
    const last = newest === undefined ? 0 : Date.parse(newest.manifest.completedAt)
    return new Date(Math.max(this.#now(), last + 1)).toISOString()
  }

  /** What a record says of any model. */
  #facts({ source, digest }: Wanted, origin: Manifest['origin']) {
    const completedAt = new Date(this.#now()).toISOString()
    return { schema: 1, source: shownSource(source), sourceSha256: digest, completedAt, origin } as const
  }

  /**
   * Takes a file without a record for this source where it has the name that the Go agent's store gives it. Undefined where there is no such
   * file, or another source has it.
   */
  async #adopt(wanted: Wanted, place: Place, goName: string): Promise<StoredModel | undefined> {
    const folder = this.#folderOf(place)
    const path = pathBelow(folder, goName)
    if ((this.#unrecorded.get(comparable(path)) ?? wanted.digest) !== wanted.digest) return undefined
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
    const record = {
      path: path + manifestSuffix,
      manifest: { ...this.#facts(wanted, 'adopted'), files, primary: goName },
    }
    try {
      await writeRecord(record)
    } catch (error) {
      this.#log.debug('model found in the store cannot be recorded', { path: record.path, error })
      this.#unrecorded.set(comparable(path), wanted.digest)
    }
    const stored = await this.#stored(place, record)
    const facts = { path, source: shownSource(wanted.source), sizeBytes: stored?.sizeBytes }
    this.#log.info('using model found in the store', facts)
    return stored
  }

  /** Length of a file of the store that no record names and nothing speaks against; 0 where there is none. */
  async #unrecordedSize(folder: string, name: string): Promise<number> {
    const path = pathBelow(folder, name)
    if ((await recordsIn(folder, this.#log)).flatMap(namedBy).includes(comparable(path))) return 0
    const record = path + manifestSuffix
    for (const against of [record, record + brokenSuffix]) if ((await lstatIfThere(against)) !== undefined) return 0
    return this.#sizeOf(path)
  }

  #changing<T>(work: () => Promise<T>, neededBytes?: number): Promise<T> {
    return namingStoreErrors(this.directory, () => this.#changes.add(work), neededBytes)
  }

  #guarded<T>(work: () => Promise<T>): Promise<T> {
    return namingStoreErrors(this.directory, work)
  }
}

const modelName = /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/

const isModelName = (name: string): boolean => modelName.test(name) && name.length <= 253

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
