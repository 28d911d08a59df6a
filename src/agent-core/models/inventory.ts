import { rm } from 'node:fs/promises'
import { formatBytes } from '../../contract/format.ts'
import type { StoredModelView } from '../../contract/models.ts'
import type { Logger } from '../observability/logger.ts'
import { partialKey, readNote, removeDownload, type ContentFetches } from './content-fetches.ts'
import type { Store } from './store.ts'
import type { StoredModel, Wanted } from './stored-model.ts'

/** A service whose Model's files are, or will be, in the store. */
export interface ModelUser {
  /** As namespace/name. */
  readonly service: string
  readonly model: string
  /** See `wantedDigest`. */
  readonly digest: string
  /** Neither suspended nor scaled to zero. */
  readonly isActive: boolean
}

export interface InventoryOptions {
  readonly store: Store
  readonly contents: ContentFetches
  /** Undefined while it is not known which services there are. */
  readonly users: () => readonly ModelUser[] | undefined
  /** Models that are being fetched. */
  readonly fetching: () => ReadonlySet<string>
  readonly partialKeepMs: () => number
  readonly log: Logger
  readonly now: () => number
}

export interface Pruned {
  readonly what: readonly string[]
  readonly bytes: number
  /** False while it is not known which services there are: then no complete model is in it. */
  readonly isSure: boolean
}

/** What the store holds, who uses it, and what may go. */
export class Inventory {
  readonly #options: InventoryOptions
  /** One look after the other, so that each counts what is left. */
  #limited: Promise<void> = Promise.resolve()

  constructor(options: InventoryOptions) {
    this.#options = options
  }

