import { statfs } from 'node:fs/promises'
import { homedir } from 'node:os'
import PQueue from 'p-queue'
import type { DownloadView, ModelStoreView } from '../../contract/models.ts'
import type { Progress } from '../../contract/service.ts'
import type { Logger } from '../observability/logger.ts'
import { usualReserveBytes } from './download/limits.ts'
import { ModelError } from './errors.ts'
import { Fetcher } from './fetch.ts'
import { keptGgufHeaders } from './gguf/file-header.ts'
import type { GgufHeader } from './gguf/gguf.ts'
import { isModel, ModelRoots } from './local.ts'
import { lookAtServer, lookOnMachine, type LookRequest, type ModelLook } from './look.ts'
import { requestKey, wantedOf, type EnsureOptions, type LocalModel, type ModelRequest } from './model-request.ts'
import { Pulls, type PullRequest } from './pulls.ts'
import { defaultDownloadSettings, Remote, type RemoteOptions, type RemoteRequest } from './remote.ts'
import { SharedWork, type Waiters } from './shared-work.ts'
import { shownSource } from './source.ts'
import { Inventory, type LoadedFiles, type ModelUser } from './store/inventory.ts'
import { owners } from './store/owner.ts'
import { contentRevision } from './store/records.ts'
import { Store, type StoredModel, type Wanted } from './store/store.ts'
import { StoreWatch } from './store/watch.ts'

export { defaultDownloadSettings } from './remote.ts'
export type { LocalModel, ModelRequest } from './model-request.ts'

/** Downloads are given up all the time; what is kept of them is for days. */
const sweepEveryMs = 3_600_000

/** Two downloads share a connection well; more would each take longer, and none be there sooner. */
const usualAtOnce = 2

/** A model whose files are here and verified. */
export interface ModelOnDisk {
  readonly name: string
  /** `sha256:` of its one file, or `files:` and a digest of all that it consists of. */
  readonly digest: string
  readonly sizeBytes: number
}

/** A model that is being resolved or fetched. */
export interface FetchState {
  readonly model: string
  /** Without credentials and query. */
  readonly source: string
  readonly callers: number
  /** Absent until the server answered. */
  readonly progress?: Progress
}

export interface ModelsState {
  directory: string
  /** Why the store cannot be used: one sentence. */
  readonly problem: string | undefined
  /** Problems found at the start, one sentence each. */
  warnings: readonly string[]
  /** Sorted by model, then source. */
  fetches: readonly FetchState[]
  downloads: readonly DownloadView[]
}

type ForRemote = 'now' | 'settings' | 'env' | 'homeDir' | 'keptHubToken' | 'whyUnreachable'
type ForTests = 'allowInsecureLoopback' | 'resolveHost' | 'stallMs' | 'attempts' | 'reserveBytes'

export interface ModelsOptions extends Partial<Pick<RemoteOptions, ForRemote | ForTests>> {
  /** The model store. Created when first needed. */
  directory: string
  /** Folders of this machine that a Model's source may name, beside the store; see `ModelRoots`. */
  allowedModelRoots?: readonly string[]
  /** See `RemoteOptions.allowedHosts`; none without it. */
  allowedDownloadHosts?: readonly string[] | 'any'
  /** Keeps, beyond the end of the agent, on which volume the store is; absent = it is forgotten. */
  homeFile?: string
  log: Logger
  /** Something in {@link Models.state} has changed. */
  onChange?: () => void
  /** Undefined while it is not known which services there are. */
  users?: () => readonly ModelUser[] | undefined
  /** Files of servers that run, and of those that are about to be started. */
  filesInUse?: () => readonly LoadedFiles[]
  /** For tests: how many downloads run at a time. */
  downloadsAtOnce?: number
}

/** Brings models to this machine: one fetch per Model name and what is wanted, and one download per content, however many callers want it. */
export class Models {
  readonly #stopping = new AbortController()
  readonly #store: Store
  readonly #log: Logger
  readonly #reserveBytes: number | undefined
  readonly #remote: Remote
  readonly #headers = keptGgufHeaders()
  readonly #fetcher: Fetcher
  readonly #turns: PQueue
  readonly #roots: ModelRoots
  readonly #inventory: Inventory
  readonly #pulls: Pulls
  readonly #watch: StoreWatch
  /** One for each Model name and what is wanted, however many callers want it. */
  readonly #fetches = new SharedWork<LocalModel, Progress, { readonly model: string; readonly source: string }>()
  /** Work in the background, until it is over. */
  readonly #beside = new Set<Promise<void>>()
  readonly #onChange: () => void
  #warnings: readonly string[] = []
  #sweeping: NodeJS.Timeout | undefined

