import { readdir, realpath, rm, rmdir } from 'node:fs/promises'
import { dirname, join, relative, sep } from 'node:path'
import type { Logger } from '../../observability/logger.ts'
import { isBelow, pathBelow } from '../../util/is-below.ts'
import { ModelError } from '../errors.ts'
import { goAgentFileName, sourceDigest } from '../source.ts'
import { isInside, namingStoreErrors, requireInside } from './files.ts'
import {
  adopt,
  reservePlace,
  sizeInStore,
  StoreClaims,
  storedModel,
  type Destination,
  type StoredModel,
  type StoreParts,
  type Wanted,
} from './places.ts'
import {
  brokenManifestPath,
  isFound,
  isNamedBy,
  isOpenTo,
  manifestSuffix,
  newestFirst,
  StoreRecords,
  type Manifest,
} from './records.ts'

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
 * `<store>/<model>/<short digest>/`. A record of an earlier version and of a file that was found here names no namespace, until its
 * source would give it to one.
 * A file without a record is taken only under the very name the Go agent gives this source, and is recorded then, so
 * that no second source can take it. Nothing we have not recorded is ever overwritten or deleted, empty files aside.
 */
export class Store {
  readonly directory: string
  readonly #parts: StoreParts

  constructor({ directory, log, now = Date.now }: StoreOptions) {
    this.directory = directory
    this.#parts = { directory, log, now, records: new StoreRecords(log), claims: new StoreClaims() }
  }

  /**
   * The complete model, if the store has it for a Model of this name and source. Of several contents the newest of its namespace's own, else
   * of those that are open to it, else of all. Throws ModelError.
   */
  async find(wanted: Wanted): Promise<StoredModel | undefined> {
    return this.#guarded(async () => {
      const folder = this.#modelFolder(wanted.model)
      const complete = await this.#complete(wanted.model, wanted.digest)
      const goName = wanted.digest === sourceDigest(wanted.source) ? goAgentFileName(wanted.source) : undefined
      if (complete.length > 0 || goName === undefined) return countingFor(complete, wanted)[0]
      const adopted = await adopt(this.#parts, { folder, goName }, wanted)
      // Another request may have taken the file meanwhile.
      return adopted ?? countingFor(await this.#complete(wanted.model, wanted.digest), wanted)[0]
    })
  }

  /** All complete contents of the source that {@link find} chooses from, newest first. Throws ModelError. */
  async contents(wanted: Wanted): Promise<readonly StoredModel[]> {
    return this.#guarded(async () => countingFor(await this.#complete(wanted.model, wanted.digest), wanted))
  }

  /** The same source under another Model's name. Throws ModelError. */
  async findElsewhere(wanted: Wanted): Promise<StoredModel | undefined> {
    return this.#guarded(async () => {
      const others = (await this.#models()).filter((model) => model !== wanted.model)
      const found = await Promise.all(others.map((model) => this.#complete(model, wanted.digest)))
      return countingFor(found.flat(), wanted)[0]
    })
  }

  /** A file of the store with this content, by its record and its length; only of records that `isMeant` accepts. Throws ModelError. */
  async findContent(
    { sha256, sizeBytes }: { readonly sha256: string; readonly sizeBytes?: number | undefined },
    isMeant: (manifest: Manifest) => boolean,
  ): Promise<string | undefined> {
    return this.#guarded(async () => {
      for (const stored of await this.list()) {
        if (!isMeant(stored.manifest)) continue
        for (const file of stored.manifest.files) {
          if (file.sha256 !== sha256 || (sizeBytes !== undefined && file.sizeBytes !== sizeBytes)) continue
          const path = pathBelow(stored.folder, file.path)
          if ((await sizeInStore(this.directory, path)) === file.sizeBytes) return path
        }
      }
      return undefined
    })
  }

  /** False where the file, by its real path, is of a model that its source did not give to the namespace, or may be. Throws ModelError. */
  async isOpen(path: string, namespace: string): Promise<boolean> {
    return this.#guarded(async () => {
      const below = relative(await realpath(this.directory), path)
      const file = join(this.directory, below)
      const [model = ''] = below.split(sep)
      if (!modelName.test(model)) return true
      const folder = join(this.directory, model)
      const naming = (await this.#parts.records.of(folder)).filter((record) => isNamedBy(record, file))
      if (namespace === '') return true
      // A record that cannot be read may have named it.
      if (naming.length === 0) return !(await hasBrokenRecord(file, folder))
      return naming.every(({ manifest }) => isOpenTo(manifest, namespace) || isFound(manifest))
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
    return this.#guarded(() =>
      reservePlace(this.#parts, wanted, { root: this.#modelFolder(wanted.model), files, primary, beside }),
    )
  }

  /** Puts the moment down at which a server was started with it. */
  async markUsed(stored: StoredModel): Promise<void> {
    try {
      const lastUsedAt = new Date(this.#parts.now()).toISOString()
      await this.amend(stored, () => ({ lastUsedAt }))
    } catch (error) {
      this.#parts.log.debug('use of a model cannot be recorded', { path: stored.path, error })
    }
  }

  /** Adds what has been found out about a complete model to what its record says by now. Throws ModelError. */
  async amend(
    stored: StoredModel,
    changes: (now: Manifest) => Partial<Manifest>,
    { asNewest = false }: { readonly asNewest?: boolean } = {},
  ): Promise<StoredModel> {
    return this.#guarded(async () => {
      const { manifestPath: path, manifest: known } = stored
      const changed = (now: Manifest): Manifest => ({ ...now, ...changes(now) })
      const newestIn = asNewest ? this.#modelFolder(stored.model) : undefined
      const manifest = await this.#parts.records.change({ path, manifest: known }, changed, newestIn)
      return { ...stored, manifest: manifest ?? changed(known) }
    })
  }

  /** Deletes what the record names, the record, and the folders that are empty then; nothing where it is another record by now. Throws ModelError. */
  async remove({ model, folder, manifest, manifestPath: record }: StoredModel): Promise<void> {
    return this.#guarded(async () => {
      const root = this.#modelFolder(model)
      await requireInside(this.directory, folder)
      await this.#parts.records.remove({ path: record, manifest }, async () => {
        for (const { path } of manifest.files) {
          const file = pathBelow(folder, path)
          if (!(await isInside(this.directory, dirname(file)))) continue
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
    const records = await this.#parts.records.of(folder)
    const meant = records.filter(({ manifest }) => digest === undefined || manifest.sourceSha256 === digest)
    const stored = await Promise.all(meant.map((record) => storedModel(this.#parts, model, record)))
    const now = this.#parts.now()
    return stored.filter((one) => one !== undefined).sort((a, b) => newestFirst(a.manifest, b.manifest, now))
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
    return pathBelow(this.directory, model)
  }

  #guarded<T>(work: () => Promise<T>): Promise<T> {
    return namingStoreErrors(this.directory, work)
  }
}

/** Which contents of a source a Model of the namespace has to do with: its own, else those open to it, else all; in the order given. */
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

const isAbsence = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR')

/** In `folder`, or above it up to `root`. */
async function hasBrokenRecord(folder: string, root: string): Promise<boolean> {
  const names = await readdir(folder).catch((error: unknown) => {
    if (isAbsence(error)) return []
    throw error
  })
  if (names.some((name) => name.endsWith(brokenManifestPath(manifestSuffix)))) return true
  return isBelow(folder, root) && hasBrokenRecord(dirname(folder), root)
}

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
