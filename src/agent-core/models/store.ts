import { constants, type Stats } from 'node:fs'
import { access, lstat, mkdir, open, realpath, rename, rm, stat } from 'node:fs/promises'
import { dirname, join, sep } from 'node:path'
import type { Logger } from '../observability/logger.ts'
import { expectsGguf, isGguf } from './content.ts'
import { storeError } from './disk.ts'
import { errorCode, localRepairMs, ModelError } from './errors.ts'
import { firstBytes } from './local-file.ts'
import { brokenSidecarPath, readSidecar, setSidecarAside, writeSidecar, type Sidecar } from './sidecar.ts'
import { goAgentFileName, modelFileName, shortDigestLength, shownSource, sourceDigest } from './source.ts'

export interface StoredModel {
  path: string
  sizeBytes: number
}

/** Where a download goes. Nobody else is given these paths until `release`. */
export interface Destination {
  path: string
  partialPath: string
  /** Makes a complete and synced partial file the model, with its record. */
  commit(sizeBytes: number): Promise<StoredModel>
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
 * That layout knows neither namespace nor source, so every file of ours has a record that names its source, and a file
 * serves that source alone. Another source that wants the same place gets `<store>/<model>/<short digest>/<base name>`.
 * A file without a record is taken only under the very name the Go agent gives this source, and is recorded then, so
 * that no second source can take it. Nothing we have not recorded is ever overwritten or deleted, empty files aside.
 */
export class Store {
  readonly directory: string
  readonly #log: Logger
  readonly #now: () => number
  /** Comparable path → digest of the source that may use it: what is being written, and what could not be recorded. */
  readonly #claims = new Map<string, string>()

  constructor({ directory, log, now = Date.now }: StoreOptions) {
    this.directory = directory
    this.#log = log
    this.#now = now
  }

  /** The source's complete file, if the store has one. Throws ModelError. */
  async find(model: string, source: string): Promise<StoredModel | undefined> {
    const folder = this.#modelFolder(model)
    const digest = sourceDigest(source)
    const fileName = modelFileName(source)
    for (const path of [join(folder, fileName), ownPath(folder, digest, fileName)]) {
      const recorded = await this.#findRecorded(path, digest)
      if (recorded !== undefined) return recorded
    }
    const goName = goAgentFileName(source)
    return goName === undefined ? undefined : this.#adopt(join(folder, goName), source)
  }

