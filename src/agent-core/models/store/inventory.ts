import { realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { formatBytes } from '../../../contract/format.ts'
import type { Logger } from '../../observability/logger.ts'
import { splitKey } from '../../util/object-key.ts'
import type { StoredModelView } from '../../../contract/models.ts'
import { deleted, sum, type Entry, type Leftovers } from './leftovers.ts'
import { countingFor, type Store } from './store.ts'
import { comparable } from './files.ts'
import type { LoadedFiles, ModelUser, StoredModel, Wanted } from './places.ts'

export interface InventoryOptions {
  readonly store: Store
  readonly leftovers: Leftovers
  /** Undefined while it is not known which services there are. */
  readonly users: () => readonly ModelUser[] | undefined
  /** By servers that run, and by those that are about to be started. */
  readonly filesInUse: () => readonly LoadedFiles[]
  /** Models that are being fetched. */
  readonly fetching: () => ReadonlySet<string>
  readonly log: Logger
}

export interface Pruned {
  readonly what: readonly string[]
  readonly bytes: number
  /** False while it is not known which services there are: then no complete model is in it. */
  readonly isSure: boolean
}

/** The models of the store, the services that use them, and what may be deleted. */
export class Inventory {
  readonly #options: InventoryOptions

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

  /** Deletes partial downloads that were not continued in time, and what {@link Leftovers.limit} does. Throws ModelError. */
  async sweep(): Promise<void> {
    const { users, log } = this.#options
    const entries = users() === undefined ? [] : await this.#options.leftovers.partials()
    const gone = await deleted(entries.filter(({ view }) => view.prunable !== undefined))
    if (gone.length > 0) {
      log.info('old partial downloads removed', { models: gone.map(({ view }) => view.name), bytes: sum(gone) })
    }
    await this.#options.leftovers.limit()
  }

  /** Puts down that a server was started with the model at `path`, and deletes what it replaced: see {@link dropOlder}. */
  async markUsed(wanted: Wanted, path: string): Promise<void> {
    const { store, log } = this.#options
    try {
      const used = (await store.contents(wanted)).find((one) => one.path === path)
      if (used) await store.markUsed(used)
    } catch (error) {
      log.warn('use of a model not recorded', { model: wanted.model, error })
    }
    await this.dropOlder(wanted)
  }

  /**
   * Deletes the contents of its source that a newer one replaced, where they belong to the namespace and no server has them. What a person
   * pulled, and what belongs to nobody, only a person deletes.
   */
  async dropOlder(wanted: Wanted): Promise<void> {
    const { store, log } = this.#options
    try {
      const older = (await store.contents(wanted)).slice(1)
      const own = older.filter(({ manifest }) => manifest.namespace === wanted.namespace)
      for (const old of own) {
        if (await this.isLoaded(old)) continue
        await store.remove(old)
        log.info('older content of a model removed', { model: old.model, path: old.path })
      }
    } catch (error) {
      log.warn('older contents of a model not removed', { model: wanted.model, error })
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
    const active = new Set(
      [...(known ?? []).filter(({ isActive }) => isActive), ...this.#options.filesInUse()].map(
        ({ service }) => service,
      ),
    )
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

  /** Whether a server has it in memory, or may load it again. */
  async isLoaded(stored: StoredModel): Promise<boolean> {
    return (await usersOf([stored], this.#loaded([stored])))[0]?.length !== 0
  }

  async #entries(): Promise<Entry[]> {
    const found = await Promise.all([
      this.#models(),
      this.#options.leftovers.partials(),
      this.#options.leftovers.quarantined(),
    ])
    return found.flat()
  }

  async #models(): Promise<Entry[]> {
    const { store, users } = this.#options
    const models = await store.list()
    const known = users()
    const usedBy = await usersOf(models, [...this.#loaded(models), ...(known ?? []).map(wantedFiles(models))])
    const records = await Promise.all(models.map(({ manifestPath }) => realOf(manifestPath)))
    return models.map((stored, at) => {
      const services = usedBy[at] ?? []
      // What has a second name is counted and deleted under its first.
      const isFirst = records.indexOf(records[at] ?? '') === at
      const isFree = known !== undefined && services.length === 0 && isFirst
      return {
        view: { ...viewOf(stored), usedBy: services, ...(isFree && { prunable: 'no service uses it' }) },
        remove: async () => {
          if (await this.isLoaded(stored)) return false
          await store.remove(stored)
          return true
        },
      }
    })
  }

  /** Where it is not known what a server loaded, that may be any content of its Model. */
  #loaded(models: readonly StoredModel[]): Used[] {
    const { filesInUse, users } = this.#options
    return filesInUse().map(({ service, files }) => ({
      service,
      files:
        files ??
        models
          .filter((stored) => users()?.some((user) => user.service === service && isMeant(stored, user)))
          .flatMap(filesOf),
    }))
  }
}

type Used = LoadedFiles & { readonly files: readonly string[] }

const isMeant = ({ model, manifest }: StoredModel, user: Pick<ModelUser, 'model' | 'digest'>): boolean =>
  user.model === model && user.digest === manifest.sourceSha256

/** What the service will be served with: the content that its Model would find in the store, or a file in place. */
const wantedFiles =
  (models: readonly StoredModel[]) =>
  (user: ModelUser): Used => {
    const { service, path } = user
    const meant = models.filter((stored) => isMeant(stored, user))
    const [found] = countingFor(meant, splitKey(service))
    return { service, files: [...(found ? filesOf(found) : []), ...(path === undefined ? [] : [path])] }
  }

const filesOf = ({ path, folder, manifest }: StoredModel): string[] => [
  path,
  ...manifest.files.map((file) => join(folder, file.path)),
]

/** The services that use a file of each model, by whatever name: links are followed. */
async function usersOf(models: readonly StoredModel[], uses: readonly Used[]): Promise<string[][]> {
  const services = new Map<string, Set<string>>()
  for (const { service, files } of uses) {
    for (const file of files) {
      const real = await realOf(file)
      services.set(real, (services.get(real) ?? new Set()).add(service))
    }
  }
  return Promise.all(
    models.map(async (stored) => {
      const files = await Promise.all(filesOf(stored).map(realOf))
      return [...new Set(files.flatMap((file) => [...(services.get(file) ?? [])]))].sort()
    }),
  )
}

const realOf = async (path: string): Promise<string> => comparable(await realpath(path).catch(() => path))

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

/** One sentence about what was or would be deleted. */
export const prunedSentence = ({ what, bytes, isSure }: Pruned, verb: 'would free' | 'freed'): string =>
  what.length === 0
    ? isSure
      ? 'Nothing is to be pruned: every model in the store is used by a service.'
      : 'Nothing is pruned: which services there are is not known yet, so every model in the store may be used by one.'
    : `${what.length} ${what.length === 1 ? 'entry' : 'entries'}, which ${verb} ${formatBytes(bytes)}: ${what.join('; ')}.`
