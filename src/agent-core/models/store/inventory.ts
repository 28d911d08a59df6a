import { realpath } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { formatBytes } from '../../../contract/format.ts'
import type { StoredModelView } from '../../../contract/models.ts'
import type { Logger } from '../../observability/logger.ts'
import { splitKey } from '../../util/object-key.ts'
import { forgetPartial, readPartial } from '../download/partial-file.ts'
import {
  comparable,
  entriesOf,
  lstatIfThere,
  makeFolder,
  namingStoreErrors,
  ownFolder,
  requireInside,
} from './files.ts'
import { owners } from './owner.ts'
import { newestFirst, type Store, type StoredModel, type Wanted } from './store.ts'

/** A service whose Model's files are, or will be, in the store; one for each Model that it names. */
export interface ModelUser {
  /** As namespace/name. */
  readonly service: string
  readonly model: string
  /** See `selectionDigest`. */
  readonly digest: string
  /** The path of a source on this machine, which may lie in the store. */
  readonly path?: string
  /** Neither suspended nor scaled to zero. */
  readonly isActive: boolean
}

/** What a server of the service loaded, or is to load next: absolute paths of files and folders. */
export interface LoadedFiles {
  /** As namespace/name. */
  readonly service: string
  /** Undefined where they are not known. */
  readonly files: readonly string[] | undefined
}

export interface InventoryOptions {
  readonly store: Store
  /** Undefined while it is not known which services there are. */
  readonly users: () => readonly ModelUser[] | undefined
  /** Files of servers that run, and of those that are about to be started. */
  readonly filesInUse: () => readonly LoadedFiles[]
  /** Models that are being fetched. */
  readonly fetching: () => ReadonlySet<string>
  /** Keys of partial downloads that are being continued. */
  readonly activePartials: () => ReadonlySet<string>
  readonly log: Logger
  readonly now: () => number
}

const dayMs = 24 * 3_600_000
/** A partial download that nobody continued for so long is not coming back: a week outlasts a weekend. */
const partialKeepMs = 7 * dayMs
/** A model that a namespace fetched stays for so long without a service: a Model that is deleted and created again finds it. */
const unusedKeepMs = 30 * dayMs

/** Something that the store holds, and how it is deleted. */
interface Entry {
  readonly view: StoredModelView
  /** False where it is in use by now, and stays. */
  readonly remove: () => Promise<boolean>
}

/** A partial download. */
interface Partial extends Entry {
  /** In ms since 1970. */
  readonly changedAt: number
  readonly isWanted: boolean
}

/** Enough for what is left of one of the largest models that Macs run; more only fills the disk. */
const maxPartialBytes = 64 * 1024 ** 3

/** What the store holds: models with the services that use them, and partial downloads. */
export class Inventory {
  readonly #options: InventoryOptions
  /** Deletions run one after the other, so that each counts what is left. */
  #limited: Promise<void> = Promise.resolve()

  constructor(options: InventoryOptions) {
    this.#options = options
  }

