import { rm } from 'node:fs/promises'
import type { StoredModelView } from '../../contract/models.ts'
import type { Logger } from '../observability/logger.ts'
import { partialKey, readNote, removeDownload, type ContentFetches } from './content-fetches.ts'
import type { ModelUser } from './stored-model.ts'
import type { StoreLeftovers } from './store-leftovers.ts'

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

export interface LeftoversOptions {
  readonly leftovers: StoreLeftovers
  readonly contents: ContentFetches
  /** Undefined while it is not known which services there are. */
  readonly users: () => readonly ModelUser[] | undefined
  /** Models that are being fetched. */
  readonly fetching: () => ReadonlySet<string>
  readonly partialKeepMs: () => number
  readonly log: Logger
  readonly now: () => number
}

/** What the store holds that is no model: partial downloads, and files whose content was wrong. */
export class Leftovers {
  readonly #options: LeftoversOptions
  /** Deletions run one after the other, so that each counts what is left. */
  #limited: Promise<void> = Promise.resolve()

  constructor(options: LeftoversOptions) {
    this.#options = options
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

  /** Whether a partial download of that Model is, or may soon be, continued. */
  #isWanted(model: string): boolean {
    const { users, fetching } = this.#options
    return fetching().has(model) || users()?.some((user) => user.model === model) === true
  }

  async partials(): Promise<Rest[]> {
    const { leftovers: kept, contents, partialKeepMs, now } = this.#options
    const files = (await kept.partials()).filter(({ path }) => partialKey.test(baseOf(path)))
    const keys = new Map(files.map((file) => [file.path.slice(0, keyEnd(file.path)), files]))
    return Promise.all(
      [...keys.keys()].map(async (path) => {
        const own = files.filter((file) => file.path.startsWith(path))
        const note = await readNote(path)
        const isActive = contents.active.has(baseOf(path))
        const changedAt = Math.max(...own.map((file) => file.changedAt))
        const ageMs = now() - changedAt
        const isWanted = isActive || this.#isWanted(note?.model ?? '')
        const isOld = !isWanted && ageMs >= partialKeepMs()
        const view: StoredModelView = {
          name: note?.model ?? '',
          source: note?.source ?? '',
          state: 'partial',
          sizeBytes: own.find((file) => file.path === path)?.sizeBytes ?? 0,
          files: 1,
          path,
          usedBy: [],
          ...(isOld && { prunable: `a partial download that was not continued for ${days(ageMs)}` }),
        }
        const remove = async (): Promise<boolean> => {
          // A download may have continued it since it was listed.
          if (contents.active.has(baseOf(path))) return false
          await removeDownload(path)
          return true
        }
        return { view, remove, changedAt, isWanted }
      }),
    )
  }

  async quarantined(): Promise<Rest[]> {
    const { leftovers: kept, contents } = this.#options
    const files = await kept.quarantined()
    return files.map(({ path, sizeBytes, changedAt }) => ({
      changedAt,
      isWanted: false,
      view: {
        name: '',
        source: '',
        state: 'quarantined',
        sizeBytes,
        files: 1,
        path,
        usedBy: [],
        prunable: 'its content was not what it should be',
      },
      remove: async () => {
        // It is on its way to quarantine yet.
        if (contents.active.has(baseOf(path.slice(0, keyEnd(path))))) return false
        await rm(path, { force: true })
        await rm(`${path}.json`, { force: true })
        return true
      },
    }))
  }
}

/** Enough for what is left of one of the largest models that Macs run, and for a person to look at it; more only fills the disk. */
const maxLeftoverBytes = 64 * 1024 ** 3

const baseOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1)

const keyEnd = (path: string): number => path.lastIndexOf('/') + 1 + (partialKey.exec(baseOf(path))?.[0].length ?? 0)

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
