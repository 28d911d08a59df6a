import { createHash } from 'node:crypto'
import { realpath, rename, rm, rmdir } from 'node:fs/promises'
import { dirname, join, relative, sep } from 'node:path'
import PQueue from 'p-queue'
import type { Logger } from '../../observability/logger.ts'
import { stateOfFile, syncFolder } from '../../util/files.ts'
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
  ownFolder,
  requireInside,
  statIfThere,
} from './files.ts'
import { folderOfOwner, isOpenTo, ownerOfFolder, owners } from './owner.ts'
import {
  contentRevision,
  isSameContent,
  readManifest,
  recordSuffix,
  writeManifest,
  type Manifest,
  type ManifestFile,
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

/** The record of a content, in its folder. */
const recordName = `model${recordSuffix}`
/** The folder of a content that is not complete. */
const newSuffix = '.new'

/**
 * The folder of models. Each content that we fetched has a folder of its own, `<store>/@<owner>/<model>/<short digest>/`, complete with its record or
 * not there; it is found by its owner and source, whatever Model it was fetched for. What LLMKube's Go agent or a person put there as
 * `<store>/<model>/<file>` is taken for the first source that the Go agent would keep under this very name; it is recorded in our own
 * folder, and never written to. What there is is read from the disk once.
 */
export class Store {
  readonly directory: string
  readonly #log: Logger
  readonly #now: () => number
  /** One at a time, so that none undoes another or takes its place. */
  readonly #changes = new PQueue({ concurrency: 1 })
  /** By the paths of their records, whether their files are still there or not. */
  #known: Promise<Map<string, StoredModel>> | undefined
  #isCleared = false

  constructor(options: { readonly directory: string; readonly log: Logger; readonly now?: () => number }) {
    this.directory = options.directory
    this.#log = options.log
    this.#now = options.now ?? Date.now
  }

  /** Its folder may be another one by now: what there is is read again. */
  forget(): void {
    this.#known = undefined
  }

  /**
   * The complete contents of the source that the owners may have: theirs in the order given, then everybody's, each newest first. Those of other
   * Models count where the Model has none of its own. Throws ModelError.
   */
  contents(wanted: Wanted): Promise<readonly StoredModel[]> {
    return this.#guarded(async () => {
      await requireInside(this.directory, this.#folderOfModel(this.directory, wanted.model))
      const all = await this.#of(({ manifest }) => manifest.sourceSha256 === wanted.digest)
      for (const models of [all.filter(({ model }) => model === wanted.model), all]) {
        const found: StoredModel[] = []
        for (const owner of [...wanted.owners, owners.everybody])
          found.push(...(await this.#present(models.filter((one) => one.owner === owner))))
        if (found.length > 0) return found
      }
      const goName = wanted.digest === sourceDigest(wanted.source) ? goAgentFileName(wanted.source) : undefined
      const adopted = goName !== undefined && (await this.#changes.add(() => this.#adopt(wanted, goName)))
      return adopted ? [adopted] : []
    })
  }

  /** How many models the Models of the namespace fetched, and of how many bytes. Throws ModelError. */
  fetchedBy(namespace: string): Promise<{ readonly models: number; readonly bytes: number }> {
    return this.#guarded(async () => {
      const all = await this.#of(({ manifest }) => manifest.namespace === namespace && manifest.origin === 'downloaded')
      return { models: all.length, bytes: all.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0) }
    })
  }

  /** A file with this content that is the owner's or everybody's, by its record and its length. Throws ModelError. */
  findContent(
    { sha256, sizeBytes }: { readonly sha256: string; readonly sizeBytes?: number | undefined },
    owner: string,
  ): Promise<string | undefined> {
    return this.#guarded(async () => {
      for (const { manifest, folder } of await this.#of(
        (one) => one.owner === owner || one.owner === owners.everybody,
      )) {
        for (const file of manifest.files) {
          if (file.sha256 !== sha256 || file.sizeBytes !== (sizeBytes ?? file.sizeBytes)) continue
          const path = pathBelow(folder, file.path)
          const isSame = file.hashedState === undefined || (await stateOf(path)) === file.hashedState
          if (isSame && (await this.#sizeOf(path)) === file.sizeBytes) return path
        }
      }
      return undefined
    })
  }

  /** Whether a Model of the namespace may name the file, by its real path. Throws ModelError. */
  isOpen(path: string, namespace: string): Promise<boolean> {
    return this.#guarded(async () => {
      const [first = ''] = relative(await realpath(this.directory), path).split(sep)
      return isOpenTo(ownerOfFolder(first) ?? owners.everybody, namespace)
    })
  }

  /** Every recorded model whose files are there, sorted by name. Throws ModelError. */
  list(): Promise<StoredModel[]> {
    return this.#guarded(async () => {
      const found = await this.#present(await this.#of(() => true))
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
      const known = await this.#same(stored)
      const { manifest: before } = known ?? stored
      const amended = { ...stored, manifest: { ...before, ...changes(before) } }
      if (known) await this.#record(amended)
      return amended
    })
  }

  /** Deletes its files and its record; nothing where it is another record by now. Throws ModelError. */
  remove(stored: StoredModel): Promise<void> {
    return this.#changing(async () => {
      if (await this.#same(stored)) await this.#remove(stored)
    })
  }

  async #remove({ folder, manifest, manifestPath }: StoredModel): Promise<void> {
    await requireInside(this.directory, folder)
    if (manifest.origin === 'adopted') {
      for (const { path } of manifest.files) {
        const file = pathBelow(folder, path)
        if (await isInside(this.directory, dirname(file))) await rm(file, { force: true })
      }
      await rm(manifestPath, { force: true })
      await this.#removeEmpty(folder)
    } else {
      await rm(folder, { recursive: true, force: true })
      await this.#removeEmpty(dirname(folder))
    }
    ;(await this.#all()).delete(manifestPath)
  }

  /** From `folder` up to but not including the store. */
  async #removeEmpty(folder: string): Promise<void> {
    for (let current = folder; isBelow(current, this.directory); current = dirname(current)) {
      const isEmpty = await rmdir(current).then(
        () => true,
        () => false,
      )
      if (!isEmpty) return
    }
  }

  /** As it is known by now; undefined where it is gone, or another content is in its place. */
  async #same({ manifestPath, manifest }: StoredModel): Promise<StoredModel | undefined> {
    const known = (await this.#all()).get(manifestPath)
    return known && isSameContent(known.manifest, manifest) ? known : undefined
  }

  async #of(isMeant: (stored: StoredModel) => boolean): Promise<StoredModel[]> {
    return [...(await this.#all()).values()].filter(isMeant)
  }

  #all(): Promise<Map<string, StoredModel>> {
    this.#known ??= this.#read().catch((error: unknown) => {
      this.#known = undefined
      throw error
    })
    return this.#known
  }

  async #read(): Promise<Map<string, StoredModel>> {
    const known = new Map<string, StoredModel>()
    const keep = (stored: StoredModel) => known.set(stored.manifestPath, stored)
    for (const { name } of await entriesOf(this.#foundFolder)) {
      const path = join(this.#foundFolder, name)
      const manifest = name.endsWith(recordSuffix) ? await readManifest(path) : undefined
      if (manifest && isModelName(manifest.model))
        keep(this.#stored(join(this.directory, manifest.model), path, manifest))
    }
    for (const { name: ofOwner } of await foldersIn(this.directory)) {
      if (ownerOfFolder(ofOwner) === undefined) continue
      for (const { name: model } of await foldersIn(join(this.directory, ofOwner))) {
        for (const { name } of await foldersIn(join(this.directory, ofOwner, model))) {
          const folder = join(this.directory, ofOwner, model, name)
          const manifest = await readManifest(join(folder, recordName))
          // What a kill left of a content that was being put there.
          if (name.endsWith(newSuffix) && !this.#isCleared) await rm(folder, { recursive: true, force: true })
          else if (manifest) keep(this.#stored(folder, join(folder, recordName), manifest))
          else this.#log.warn('folder of a model has no record that can be read', { folder })
        }
      }
    }
    this.#isCleared = true
    return known
  }

  #stored(folder: string, manifestPath: string, manifest: Manifest): StoredModel {
    const [first = ''] = relative(this.directory, folder).split(sep)
    return {
      ...{ owner: ownerOfFolder(first) ?? owners.everybody, model: manifest.model, folder, manifestPath, manifest },
      path: manifest.primary === '' ? folder : pathBelow(folder, manifest.primary),
      mmproj: manifest.mmproj === undefined ? undefined : pathBelow(folder, manifest.mmproj),
      sizeBytes: manifest.files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    }
  }

  /** Those whose files are there, newest first. */
  async #present(models: readonly StoredModel[]): Promise<StoredModel[]> {
    const found = await Promise.all(models.map((stored) => this.#asItIs(stored)))
    return found.filter((stored) => stored !== undefined).sort(newestFirst)
  }

  /** Undefined where a file is gone, or not as long as was recorded of a file that we fetched. */
  async #asItIs(stored: StoredModel): Promise<StoredModel | undefined> {
    const { folder, manifest } = stored
    const files: ManifestFile[] = []
    for (const file of manifest.files) {
      const path = pathBelow(folder, file.path)
      const sizeBytes = await this.#sizeOf(path)
      if (sizeBytes === 0) return undefined
      if (sizeBytes !== file.sizeBytes && manifest.origin !== 'adopted') {
        const facts = { path, sizeBytes, recorded: file.sizeBytes }
        this.#log.warn('model file has not the recorded size, fetching it again', facts)
        return undefined
      }
      const { sha256: _, hashedState, ...rest } = file
      const isSame = hashedState === undefined || (await stateOf(path)) === hashedState
      files.push(isSame ? { ...file, sizeBytes } : { ...rest, sizeBytes })
    }
    return this.#stored(folder, stored.manifestPath, { ...manifest, files })
  }

  /** 0 where there is no such file, or it is not in the store. */
  async #sizeOf(path: string): Promise<number> {
    const found = await statIfThere(path)
    return found?.isFile() === true && (await isInside(this.directory, path)) ? found.size : 0
  }

  #folderOfModel(root: string, model: string): string {
    if (isModelName(model)) return pathBelow(root, model)
    throw ModelError.terminal(
      'BadModelName',
      `${JSON.stringify(model)} is not a name Kubernetes allows for a Model: give it another.`,
    )
  }

  async #add(wanted: Wanted, { owner, files, primary, mmproj }: Arrival): Promise<StoredModel> {
    const { model, namespace, digest } = wanted
    const recorded = files.map(({ path, sizeBytes, sha256, etag }) => ({ path, sizeBytes, sha256, etag }))
    const origin = namespace === '' ? 'pulled' : 'downloaded'
    const earlier = await this.#of((one) => one.owner === owner && one.manifest.sourceSha256 === digest)
    const present = await this.#present(earlier)
    const twin = present.find((one) => contentRevision(one.manifest.files) === contentRevision(recorded))
    // A server may name the same bytes anew.
    const etags = new Map(files.map(({ path, etag }) => [path, etag]))
    if (twin)
      return this.#renewed(twin, {
        files: twin.manifest.files.map((file) => ({ ...file, etag: etags.get(file.path) })),
      })
    const folder = await this.#freeFolder(owner, model, digest)
    const making = `${folder}${newSuffix}`
    await rm(making, { recursive: true, force: true })
    await makeFolder(making)
    await requireInside(this.directory, making)
    for (const { path: name, moveTo } of files) {
      const to = pathBelow(making, name)
      await makeFolder(dirname(to))
      await moveTo(to)
      await syncFolder(dirname(to))
    }
    const manifest = {
      ...this.#facts(wanted, origin),
      primary,
      mmproj,
      files: recorded,
      completedAt: this.#laterThan(present),
    }
    await writeManifest(join(making, recordName), manifest)
    await rename(making, folder)
    await syncFolder(dirname(folder))
    const stored = this.#stored(folder, join(folder, recordName), manifest)
    ;(await this.#all()).set(stored.manifestPath, stored)
    // What a person deleted some files of was kept for the others.
    const whole = new Set(present.map(({ manifestPath }) => manifestPath))
    whole.add(stored.manifestPath)
    for (const torn of earlier) if (!whole.has(torn.manifestPath)) await this.#remove(torn)
    if (await this.#asItIs(stored)) return stored
    throw ModelError.untilRepairedHere(
      'StoreUnusable',
      `The files that were just written to ${folder} are gone: check whether something else clears the model store ${this.directory}.`,
    )
  }

  /** Where the files of a new content go. */
  async #freeFolder(owner: string, model: string, digest: string): Promise<string> {
    const root = this.#folderOfModel(join(this.directory, folderOfOwner(owner)), model)
    await requireInside(this.directory, root)
    for (let number = 1; ; number += 1) {
      const folder = join(root, `${digest.slice(0, shortDigestLength)}${number === 1 ? '' : `-${number}`}`)
      if ((await lstatIfThere(folder)) === undefined) return folder
    }
  }

  async #renewed(stored: StoredModel, changes: Partial<Manifest>): Promise<StoredModel> {
    const { owner, manifest, manifestPath } = stored
    const all = await this.#present(
      await this.#of((one) => one.owner === owner && one.manifest.sourceSha256 === manifest.sourceSha256),
    )
    const isNewest = all[0]?.manifestPath === manifestPath
    const next = { ...manifest, ...changes, ...(!isNewest && { completedAt: this.#laterThan(all) }) }
    return this.#record({ ...stored, manifest: next })
  }

  async #record(stored: StoredModel): Promise<StoredModel> {
    ;(await this.#all()).set(stored.manifestPath, stored)
    await writeManifest(stored.manifestPath, stored.manifest)
    return stored
  }

  /** Now, or just after the newest of the contents where the clock says otherwise. */
  #laterThan([newest]: readonly StoredModel[]): string {
    const last = newest === undefined ? 0 : Date.parse(newest.manifest.completedAt)
    return new Date(Math.max(this.#now(), last + 1)).toISOString()
  }

  /** What a record says of any model. */
  #facts({ model, namespace, source, digest }: Wanted, origin: Manifest['origin']) {
    const completedAt = new Date(this.#now()).toISOString()
    const which = { model, namespace, source: shownSource(source), sourceSha256: digest }
    return { schema: 1, ...which, completedAt, origin } as const
  }

  get #foundFolder(): string {
    return join(this.directory, ownFolder, 'found')
  }

  /**
   * Takes a file that others put there for this source where it has the name that the Go agent's store gives it. Undefined where there is no such
   * file, or another source has it.
   */
  async #adopt(wanted: Wanted, goName: string): Promise<StoredModel | undefined> {
    const folder = join(this.directory, wanted.model)
    const path = pathBelow(folder, goName)
    const key = createHash('sha256')
      .update(comparable(`${wanted.model}/${goName}`))
      .digest('hex')
    const recordPath = join(this.#foundFolder, `${key}${recordSuffix}`)
    const known = (await this.#all()).get(recordPath)
    if (known) return known.manifest.sourceSha256 === wanted.digest ? this.#asItIs(known) : undefined
    const shard = parseShard(goName)
    const files: ManifestFile[] = []
    for (const name of shard === undefined ? [goName] : shardPaths(goName, shard)) {
      const sizeBytes = await this.#sizeOf(pathBelow(folder, name))
      if (sizeBytes === 0) return undefined
      files.push({ path: name, sizeBytes })
    }
    if (expectsGguf(path) && !isGguf(await firstBytes(path))) {
      this.#log.warn('file in the model store is not the model its name promises', { path })
      return undefined
    }
    const stored = this.#stored(folder, recordPath, { ...this.#facts(wanted, 'adopted'), files, primary: goName })
    ;(await this.#all()).set(recordPath, stored)
    try {
      await makeFolder(this.#foundFolder)
      await writeManifest(recordPath, stored.manifest)
    } catch (error) {
      this.#log.debug('model found in the store cannot be recorded', { path, error })
    }
    this.#log.info('using model found in the store', { path, source: shownSource(wanted.source) })
    return stored
  }

  #changing<T>(work: () => Promise<T>, neededBytes?: number): Promise<T> {
    return namingStoreErrors(this.directory, () => this.#changes.add(work), neededBytes)
  }

  #guarded<T>(work: () => Promise<T>): Promise<T> {
    return namingStoreErrors(this.directory, work)
  }
}

const foldersIn = async (folder: string) => (await entriesOf(folder)).filter((entry) => entry.isDirectory())

const stateOf = (path: string): Promise<string> => stateOfFile(path).catch(() => '')

const modelName = /^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/

const isModelName = (name: string): boolean => modelName.test(name) && name.length <= 253