  /** A place for the source's file; call after `find` found nothing. Throws ModelError. */
  async reserve(model: string, source: string): Promise<Destination> {
    const folder = this.#modelFolder(model)
    const digest = sourceDigest(source)
    const fileName = modelFileName(source)
    const standard = join(folder, fileName)
    if (this.#claim(standard, digest)) {
      const standing = await this.#inspect(standard).catch((error: unknown) => {
        this.#release(standard, digest)
        throw error
      })
      if (standing.kind === 'free' || (standing.kind === 'recorded' && standing.sidecar.sourceSha256 === digest)) {
        return this.#destination(standard, source)
      }
      this.#release(standard, digest)
      this.#log.info('keeping model beside another source of the same name', {
        model,
        source: shownSource(source),
        standing: standing.kind === 'blocked' ? standing.why : standing.kind,
      })
    }
    const own = ownPath(folder, digest, fileName)
    this.#claim(own, digest)
    return this.#destination(own, source)
  }

  async #destination(path: string, source: string): Promise<Destination> {
    const digest = sourceDigest(source)
    const partialPath = `${path}.metalbar.partial`
    try {
      await makeFolder(dirname(path))
      await this.#requireInside(dirname(path))
    } catch (error) {
      this.#release(path, digest)
      throw await storeError(error, this.directory)
    }
    return {
      path,
      partialPath,
      commit: (sizeBytes) => this.#commit(path, partialPath, source, sizeBytes),
      release: () => this.#release(path, digest),
    }
  }

  /** The record comes first: a crash in between leaves a record without file (absent), never a file without record (adoptable). */
  async #commit(path: string, partialPath: string, source: string, sizeBytes: number): Promise<StoredModel> {
    try {
      await rm(path, { force: true })
      await writeSidecar(path, this.#sidecar(source, sizeBytes, 'downloaded'))
      await syncFolder(dirname(path))
      await rename(partialPath, path)
      await syncFolder(dirname(path))
      await rm(brokenSidecarPath(path), { force: true })
      return { path, sizeBytes }
    } catch (error) {
      await rm(partialPath, { force: true })
      throw await storeError(error, this.directory, sizeBytes)
    }
  }

  async #findRecorded(path: string, digest: string): Promise<StoredModel | undefined> {
    const standing = await this.#inspect(path)
    if (standing.kind !== 'recorded' || standing.sidecar.sourceSha256 !== digest || standing.sizeBytes === 0)
      return undefined
    const { sidecar, sizeBytes } = standing
    if (sidecar.sizeBytes !== sizeBytes && sidecar.origin === 'downloaded') {
      this.#log.warn('model file has not the recorded size, fetching it again', {
        path,
        sizeBytes,
        recorded: sidecar.sizeBytes,
      })
      return undefined
    }
    return { path, sizeBytes }
  }

  async #adopt(path: string, source: string): Promise<StoredModel | undefined> {
    const digest = sourceDigest(source)
    if (!this.#claim(path, digest)) return undefined
    let recorded = true
    try {
      const standing = await this.#inspect(path)
      if (standing.kind !== 'unrecorded') return undefined
      if (expectsGguf(path) && !isGguf(await firstBytes(path))) {
        this.#log.warn('file in the model store is not the model its name promises', { path })
        return undefined
      }
      recorded = await this.#record(path, source, standing.sizeBytes)
      this.#log.info('using model found in the store', {
        path,
        source: shownSource(source),
        sizeBytes: standing.sizeBytes,
      })
      return { path, sizeBytes: standing.sizeBytes }
    } catch (error) {
      throw await storeError(error, this.directory)
    } finally {
      if (recorded) this.#release(path, digest)
    }
  }

  /** False where the store cannot be written: the claim in memory then keeps other sources away from the file. */
  async #record(path: string, source: string, sizeBytes: number): Promise<boolean> {
    try {
      await writeSidecar(path, this.#sidecar(source, sizeBytes, 'adopted'))
      return true
    } catch (error) {
      this.#log.debug('model found in the store cannot be recorded', { path, error })
      return false
    }
  }

  /** What stands at a path. Sets a broken record aside. */
  async #inspect(path: string): Promise<Standing> {
    try {
      await this.#requireInside(dirname(path))
      const state = await readSidecar(path)
      if (state.kind === 'broken') await this.#setAside(path, state.why)
      const file = await lstatIfThere(path)
      if (state.kind === 'valid' && file === undefined)
        return { kind: 'recorded', sidecar: state.sidecar, sizeBytes: 0 }
      if (file === undefined) return { kind: 'free' }
      if (file.isSymbolicLink() && !(await this.#isInside(path)))
        return blocked('a symbolic link that leaves the store')
      const target = await statIfThere(path)
      if (target?.isFile() !== true) return blocked('not a regular file')
      if (state.kind === 'valid') return { kind: 'recorded', sidecar: state.sidecar, sizeBytes: target.size }
      if (target.size === 0) return { kind: 'free' }
      if (state.kind === 'broken' || (await lstatIfThere(brokenSidecarPath(path))) !== undefined) {
        return blocked('a file whose record is broken')
      }
      return { kind: 'unrecorded', sizeBytes: target.size }
    } catch (error) {
      throw await storeError(error, this.directory)
    }
  }

  async #setAside(path: string, why: string): Promise<void> {
    try {
      await setSidecarAside(path)
      this.#log.warn('broken record of a model set aside', { path: brokenSidecarPath(path), why })
    } catch (error) {
      this.#log.warn('broken record of a model cannot be set aside', { path, why, error })
    }
  }

  #modelFolder(model: string): string {
    if (!/^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/.test(model) || model.length > 253) {
      throw new ModelError(
        'terminal',
        'BadModelName',
        `${JSON.stringify(model)} is not a name Kubernetes allows for a Model: give it another.`,
      )
    }
    return join(this.directory, model)
  }

  async #requireInside(folder: string): Promise<void> {
    if (await this.#isInside(folder)) return
    throw new ModelError(
      'transient',
      'StoreEscape',
      `${folder} is a symbolic link that leaves the model store ${this.directory}: replace it by a folder, or give the model's absolute path as spec.source.`,
      { retryAfterMs: localRepairMs },
    )
  }

  /** What does not exist yet is where its nearest existing folder is. */
  async #isInside(path: string): Promise<boolean> {
    const root = await realpathIfThere(this.directory)
    if (root === undefined) return true
    for (let existing = path; ; existing = dirname(existing)) {
      const real = await realpathIfThere(existing)
      if (real !== undefined) return real === root || real.startsWith(root.endsWith(sep) ? root : root + sep)
    }
  }

  #claim(path: string, digest: string): boolean {
    const key = comparable(path)
    const holder = this.#claims.get(key)
    if (holder !== undefined && holder !== digest) return false
    this.#claims.set(key, digest)
    return true
  }

  #release(path: string, digest: string): void {
    const key = comparable(path)
    if (this.#claims.get(key) === digest) this.#claims.delete(key)
  }

  #sidecar(source: string, sizeBytes: number, origin: Sidecar['origin']): Sidecar {
    return {
      source: shownSource(source),
      sourceSha256: sourceDigest(source),
      sizeBytes,
      completedAt: new Date(this.#now()).toISOString(),
      origin,
    }
  }
}

type Standing =
  | { kind: 'free' }
  | { kind: 'recorded'; sidecar: Sidecar; /** 0 = there is no file. */ sizeBytes: number }
  | { kind: 'unrecorded'; sizeBytes: number }
  | { kind: 'blocked'; why: string }

function blocked(why: string): Standing {
  return { kind: 'blocked', why }
}

function ownPath(folder: string, digest: string, fileName: string): string {
  return join(folder, digest.slice(0, shortDigestLength), fileName)
}

/** Volumes of macOS compare names without case and Unicode form. */
function comparable(path: string): string {
  return path.normalize('NFC').toLowerCase()
}

async function realpathIfThere(path: string): Promise<string | undefined> {
  return ifThere(realpath(path))
}

async function lstatIfThere(path: string): Promise<Stats | undefined> {
  return ifThere(lstat(path))
}

async function statIfThere(path: string): Promise<Stats | undefined> {
  return ifThere(stat(path))
}

async function ifThere<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked
  } catch (error) {
    const code = errorCode(error)
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw error
  }
}

/** With its parents. `mkdir` calls a read-only volume ENOENT here; asking for the right to write tells what it is. */
async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o755 })
  } catch (error) {
    let existing = path
    while ((await lstatIfThere(existing)) === undefined) existing = dirname(existing)
    await access(existing, constants.W_OK)
    throw error
  }
}

/** Makes renames in a folder survive a power cut. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