  /** Throws ModelError. */
  async list(): Promise<StoredModelView[]> {
    return (await this.#entries()).map(({ view }) => view)
  }

  /** What {@link prune} would give. Throws ModelError. */
  async prunableBytes(): Promise<number> {
    return sum((await this.#entries()).filter(({ view }) => view.prunable !== undefined))
  }

  /** Throws ModelError. */
  async prune({ dryRun }: { readonly dryRun: boolean }): Promise<Pruned> {
    const entries = (await this.#entries()).filter(({ view }) => view.prunable !== undefined)
    const gone = dryRun ? entries : await deleted(entries)
    return {
      what: gone.map(({ view }) => `${view.name || view.path}: ${view.prunable ?? ''}`),
      bytes: sum(gone),
      isSure: this.#options.users() !== undefined,
    }
  }

  /** Rests of downloads that nobody went on with in time. Throws ModelError. */
  async sweep(): Promise<Omit<Pruned, 'isSure'>> {
    const entries = (await this.#partials()).filter(({ view }) => view.prunable !== undefined)
    const gone = await deleted(entries)
    return { what: gone.map(({ view }) => view.name), bytes: sum(gone) }
  }

  /** Deletes rests that nobody goes on with, oldest first, until all of them take no more than {@link maxRestBytes}. Throws ModelError. */
  limit(): Promise<void> {
    const work = (): Promise<void> => this.#limit()
    this.#limited = this.#limited.then(work, work)
    return this.#limited
  }

  /**
   * Puts down that a server was started with the model at `path`, and deletes older contents of its source that belong to the namespace.
   * What a person pulled, and what belongs to nobody, only a person deletes.
   */
  async markUsed({ model, digest, namespace }: Wanted, path: string): Promise<void> {
    const { store, log } = this.#options
    try {
      const stored = (await store.list()).filter((one) => one.model === model && one.manifest.sourceSha256 === digest)
      const used = stored.find((one) => one.path === path)
      if (!used) return
      await store.markUsed(used)
      for (const old of stored) {
        if (old === used || old.manifest.completedAt >= used.manifest.completedAt) continue
        if (old.manifest.namespace !== namespace) continue
        await store.remove(old)
        log.info('older content of a model removed', { model: old.model, path: old.path })
      }
    } catch (error) {
      log.warn('use of a model not recorded', { model, error })
    }
  }

  /** Everything of the Model of this name; a sentence where that must not be. Throws ModelError. */
  async remove(model: string): Promise<{ removed: true; bytes: number } | { removed: false; message: string }> {
    const known = this.#options.users()
    const entries = (await this.#entries()).filter(({ view }) => view.name === model)
    if (entries.length === 0) {
      return { removed: false, message: `There is no model ${model} in the store ${this.#options.store.directory}.` }
    }
    if (known === undefined && entries.some(({ view }) => view.state === 'complete')) {
      return {
        removed: false,
        message: `Which services use the model ${model} is not known until the cluster has answered: try again then.`,
      }
    }
    const active = new Set((known ?? []).filter(({ isActive }) => isActive).map(({ service }) => service))
    const users = new Set(entries.flatMap(({ view }) => view.usedBy).filter((service) => active.has(service)))
    if (users.size > 0) {
      return {
        removed: false,
        message: `The model ${model} is used by ${[...users].sort().join(', ')}: delete or stop ${users.size === 1 ? 'that service' : 'those services'} first.`,
      }
    }
    if (this.#options.fetching().has(model)) {
      return { removed: false, message: `The model ${model} is being downloaded: cancel that first.` }
    }
    const gone = await deleted(entries)
    if (gone.length > 0) return { removed: true, bytes: sum(gone) }
    return {
      removed: false,
      message: `What the store has of the model ${model} is being downloaded for another model: cancel that first.`,
    }
  }

  async #entries(): Promise<Entry[]> {
    const found = await Promise.all([this.#models(), this.#partials(), this.#quarantined()])
    return found.flat()
  }

  async #models(): Promise<Entry[]> {
    const { store, users } = this.#options
    const known = users()
    return (await store.list()).map((stored) => {
      const usedBy = (known ?? []).filter((user) => isUsedBy(stored, user)).map(({ service }) => service)
      const isFree = known !== undefined && usedBy.length === 0
      return {
        view: { ...viewOf(stored), usedBy, ...(isFree && { prunable: 'no service uses it' }) },
        remove: async () => {
          await store.remove(stored)
          return true
        },
      }
    })
  }

  async #limit(): Promise<void> {
    const rests = [...(await this.#partials()), ...(await this.#quarantined())].filter(({ isWanted }) => !isWanted)
    let excessBytes = sum(rests) - maxRestBytes
    const gone: Entry[] = []
    for (const rest of rests.sort((a, b) => a.changedAt - b.changedAt)) {
      if (excessBytes <= 0) break
      if (rest.view.sizeBytes === 0 || !(await rest.remove())) continue
      excessBytes -= rest.view.sizeBytes
      gone.push(rest)
    }
    if (gone.length === 0) return
    this.#options.log.warn('rests of downloads and quarantined files removed, since they took too much of the disk', {
      paths: gone.map(({ view }) => view.path),
      bytes: sum(gone),
      limitBytes: maxRestBytes,
    })
  }

  /** Whether the rest of a download of that Model is, or may soon be, gone on with. */
  #isWanted(model: string | undefined): boolean {
    const known = this.#options.users()
    if (known === undefined || model === undefined) return known === undefined
    return this.#options.fetching().has(model) || known.some((user) => user.model === model)
  }

  async #partials(): Promise<Rest[]> {
    const { store, contents, partialKeepMs, now } = this.#options
    const files = (await store.rests.partials()).filter(({ path }) => partialKey.test(baseOf(path)))
    const keys = new Map(files.map((file) => [file.path.slice(0, keyEnd(file.path)), files]))
    return Promise.all(
      [...keys.keys()].map(async (path) => {
        const own = files.filter((file) => file.path.startsWith(path))
        const note = await readNote(path)
        const isActive = contents.active.has(baseOf(path))
        const changedAt = Math.max(...own.map((file) => file.changedAt))
        const ageMs = now() - changedAt
        const isOld = !isActive && ageMs >= partialKeepMs()
        const view: StoredModelView = {
          name: note?.model ?? '',
          source: note?.source ?? '',
          state: 'partial',
          sizeBytes: own.find((file) => file.path === path)?.sizeBytes ?? 0,
          files: 1,
          path,
          usedBy: [],
          ...(isOld && { prunable: `the rest of a download that nobody went on with for ${days(ageMs)}` }),
        }
        const remove = async (): Promise<boolean> => {
          // Somebody may have gone on with it since it was listed.
          if (contents.active.has(baseOf(path))) return false
          await removeDownload(path)
          return true
        }
        return { view, remove, changedAt, isWanted: isActive || this.#isWanted(note?.model) }
      }),
    )
  }

  async #quarantined(): Promise<Rest[]> {
    const { store, contents } = this.#options
    const files = await store.rests.quarantined()
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

interface Entry {
  readonly view: StoredModelView
  /** False where it is in use by now, and stays. */
  readonly remove: () => Promise<boolean>
}

/** What is no model. */
interface Rest extends Entry {
  /** In ms since 1970. */
  readonly changedAt: number
  readonly isWanted: boolean
}

/** Enough for what is left of one of the largest models that Macs run, and for a person to look at it; more only fills the disk. */
const maxRestBytes = 64 * 1024 ** 3

/** Those of them that could be deleted, and are. */
async function deleted(entries: readonly Entry[]): Promise<Entry[]> {
  const gone: Entry[] = []
  for (const entry of entries) if (await entry.remove()) gone.push(entry)
  return gone
}

const isUsedBy = ({ model, manifest }: StoredModel, user: ModelUser): boolean =>
  user.model === model && user.digest === manifest.sourceSha256

function viewOf({ model, path, sizeBytes, manifest }: StoredModel): StoredModelView {
  const { source, files, completedAt, lastUsedAt, header } = manifest
  return {
    name: model,
    source,
    state: 'complete',
    sizeBytes,
    files: files.length,
    path,
    usedBy: [],
    completedAt,
    ...(lastUsedAt !== undefined && { lastUsedAt }),
    ...(header && { architecture: header.architecture }),
    ...(header?.quantization !== undefined && { quantization: header.quantization }),
    ...(header?.contextLength !== undefined && { contextLength: header.contextLength }),
  }
}

const baseOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1)

const keyEnd = (path: string): number => path.lastIndexOf('/') + 1 + (partialKey.exec(baseOf(path))?.[0].length ?? 0)

const sum = (entries: readonly Entry[]): number => entries.reduce((bytes, { view }) => bytes + view.sizeBytes, 0)

const days = (ms: number): string => {
  const hours = Math.round(ms / 3_600_000)
  return hours < 48 ? `${hours} h` : `${Math.round(hours / 24)} days`
}

/** One sentence about what was or would be deleted. */
export const prunedSentence = ({ what, bytes, isSure }: Pruned, verb: 'would free' | 'freed'): string =>
  what.length === 0
    ? isSure
      ? 'Nothing is to be pruned: every model in the store is used by a service.'
      : 'Nothing is pruned: which services there are is not known yet, so every model in the store may be used by one.'
    : `${what.length} ${what.length === 1 ? 'entry' : 'entries'}, which ${verb} ${formatBytes(bytes)}: ${what.join('; ')}.`
