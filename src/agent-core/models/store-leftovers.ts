import { readdir, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { z } from 'zod'
import type { Logger } from '../observability/logger.ts'
import { parseJson, readIfThere, syncFolder, withoutUnfinished } from '../util/files.ts'
import { pathBelow } from '../util/is-below.ts'
import { namingStoreErrors } from './disk.ts'
import { wrongSuffix } from './download/partial-file.ts'
import { lstatIfThere, makeFolder, ownFolder, requireInside } from './store-paths.ts'

export interface RestFile {
  readonly path: string
  readonly sizeBytes: number
  /** In ms since 1970; of a quarantined file when it was quarantined. */
  readonly changedAt: number
}

export interface StoreLeftoversOptions {
  /** The store's. */
  readonly directory: string
  readonly log: Logger
  readonly now: () => number
}

/** The files that the store keeps beside models: partial downloads, and quarantined files, whose content is wrong. */
export class StoreLeftovers {
  readonly #directory: string
  readonly #log: Logger
  readonly #now: () => number

  constructor({ directory, log, now }: StoreLeftoversOptions) {
    this.#directory = directory
    this.#log = log
    this.#now = now
  }

  /** Of downloads that are not complete; made when asked for. Throws ModelError. */
  partialsFolder(): Promise<string> {
    return this.#made('partials')
  }

  /** Every file of the folder of partial downloads that is not known to be wrong, the notes beside them included. Throws ModelError. */
  async partials(): Promise<RestFile[]> {
    return this.#guarded(() => this.#filesOf('partials', (name) => !name.endsWith(wrongSuffix)))
  }

  /** Files that were quarantined, and those that a killed agent left on their way there. Throws ModelError. */
  async quarantined(): Promise<RestFile[]> {
    return this.#guarded(async () => {
      const kept = await this.#filesOf('quarantine', (name) => !name.endsWith('.json'))
      const dated = kept.map(async (file) => {
        const note = await lstatIfThere(`${file.path}.json`)
        return { ...file, changedAt: note?.mtimeMs ?? file.changedAt }
      })
      return [...(await Promise.all(dated)), ...(await this.#filesOf('partials', (name) => name.endsWith(wrongSuffix)))]
    })
  }

  /**
   * Moves a file whose content is not what it should be out of the way, for a person to look at; says where. It is served no more, and
   * deleted when a person asks, when the same download is wrong again, or when quarantined and partial files take too much of the disk.
   * Throws ModelError.
   */
  async quarantine(path: string, why: string, name = basename(path)): Promise<string> {
    return this.#guarded(async () => {
      const folder = await this.#made('quarantine')
      const at = new Date(this.#now()).toISOString()
      const to = pathBelow(folder, `${at.replace(/[:.]/g, '-')}-${name}`)
      await writeFile(`${to}.json`, `${JSON.stringify({ path, why, at }, null, 2)}\n`)
      await rename(path, to)
      await syncFolder(folder)
      this.#log.warn('model file quarantined', { path, to, why })
      if (dirname(path) === this.#folder('partials')) await this.#dropEarlier(path, to)
      return to
    })
  }

  /** Deletes the file quarantined from the same path before: a download that stays wrong would fill the disk with its copies. */
  async #dropEarlier(path: string, last: string): Promise<void> {
    for (const { path: earlier } of await this.quarantined()) {
      if (earlier === last) continue
      const note = quarantineNote.safeParse(parseJson((await readIfThere(`${earlier}.json`)) ?? '')).data
      if (note?.path !== path) continue
      await rm(earlier, { force: true })
      await rm(`${earlier}.json`, { force: true })
    }
  }

  async #filesOf(name: FolderName, isMeant: (name: string) => boolean): Promise<RestFile[]> {
    const folder = this.#folder(name)
    const names = await withoutUnfinished(folder, await readdir(folder).catch(() => []))
    const files = names.filter(isMeant).map(async (file) => {
      const path = join(folder, file)
      const found = await lstatIfThere(path)
      return found?.isFile() === true ? [{ path, sizeBytes: found.size, changedAt: found.mtimeMs }] : []
    })
    return (await Promise.all(files)).flat()
  }

  #folder(name: FolderName): string {
    return join(this.#directory, ownFolder, name)
  }

  async #made(name: FolderName): Promise<string> {
    const folder = this.#folder(name)
    await makeFolder(folder)
    await requireInside(this.#directory, folder)
    return folder
  }

  #guarded<T>(work: () => Promise<T>): Promise<T> {
    return namingStoreErrors(this.#directory, work)
  }
}

type FolderName = 'partials' | 'quarantine'

/** Beside every quarantined file, among what a person wants to know. */
const quarantineNote = z.object({
  /** Where it was. */
  path: z.string(),
})