  /** Throws ModelError. */
  async list(): Promise<StoredModelView[]> {
    return (await this.#entries()).map(({ view }) => view)
  }

  /** What {@link prune} would free. Throws ModelError. */
  async prunableBytes(): Promise<number> {
    return sum((await this.#entries()).filter(isPrunable))
  }

  /** Says in a sentence what was or would be deleted. Throws ModelError. */
  async prune({ dryRun }: { readonly dryRun: boolean }): Promise<string> {
    const entries = (await this.#entries()).filter(isPrunable)
    const gone = dryRun ? entries : await deleted(entries)
    if (gone.length > 0) {
      const what = gone.map(({ view }) => `${view.name || view.path}: ${view.prunable ?? ''}`).join('; ')
      const count = `${gone.length} ${gone.length === 1 ? 'entry' : 'entries'}`
      return `${count}, which ${dryRun ? 'would free' : 'freed'} ${formatBytes(sum(gone))}: ${what}.`
    }
    return this.#options.users() === undefined
      ? 'Nothing is pruned: the agent does not know yet which services there are, so every model in the store may be used by one.'
      : 'There is nothing to prune: every model in the store is used by a service.'
  }

  /** Everything of the Model of this name; a sentence where that must not be. Throws ModelError. */
  async remove(model: string): Promise<{ removed: true; bytes: number } | { removed: false; message: string }> {
    const { users, filesInUse, fetching, store } = this.#options
    const refused = (message: string) => ({ removed: false, message }) as const
    const known = users()
    const entries = (await this.#entries()).filter(({ view }) => view.name === model)
    if (entries.length === 0) return refused(`There is no model ${model} in the store ${store.directory}.`)
    if (known === undefined && entries.some(({ view }) => view.state === 'complete')) {
      return refused(
        `Which services use the model ${model} is not known until the cluster has answered: try again then.`,
      )
    }
    const running = [...(known ?? []).filter(({ isActive }) => isActive), ...filesInUse()]
    const active = new Set(running.map(({ service }) => service))
    const using = new Set(entries.flatMap(({ view }) => view.usedBy).filter((service) => active.has(service)))
    if (using.size > 0) {
      const which = using.size === 1 ? 'that service' : 'those services'
      return refused(`The model ${model} is used by ${[...using].sort().join(', ')}: delete or stop ${which} first.`)
    }
    if (fetching().has(model)) return refused(`The model ${model} is being downloaded: cancel that first.`)
    return { removed: true, bytes: sum(await deleted(entries)) }
  }

  /** Puts down that a server was started with the model at `path`, and deletes what it replaced: see {@link dropOthers}. */
  async markUsed(wanted: Wanted, path: string): Promise<void> {
    const { store, log, now } = this.#options
    try {
      const used = (await store.contents(wanted)).find((one) => one.path === path)
      const lastUsedAt = new Date(now()).toISOString()
      if (used) await store.amend(used, () => ({ lastUsedAt }))
    } catch (error) {
      log.debug('use of a model not recorded', { model: wanted.model, error })
    }
    await this.dropOthers(wanted, path)
  }

  /**
   * Deletes all contents of the source except the one at `path` (without it: except the newest) and those that other Models or running servers
   * need. Only a person deletes what a person pulled or put into the store.
   */
  async dropOthers(wanted: Wanted, path?: string): Promise<void> {
    const { store, log } = this.#options
    try {
      const contents = await store.contents(wanted)
      const kept = path ?? contents[0]?.path
      for (const old of contents) {
        if (old.path === kept || old.manifest.origin !== 'downloaded' || (await this.#isNeeded(old, wanted))) continue
        await store.remove(old)
        log.info('older content of a model removed', { model: old.model, path: old.path })
      }
    } catch (error) {
      log.warn('older contents of a model not removed', { model: wanted.model, error })
    }
  }

  /** Whether a server has it in memory, or a Model that is not the wanted one may want it. */
  async #isNeeded(stored: StoredModel, wanted: Wanted): Promise<boolean> {
    const others = (this.#options.users() ?? []).filter(
      ({ service, model }) => splitKey(service).namespace !== wanted.namespace || model !== wanted.model,
    )
    return others.some((user) => mayUse(user, stored)) || this.#isLoaded(stored)
  }

  /** Whether a server has it in memory, or may load it again. */
  async #isLoaded(stored: StoredModel): Promise<boolean> {
    const [services] = await this.#servicesOf([stored], [])
    return services?.length !== 0
  }

  /** Deletes old partial downloads, those beyond the limit (see {@link limit}), and fetched models that no service uses. Throws ModelError. */
  async sweep(): Promise<void> {
    const { log } = this.#options
    const gone = await deleted((await this.#partials()).filter(isPrunable))
    if (gone.length > 0) {
      log.info('old partial downloads removed', { models: gone.map(({ view }) => view.name), bytes: sum(gone) })
    }
    await this.limit()
    await this.#dropUnused()
  }

  /** Deletes what a namespace fetched and no service has used for {@link unusedKeepMs}. A use is put down once a day. */
  async #dropUnused(): Promise<void> {
    const { store, users, log, now } = this.#options
    const known = users()
    if (known === undefined) return
    const models = await store.list()
    const services = await this.#servicesOf(models, known)
    for (const [at, stored] of models.entries()) {
      const { lastUsedAt, completedAt, origin } = stored.manifest
      const unusedMs = now() - Date.parse(lastUsedAt ?? completedAt)
      if (services[at]?.length !== 0) {
        if (unusedMs >= dayMs) await store.amend(stored, () => ({ lastUsedAt: new Date(now()).toISOString() }))
      } else if (origin === 'downloaded' && unusedMs >= unusedKeepMs) {
        await store.remove(stored)
        log.info('model that no service has used for a month removed', { model: stored.model, path: stored.path })
      }
    }
  }

  /** Deletes partial downloads that no service names, oldest first, until they take no more than {@link maxPartialBytes}. Throws ModelError. */
  limit(): Promise<void> {
    const work = (): Promise<void> => this.#limit()
    this.#limited = this.#limited.then(work, work)
    return this.#limited
  }

  /** The folder of downloads that are not complete; made when asked for. Throws ModelError. */
  partialsFolder(): Promise<string> {
    const { directory } = this.#options.store
    return namingStoreErrors(directory, async () => {
      await makeFolder(this.#partialsPath)
      await requireInside(directory, this.#partialsPath)
      return this.#partialsPath
    })
  }

  get #partialsPath(): string {
    return join(this.#options.store.directory, ownFolder, 'partials')
  }

  async #entries(): Promise<Entry[]> {
    return (await Promise.all([this.#models(), this.#partials()])).flat()
  }

  async #models(): Promise<Entry[]> {
    const { store, users } = this.#options
    const models = await store.list()
    const known = users()
    const services = await this.#servicesOf(models, known ?? [])
    return models.map((stored, at) => {
      const usedBy = services[at] ?? []
      const isFree = known !== undefined && usedBy.length === 0
      return {
        view: { ...viewOf(stored), usedBy, ...(isFree && { prunable: 'no service uses it' }) },
        remove: async () => {
          if (await this.#isLoaded(stored)) return false
          await store.remove(stored)
          return true
        },
      }
    })
  }

  /**
   * The services that use a file of each model, by whatever name: links are followed. A server uses what it loaded; where that is not known,
   * any content of its Model. `users` use what they will be served with: the content that their Model would find, or a file in place.
   * `models`: in the order of `Store.list`.
   */
  async #servicesOf(models: readonly StoredModel[], users: readonly ModelUser[]): Promise<string[][]> {
    const bySource = Map.groupBy(models, ({ manifest }) => manifest.sourceSha256)
    const contentsOf = (user: ModelUser) => (bySource.get(user.digest) ?? []).filter((one) => mayUse(user, one))
    const byService = Map.groupBy(this.#options.users() ?? [], ({ service }) => service)
    const services = new Map<string, Set<string>>()
    const add = async (service: string, files: readonly string[]): Promise<void> => {
      for (const file of files) {
        const real = await realOf(file)
        services.set(real, (services.get(real) ?? new Set()).add(service))
      }
    }
    for (const { service, files } of this.#options.filesInUse()) {
      await add(service, files ?? (byService.get(service) ?? []).flatMap(contentsOf).flatMap(filesOf))
    }
    for (const user of users) {
      const found = firstOf(contentsOf(user))
      await add(user.service, [...found.flatMap(filesOf), ...(user.path === undefined ? [] : [user.path])])
    }
    return Promise.all(
      models.map(async (stored) => {
        const files = await Promise.all(filesOf(stored).map(realOf))
        return [...new Set(files.flatMap((file) => [...(services.get(file) ?? [])]))].sort()
      }),
    )
  }

  async #limit(): Promise<void> {
    const all = (await this.#partials()).filter(({ isWanted }) => !isWanted)
    let excessBytes = sum(all) - maxPartialBytes
    const gone: Entry[] = []
    for (const partial of all.sort((a, b) => a.changedAt - b.changedAt)) {
      if (excessBytes <= 0) break
      if (partial.view.sizeBytes === 0 || !(await partial.remove())) continue
      excessBytes -= partial.view.sizeBytes
      gone.push(partial)
    }
    if (gone.length === 0) return
    this.#options.log.warn('partial downloads removed, since they took too much of the disk', {
      paths: gone.map(({ view }) => view.path),
      bytes: sum(gone),
      limitBytes: maxPartialBytes,
    })
  }

  async #partials(): Promise<Partial[]> {
    const { users, fetching, store } = this.#options
    const files = await namingStoreErrors(store.directory, () => this.#partialFiles())
    const known = users()
    const wanted = known && new Set([...known.map(({ model }) => model), ...fetching()])
    const downloads = Map.groupBy(files, ({ path }) => downloadOf(path))
    return Promise.all([...downloads].map(([path, parts]) => this.#partial(path, parts, wanted)))
  }

  /** One unfinished download of these `files`. `wanted`: models in use or being fetched; undefined before the cluster was read. */
  async #partial(path: string, files: readonly FoundFile[], wanted?: ReadonlySet<string>): Promise<Partial> {
    const { now } = this.#options
    const { model = '', source = '' } = (await readPartial(path)) ?? {}
    const changedAt = Math.max(...files.map((file) => file.changedAt))
    const ageMs = now() - changedAt
    const isWanted = wanted === undefined || this.#isActive(path) || wanted.has(model)
    const isOld = !isWanted && ageMs >= partialKeepMs
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
        await forgetPartial(path)
        return true
      },
    }
  }

  #isActive(path: string): boolean {
    return this.#options.activePartials().has(basename(path))
  }

  async #partialFiles(): Promise<FoundFile[]> {
    const folder = this.#partialsPath
    const entries = await entriesOf(folder)
    const files = entries
      .filter(({ name }) => partialKey.test(name))
      .map(async ({ name }) => {
        const path = join(folder, name)
        const found = await lstatIfThere(path)
        return found?.isFile() === true ? [{ path, sizeBytes: found.size, changedAt: found.mtimeMs }] : []
      })
    return (await Promise.all(files)).flat()
  }
}

interface FoundFile {
  readonly path: string
  readonly sizeBytes: number
  /** In ms since 1970. */
  readonly changedAt: number
}

/** How a partial download and all that lies beside it begin. */
const partialKey = /^(?:sha|url)-[0-9a-f]{64}/

/** The partial download that a file belongs to, by its name. */
const downloadOf = (path: string): string => join(dirname(path), partialKey.exec(basename(path))?.[0] ?? '')

const isPrunable = ({ view }: Entry): boolean => view.prunable !== undefined

/** Those of them that could be deleted, and are. */
async function deleted(entries: readonly Entry[]): Promise<Entry[]> {
  const gone: Entry[] = []
  for (const entry of entries) if (await entry.remove()) gone.push(entry)
  return gone
}

const sum = (entries: readonly Entry[]): number => entries.reduce((bytes, { view }) => bytes + view.sizeBytes, 0)

const days = (ms: number): string => {
  const hours = Math.round(ms / 3_600_000)
  return hours < 48 ? `${hours} h` : `${Math.round(hours / 24)} days`
}

const filesOf = ({ path, folder, manifest }: StoredModel): string[] => [
  path,
  ...manifest.files.map((file) => join(folder, file.path)),
]

/** Whether the Model of a service may be served with it. Which namespaces have the person's login for the Hub is for settings to say. */
const mayUse = ({ service, model, digest }: ModelUser, { owner, manifest }: StoredModel): boolean => {
  const { namespace } = splitKey(service)
  const whose = [owners.everybody, owners.hubLogin, namespace, owners.model(namespace, model)]
  return manifest.sourceSha256 === digest && whose.includes(owner)
}

/** The newest content of each owner, everybody's only where there is no other. */
function firstOf(contents: readonly StoredModel[]): StoredModel[] {
  const first = new Map<string, StoredModel>()
  for (const one of contents.toSorted(newestFirst)) if (!first.has(one.owner)) first.set(one.owner, one)
  if (first.size > 1) first.delete(owners.everybody)
  return [...first.values()]
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
