import PQueue from 'p-queue'
import { readdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Logger } from '../observability/logger.ts'
import { withoutUnfinished } from '../util/files.ts'
import { pathBelow } from '../util/is-below.ts'
import {
  brokenManifestPath,
  manifestSuffix,
  readManifest,
  setManifestAside,
  writeManifest,
  type Manifest,
} from './manifest.ts'
import { shortDigestLength } from './source.ts'
import { comparable, ifThere, lstatIfThere } from './store-paths.ts'

export interface Recorded {
  /** Of the record. */
  readonly path: string
  readonly manifest: Manifest
}

/** The records of a store. One is changed at a time, so that no change undoes another that came meanwhile. */
export class StoreRecords {
  readonly #log: Logger
  readonly #changes = new PQueue({ concurrency: 1 })

  constructor(log: Logger) {
    this.#log = log
  }

  /** Reads the records of a Model's folder and of its other sources' folders. Throws where they cannot be read: a file without its record would be open to every namespace. */
  async of(folder: string): Promise<Recorded[]> {
    const entries = (await ifThere(readdir(folder, { withFileTypes: true }))) ?? []
    const below = entries.filter((entry) => entry.isDirectory() && sourceFolder.test(entry.name))
    const deeper = await Promise.all(below.map(({ name }) => this.in(join(folder, name))))
    return [...(await this.in(folder)), ...deeper.flat()]
  }

  /** Sets broken ones aside, and removes those that a killed agent left unfinished. */
  async in(folder: string): Promise<Recorded[]> {
    const names = await withoutUnfinished(folder, (await ifThere(readdir(folder))) ?? [])
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

  /** Makes it the newest of its source in the Model's folder. */
  async write(path: string, manifest: Manifest, folder: string): Promise<Manifest> {
    return this.#changes.add(async () => {
      const newest = await this.#asNewest({ path, manifest }, folder)
      await writeManifest(path, newest)
      return newest
    })
  }

  /** False where there is a record by now. */
  async add(path: string, manifest: Manifest): Promise<boolean> {
    return this.#changes.add(async () => {
      if ((await lstatIfThere(path)) !== undefined) return false
      await writeManifest(path, manifest)
      return true
    })
  }

  /**
   * What the record says after the change, which is made of what it says by now; undefined where it is another record by now. With
   * `newestIn`, the Model's folder, it is the newest of its source from then on.
   */
  async change(
    { path, manifest: known }: Recorded,
    changed: (now: Manifest) => Manifest,
    newestIn?: string,
  ): Promise<Manifest | undefined> {
    return this.#changes.add(async () => {
      const state = await readManifest(path)
      if (state.kind !== 'valid' || !isSameRecord(state.manifest, known)) return undefined
      const next = changed(state.manifest)
      const manifest = newestIn === undefined ? next : await this.#asNewest({ path, manifest: next }, newestIn)
      await writeManifest(path, manifest)
      return manifest
    })
  }

  /**
   * Deletes the record after what it names, unless it is another record by now. A crash in between leaves a record without files, never a
   * file that no record keeps from other namespaces.
   */
  async remove({ path, manifest }: Recorded, removeFiles: () => Promise<void>): Promise<void> {
    await this.#changes.add(async () => {
      const state = await readManifest(path)
      if (state.kind === 'valid' && !isSameRecord(state.manifest, manifest)) return
      await removeFiles()
      await rm(path, { force: true })
    })
  }

  async #asNewest({ path, manifest }: Recorded, folder: string): Promise<Manifest> {
    const others = (await this.of(folder)).filter(
      (other) => other.path !== path && other.manifest.sourceSha256 === manifest.sourceSha256,
    )
    const last = Math.max(0, ...others.map((other) => other.manifest.sequence ?? 0))
    return { ...manifest, sequence: Math.max(last + 1, manifest.sequence ?? 0) }
  }

  async #setAside(path: string, why: string): Promise<void> {
    try {
      await setManifestAside(path)
      this.#log.warn('broken record of a model set aside', { path: brokenManifestPath(path), why })
    } catch (error) {
      this.#log.warn('broken record of a model cannot be set aside', { path, why, error })
    }
  }
}

export function isNamedBy({ path: record, manifest }: Recorded, path: string): boolean {
  const folder = dirname(record)
  return manifest.files.some((file) => comparable(pathBelow(folder, file.path)) === comparable(path))
}

/** Folder of a further source of a Model, where the Model's own folder holds another source. */
const sourceFolder = new RegExp(`^[0-9a-f]{${shortDigestLength}}(-\\d+)?$`)

const isSameRecord = (a: Manifest, b: Manifest): boolean =>
  a.sourceSha256 === b.sourceSha256 && a.sequence === b.sequence && a.completedAt === b.completedAt