  constructor(options: ModelsOptions) {
    const { directory, log, now = Date.now, onChange = () => undefined, env = {}, homeDir = homedir() } = options
    const { users = () => undefined, filesInUse = () => [], settings = () => defaultDownloadSettings } = options
    const { allowedDownloadHosts: allowedHosts = [], allowedModelRoots = [], homeFile } = options
    this.#log = log
    this.#onChange = onChange
    this.#reserveBytes = options.reserveBytes
    this.#store = new Store({ directory, log, now })
    const onStoreChange = (): void => {
      this.#store.forget()
      onChange()
    }
    this.#watch = new StoreWatch({ directory, homeFile, log, onChange: onStoreChange })
    this.#turns = new PQueue({ concurrency: options.downloadsAtOnce ?? usualAtOnce })
    const deletableBytes = (): Promise<number> => this.#inventory.prunableBytes()
    const shared = { ...options, log, now, settings, env, homeDir }
    this.#remote = new Remote({ ...shared, allowedHosts, storeFolder: directory, deletableBytes })
    this.#inventory = new Inventory({
      ...{ store: this.#store, users, filesInUse, log, now },
      fetching: () => new Set(this.#fetches.jobs.map(({ about }) => about.model)),
      activePartials: () => this.#fetcher.underWay,
    })
    this.#roots = new ModelRoots({ store: this.#store, roots: allowedModelRoots, home: homeDir })
    this.#fetcher = new Fetcher({
      ...{ store: this.#store, watch: this.#watch, roots: this.#roots, inventory: this.#inventory },
      ...{ remote: this.#remote, turns: this.#turns, settings, headers: this.#headers, log, now, env, homeDir },
    })
    this.#pulls = new Pulls({ ensure: (request, how) => this.ensure(request, how), onChange, now })
  }

  /** Looks after the store from now on: clears what is left of downloads, notices when its volume goes, and tells of folders for models that are missing. */
  start(): void {
    this.#watch.start()
    this.#inBackground(this.#warnOfRoots())
    const sweep = (): void => this.#inBackground(this.#inventory.sweep())
    sweep()
    this.#sweeping = setInterval(sweep, sweepEveryMs).unref()
  }

  /**
   * The model on this machine: a local path as it is, anything else from the store or fetched into it. Throws ModelError, or the
   * signal's reason at once when that is aborted; a download ends when its last caller left, and the next caller continues it.
   */
  ensure(request: ModelRequest, options: EnsureOptions): Promise<LocalModel> {
    return this.#shared(requestKey(request), request, options, (waiters) => this.#fetcher.ensure(request, waiters))
  }

