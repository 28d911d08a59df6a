import { readdir, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { z } from 'zod'
import type { StoredModelView } from '../../../contract/models.ts'
import type { Logger } from '../../observability/logger.ts'
import { parseJson, readIfThere, syncFolder, withoutUnfinished } from '../../util/files.ts'
import { pathBelow } from '../../util/is-below.ts'
import { partialKey, readNote, removeDownload } from '../content-fetches.ts'
import { wrongSuffix } from '../download/partial-file.ts'
import { lstatIfThere, makeFolder, namingStoreErrors, ownFolder, requireInside } from './files.ts'
import type { ModelUser } from './places.ts'

/** What the store holds, and how it is deleted. */
export interface Entry {
  readonly view: StoredModelView
  /** False where it is in use by now, and stays. */
  readonly remove: () => Promise<boolean>
}

/** Files that are no model. */
interface Rest extends Entry {
  /** In ms since 1970. */
  readonly changedAt: number
  readonly isWanted: boolean
}

interface RestFile {
  readonly path: string
  readonly sizeBytes: number
  /** In ms since 1970; of a quarantined file when it was quarantined. */
  readonly changedAt: number
}

export interface LeftoversOptions {
  /** The store's. */
  readonly directory: string
  /** Keys of partial downloads that are being continued. */
  readonly active: () => ReadonlySet<string>
  /** Undefined while it is not known which services there are. */
  readonly users: () => readonly ModelUser[] | undefined
  /** Models that are being fetched. */
  readonly fetching: () => ReadonlySet<string>
  readonly partialKeepMs: () => number
  readonly log: Logger
  readonly now: () => number
}

/** Enough for what is left of one of the largest models that Macs run, and for a person to look at it; more only fills the disk. */
const maxLeftoverBytes = 64 * 1024 ** 3

/** What the store holds that is no model: partial downloads, and quarantined files, whose content is wrong. */
export class Leftovers {
  readonly #options: LeftoversOptions
  /** Deletions run one after the other, so that each counts what is left. */
  #limited: Promise<void> = Promise.resolve()

  constructor(options: LeftoversOptions) {
    this.#options = options
  }

  /** The folder of downloads that are not complete; made when asked for. Throws ModelError. */
  partialsFolder(): Promise<string> {
    return this.#made('partials')
  }

  /**
   * Moves a file whose content is not what it should be out of the way, for a person to look at; says where. It is served no more, and
   * deleted when a person asks, when the same download is wrong again, or when quarantined and partial files take too much of the disk.
   * Throws ModelError.
   */
  async quarantine(path: string, why: string, name = basename(path)): Promise<string> {
    const { directory, log, now } = this.#options
    return namingStoreErrors(directory, async () => {
      const folder = await this.#made('quarantine')
      const at = new Date(now()).toISOString()
      const to = pathBelow(folder, `${at.replace(/[:.]/g, '-')}-${name}`)
      await writeFile(`${to}.json`, `${JSON.stringify({ path, why, at }, null, 2)}\n`)
      await rename(path, to)
      await syncFolder(folder)
      log.warn('model file quarantined', { path, to, why })
      if (dirname(path) === this.#folder('partials')) await this.#dropEarlier(path, to)
      return to
    })
  }

  /**
   * Deletes partial downloads that are not being continued, and quarantined files, oldest first, until all of them take no more than
   * {@link maxLeftoverBytes}. Throws ModelError.
   */
  limit(): Promise<void> {
    const work = (): Promise<void> => this.#limit()
    this.#limited = this.#limited.then(work, work)
    return this.#limited
  }

  /** Every partial download. Throws ModelError. */
  async partials(): Promise<Rest[]> {
    const files = (await this.#partialFiles()).filter(({ path }) => partialKey.test(basename(path)))
    const downloads = new Set(files.map(({ path }) => downloadOf(path)))
    return Promise.all(
      [...downloads].map((path) =>
        this.#partial(
          path,
          files.filter((file) => file.path.startsWith(path)),
        ),
      ),
    )
  }

  /** Files that were quarantined, and those that a killed agent left on their way there. Throws ModelError. */
  async quarantined(): Promise<Rest[]> {
    return (await this.#quarantinedFiles()).map(({ path, sizeBytes, changedAt }) => ({
      changedAt,
      isWanted: false,
      view: {
        ...{ name: '', source: '', state: 'quarantined', sizeBytes, files: 1, path, usedBy: [] },
        prunable: 'its content was not what it should be',
      },
      remove: async () => {
        // It is on its way to quarantine yet.
        if (this.#isActive(downloadOf(path))) return false
        await rm(path, { force: true })
        await rm(`${path}.json`, { force: true })
        return true
      },
    }))
  }

  async #limit(): Promise<void> {
    const partials = this.#options.users() === undefined ? [] : await this.partials()
    const all = [...partials, ...(await this.quarantined())].filter(({ isWanted }) => !isWanted)
    let excessBytes = sum(all) - maxLeftoverBytes
    const gone: Entry[] = []
    for (const rest of all.sort((a, b) => a.changedAt - b.changedAt)) {
      if (excessBytes <= 0) break
      if (rest.view.sizeBytes === 0 || !(await rest.remove())) continue
      excessBytes -= rest.view.sizeBytes
      gone.push(rest)
    }
    if (gone.length === 0) return
    this.#options.log.warn('partial downloads and quarantined files removed, since they took too much of the disk', {
      paths: gone.map(({ view }) => view.path),
      bytes: sum(gone),
      limitBytes: maxLeftoverBytes,
    })
  }

  /** `files`: the download and the records beside it. */
  async #partial(path: string, files: readonly RestFile[]): Promise<Rest> {
    const { users, fetching, partialKeepMs, now } = this.#options
    const { model = '', source = '' } = (await readNote(path)) ?? {}
    const changedAt = Math.max(...files.map((file) => file.changedAt))
    const ageMs = now() - changedAt
    const isWanted =
      this.#isActive(path) || fetching().has(model) || users()?.some((user) => user.model === model) === true
    const isOld = !isWanted && ageMs >= partialKeepMs()
    const sizeBytes = files.find((file) => file.path === path)?.sizeBytes ?? 0
    return {
      ...{ changedAt, isWanted },
      view: {
        ...{ name: model, source, state: 'partial', sizeBytes, files: 1, path, usedBy: [] },
        ...(isOld && { prunable: `a partial download that was not continued for ${days(ageMs)}` }),
      },
      remove: async () => {
        // A download may have continued it since it was listed.
        if (this.#isActive(path)) return false
        await removeDownload(path)
        return true
      },
    }
  }

  #isActive(path: string): boolean {
    return this.#options.active().has(basename(path))
  }

  /** Deletes the file quarantined from the same path before: a download that stays wrong would fill the disk with its copies. */
  async #dropEarlier(path: string, last: string): Promise<void> {
    for (const { path: earlier } of await this.#quarantinedFiles()) {
      if (earlier === last) continue
      const note = quarantineNote.safeParse(parseJson((await readIfThere(`${earlier}.json`)) ?? '')).data
      if (note?.path !== path) continue
      await rm(earlier, { force: true })
      await rm(`${earlier}.json`, { force: true })
    }
  }

  /** Those that are not known to be wrong, the records beside them included. */
  #partialFiles(): Promise<RestFile[]> {
    return this.#filesOf('partials', (name) => !name.endsWith(wrongSuffix))
  }

  async #quarantinedFiles(): Promise<RestFile[]> {
    const kept = await this.#filesOf('quarantine', (name) => !name.endsWith('.json'))
    const dated = kept.map(async (file) => {
      const note = await lstatIfThere(`${file.path}.json`)
      return { ...file, changedAt: note?.mtimeMs ?? file.changedAt }
    })
    return [...(await Promise.all(dated)), ...(await this.#filesOf('partials', (name) => name.endsWith(wrongSuffix)))]
  }

  #filesOf(name: FolderName, isMeant: (name: string) => boolean): Promise<RestFile[]> {
    return namingStoreErrors(this.#options.directory, async () => {
      const folder = this.#folder(name)
      const names = await withoutUnfinished(folder, await readdir(folder).catch(() => []))
      const files = names.filter(isMeant).map(async (file) => {
        const path = join(folder, file)
        const found = await lstatIfThere(path)
        return found?.isFile() === true ? [{ path, sizeBytes: found.size, changedAt: found.mtimeMs }] : []
      })
      return (await Promise.all(files)).flat()
    })
  }

  #folder(name: FolderName): string {
    return join(this.#options.directory, ownFolder, name)
  }

  async #made(name: FolderName): Promise<string> {
    const folder = this.#folder(name)
    await makeFolder(folder)
    await requireInside(this.#options.directory, folder)
    return folder
  }
}

type FolderName = 'partials' | 'quarantine'

/** Beside every quarantined file, among what a person wants to know. */
const quarantineNote = z.object({
  /** Where it was. */
  path: z.string(),
})

/** The partial download that a file belongs to, by its name. */
const downloadOf = (path: string): string => join(dirname(path), partialKey.exec(basename(path))?.[0] ?? '')

/** Those of them that could be deleted, and are. */
export async function deleted(entries: readonly Entry[]): Promise<Entry[]> {
  const gone: Entry[] = []
  for (const entry of entries) if (await entry.remove()) gone.push(entry)
  return gone
}

export const sum = (entries: readonly Entry[]): number => entries.reduce((bytes, { view }) => bytes + view.sizeBytes, 0)

const days = (ms: number): string => {
  const hours = Math.round(ms / 3_600_000)
  return hours < 48 ? `${hours} h` : `${Math.round(hours / 24)} days`
}
