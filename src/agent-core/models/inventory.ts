import { formatBytes } from '../../contract/format.ts'
import type { StoredModelView } from '../../contract/models.ts'
import type { ModelUser } from './model-user.ts'
import { deleted, Leftovers, sum, type Entry, type LeftoversOptions } from './leftovers.ts'
import type { Store } from './store.ts'
import type { StoredModel, Wanted } from './stored-model.ts'

export interface InventoryOptions extends Omit<LeftoversOptions, 'leftovers'> {
  readonly store: Store
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
  readonly #leftovers: Leftovers

  constructor(options: InventoryOptions) {
    this.#options = options
    this.#leftovers = new Leftovers({ ...options, leftovers: options.store.leftovers })
  }

  /** See {@link Leftovers.limit}. */
  limit(): Promise<void> {
    return this.#leftovers.limit()
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

  /** Deletes partial downloads that were not continued in time. Throws ModelError. */
  async sweep(): Promise<Omit<Pruned, 'isSure'>> {
    const entries = (await this.#leftovers.partials()).filter(({ view }) => view.prunable !== undefined)
    const gone = await deleted(entries)
    return { what: gone.map(({ view }) => view.name), bytes: sum(gone) }
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
      for (const old of stored.slice(stored.indexOf(used) + 1)) {
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
    const found = await Promise.all([this.#models(), this.#leftovers.partials(), this.#leftovers.quarantined()])
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

/** One sentence about what was or would be deleted. */
export const prunedSentence = ({ what, bytes, isSure }: Pruned, verb: 'would free' | 'freed'): string =>
  what.length === 0
    ? isSure
      ? 'Nothing is to be pruned: every model in the store is used by a service.'
      : 'Nothing is pruned: which services there are is not known yet, so every model in the store may be used by one.'
    : `${what.length} ${what.length === 1 ? 'entry' : 'entries'}, which ${verb} ${formatBytes(bytes)}: ${what.join('; ')}.`