  /**
   * What the source holds now, where that is another content than `current`: fetched beside it. Undefined where it is the same.
   * Throws like {@link ensure}.
   */
  async refresh(request: ModelRequest, current: LocalModel, options: EnsureOptions): Promise<LocalModel | undefined> {
    const key = `refresh ${requestKey(request)}`
    const model = await this.#shared(key, request, options, async (waiters) => {
      // No more than two contents that came and never served are kept.
      await this.#inventory.dropOthers(this.#wanted(request))
      return this.#fetcher.refresh(request, waiters)
    })
    return model.revision === current.revision ? undefined : model
  }

  /** Puts down that a server was started with it, and deletes older contents of its source. */
  markUsed(request: ModelRequest, { path }: LocalModel): Promise<void> {
    return this.#inventory.markUsed(this.#wanted(request), path)
  }

  /** See {@link Fetcher.isIntact}. */
  isIntact({ path }: Pick<LocalModel, 'path'>): Promise<boolean> {
    return this.#fetcher.isIntact(path)
  }

  /** See {@link lookOnMachine}. Throws ModelError and GgufError. */
  lookHere(request: LookRequest): Promise<ModelLook | undefined> {
    return lookOnMachine({ store: this.#store, roots: this.#roots, read: (path) => this.#headers.of(path) }, request)
  }

  /** Those that its server has, and nothing else of it. Throws ModelError, GgufError or the signal's reason. */
  lookThere(request: LookRequest & Pick<RemoteRequest, 'secret'>, signal: AbortSignal): Promise<ModelLook> {
    return lookAtServer(this.#remote, request, AbortSignal.any([signal, this.#stopping.signal]))
  }

  /** Read once for each file as it is. Throws GgufError. */
  header(path: string): Promise<GgufHeader> {
    return this.#headers.of(path)
  }

  /**
   * Whether the arguments of a server of the namespace may name this file of the machine: one that is open to it, and begins as a model,
   * since a server quotes other files in its errors.
   */
  async allowsFile(path: string, namespace: string): Promise<boolean> {
    return (await this.#roots.allows(path, namespace)) && (await isModel(path))
  }

  /** Received by all downloads since the agent started. */
  get receivedBytes(): number {
    return this.#remote.receivedBytes
  }

  /** After a change of the settings: what counts for downloads under way. */
  settingsChanged(): void {
    this.#remote.limitBandwidth()
  }

  state(): ModelsState {
    const { problem } = this.#watch
    const fetches = this.#fetches.jobs.map(({ about, callers, news: progress }) => ({
      ...{ model: about.model, source: shownSource(about.source), callers },
      ...(progress && { progress }),
    }))
    return {
      directory: this.#store.directory,
      problem,
      warnings: this.#warnings,
      fetches: fetches.sort((a, b) => a.model.localeCompare(b.model) || a.source.localeCompare(b.source)),
      downloads: this.#pulls.views(),
    }
  }

  /** What is in the store. A store that cannot be read is a problem in the answer. */
  async view(): Promise<ModelStoreView> {
    const { directory } = this.#store
    const problem = await this.#watch.look()
    const volume = await statfs(directory).catch(() => undefined)
    const reserveBytes = this.#reserveBytes ?? usualReserveBytes((volume?.blocks ?? 0) * (volume?.bsize ?? 0))
    const facts = { directory, reserveBytes, ...(volume && { freeBytes: volume.bavail * volume.bsize }) }
    try {
      const models = await this.#inventory.list()
      return { ...facts, ...(problem && { problem: problem.message }), models }
    } catch (error) {
      if (!(error instanceof ModelError)) throw error
      return { ...facts, problem: problem?.message ?? error.message, models: [] }
    }
  }

  /** The complete models that are everybody's, last used first. Throws ModelError. */
  async onDisk(): Promise<readonly ModelOnDisk[]> {
    const usedAt = ({ manifest: { lastUsedAt, completedAt } }: StoredModel) => lastUsedAt ?? completedAt
    const everybodys = (await this.#store.list()).filter(({ owner }) => owner === owners.everybody)
    const models = everybodys.sort((a, b) => (usedAt(a) < usedAt(b) ? 1 : -1))
    return models.map(({ model: name, sizeBytes, manifest: { files } }) => {
      const [file] = files
      const isAlone = files.length === 1 && file?.sha256 !== undefined
      return { name, digest: isAlone ? `sha256:${file.sha256}` : `files:${contentRevision(files)}`, sizeBytes }
    })
  }

  /** Begins a download without a service; a sentence where it cannot begin. */
  pull(request: PullRequest): { started: boolean; message: string } {
    return this.#pulls.start(request)
  }

  cancelPull(model: string): boolean {
    return this.#pulls.cancel(model)
  }

  /** Throws ModelError. */
  remove(model: string) {
    return this.#inventory.remove(model)
  }

  /** What was or would be deleted, in a sentence. Throws ModelError. */
  prune(options: { readonly dryRun: boolean }): Promise<string> {
    return this.#inventory.prune(options)
  }

  /** Ends every fetch; returns when the last write is over. */
  async stop(): Promise<void> {
    const why = 'The agent is shutting down: the model is fetched at its next start.'
    this.#stopping.abort(ModelError.passing('ShuttingDown', why))
    this.#watch.stop()
    clearInterval(this.#sweeping)
    await this.#fetches.idle()
    await Promise.all(this.#beside)
    await this.#remote[Symbol.asyncDispose]()
  }

  /** Work that all callers of a key share. Rejects at once where the signal is aborted or the agent stops; the work then ends by itself. */
  #shared(
    key: string,
    { name: model, source }: ModelRequest,
    { signal, onProgress = () => undefined }: EnsureOptions,
    work: (waiters: Waiters<Progress>) => Promise<LocalModel>,
  ): Promise<LocalModel> {
    return this.#fetches.join(key, {
      about: { model, source },
      // What failed, or was left, stays on the disk as a partial download.
      work: (waiters) => work(waiters).finally(() => this.#inBackground(this.#inventory.limit())),
      signal: AbortSignal.any([signal, this.#stopping.signal]),
      onNews: onProgress,
    })
  }

  #wanted(request: ModelRequest): Wanted {
    return wantedOf(request, this.#remote.ownersFor(request))
  }

  /** A typo there would else be told only by Models that are refused. */
  async #warnOfRoots(): Promise<void> {
    this.#warnings = await this.#roots.missing()
    if (this.#warnings.length === 0) return
    for (const text of this.#warnings) this.#log.warn('folder of --allowed-model-roots not found', { text })
    this.#onChange()
  }

  #inBackground(work: Promise<void>): void {
    const done = work
      .catch((error: unknown) => this.#log.warn('upkeep of the model store failed', { error }))
      .finally(() => this.#beside.delete(done))
    this.#beside.add(done)
  }
}
