import { homedir } from 'node:os'
import { basename, join } from 'node:path'
import { stat, statfs } from 'node:fs/promises'
import type { DownloadView, ModelStoreView } from '../../contract/models.ts'
import type { Progress } from '../../contract/service.ts'
import { editableRows } from '../../contract/settings-table.ts'
import type { Logger } from '../observability/logger.ts'
import { ContentFetches } from './content-fetches.ts'
import { DownloadTurns } from './download-turns.ts'
import { ModelError } from './errors.ts'
import { readGgufHeader } from './gguf/file-header.ts'
import type { GgufHeader } from './gguf/header.ts'
import { FileHashes } from './hash-file.ts'
import { Inventory, prunedSentence, type ModelUser } from './inventory.ts'
import { localModel, requireFormat } from './local-models.ts'
import { contentRevision, type HeaderSummary } from './manifest.ts'
import { Pulls, waitingSentence, type PullRequest } from './pulls.ts'
import { Remote, type DownloadSettings } from './remote.ts'
import { parseModelSource, shownSource } from './source.ts'
import { Store, type StoredModel, type Wanted } from './store.ts'
import { sameBytes } from './store-paths.ts'
import { StoreWatch } from './store-watch.ts'
import { wantedDigest, type Selection } from './wanted.ts'
import type { HubToken } from './hub/token.ts'
import { untilAborted } from '../support/until-aborted.ts'

export interface ModelRequest extends Selection {
  readonly namespace: string
  /** The Model's name. */
  readonly name: string
  /** What its (first) file must have, in hex. */
  readonly sha256?: string | undefined
  /** Of the Model's Secret, for this request alone. Throws ModelError. */
  readonly secret?: (() => Promise<HubToken>) | undefined
}

export interface LocalModel {
  /** What a runtime is given: a file, or a folder. */
  readonly path: string
  readonly mmproj?: string
  /** Of all files. */
  readonly sizeBytes: number
  /** Tells contents of one source apart. */
  readonly revision: string
}

export interface EnsureOptions {
  signal: AbortSignal
  onProgress?: (progress: Progress) => void
}

export interface ModelsState {
  directory: string
  /** Why the store cannot be used: one sentence. */
  problem?: string
  /** What is being looked for or fetched, sorted by model, then source. */
  fetches: readonly FetchState[]
  downloads: readonly DownloadView[]
}

interface FetchState {
  model: string
  /** Without credentials and query. */
  source: string
  callers: number
  /** Absent until the server answered. */
  progress?: Progress
}

export interface ModelsOptions {
  /** The model store. Created when first needed. */
  directory: string
  /** Keeps, beyond the end of the agent, on which volume the store is; absent = it is forgotten. */
  homeFile?: string
  log: Logger
  now?: () => number
  /** For tests: the longest silence of a server in ms, else 60 s. */
  stallMs?: number
  /** For tests: failures in a row after which a download is given up for now. */
  attempts?: number
  /** As they are when they are needed. */
  settings?: () => DownloadSettings
  env?: Readonly<Record<string, string | undefined>>
  homeDir?: string
  /** Something in {@link Models.state} has changed. */
  onChange?: () => void
  /** Undefined while it is not known which services there are. */
  users?: () => readonly ModelUser[] | undefined
  /** For tests: the token may go over http to this machine. */
  allowInsecureLoopback?: boolean
}

export const defaultDownloadSettings: DownloadSettings = {
  bytesPerSecond: editableRows.downloadBytesPerSecond.default,
  atOnce: editableRows.downloadsAtOnce.default,
  reserveBytes: editableRows.diskReserveBytes.default,
  partialKeepMs: editableRows.partialKeepMs.default,
}

/** Brings models to this machine: one fetch per Model name and what is wanted, and one download per content, however many callers want it. */
export class Models {
  readonly #store: Store
  readonly #log: Logger
  readonly #settings: () => DownloadSettings
  readonly #contents: ContentFetches
  readonly #turns: DownloadTurns
  readonly #remote: Remote
  readonly #hashes = new FileHashes()
  readonly #inventory: Inventory
  readonly #pulls: Pulls
  readonly #watch: StoreWatch
  readonly #fetches = new Map<string, Fetch>()
  readonly #headers = new Map<string, { readonly stamp: string; readonly header: Promise<GgufHeader> }>()
  /** Work that nobody waits for, until it is over. */
  readonly #beside = new Set<Promise<void>>()
  #stopped = false

  constructor(options: ModelsOptions) {
    const { directory, log, now = Date.now, onChange = () => undefined } = options
    const { users = () => undefined, settings = () => defaultDownloadSettings } = options
    this.#store = new Store({ directory, log, now })
    this.#log = log
    this.#settings = settings
    this.#turns = new DownloadTurns(() => settings().atOnce)
    this.#remote = new Remote({
      log,
      now,
      settings,
      env: options.env ?? {},
      homeDir: options.homeDir ?? homedir(),
      stallMs: options.stallMs,
      attempts: options.attempts,
      storeFolder: directory,
      allowInsecureLoopback: options.allowInsecureLoopback,
      deletableBytes: () => this.#inventory.prunableBytes(),
    })
    this.#contents = new ContentFetches({
      folder: () => this.#store.partialsFolder(),
      download: (request, how) => this.#remote.download(request, how),
      quarantine: (path, { name, error }) =>
        this.#store.quarantine(path, error instanceof Error ? error.message : String(error), basename(name)),
    })
    this.#inventory = new Inventory({
      store: this.#store,
      contents: this.#contents,
      users,
      fetching: () => new Set([...this.#fetches.values()].map(({ model }) => model)),
      partialKeepMs: () => settings().partialKeepMs,
      now,
    })
    this.#pulls = new Pulls({
      fetch: ({ model, ...selection }, how) => this.ensure({ namespace: '', name: model, ...selection }, how),
      onChange,
      now,
    })
    this.#watch = new StoreWatch({ directory, homeFile: options.homeFile, log, onChange })
  }

  /** Looks after the store from now on: clears old rests of downloads, and notices when its volume goes. */
  start(): void {
    this.#watch.start()
    this.#inBackground(
      this.#inventory.sweep().then(({ what, bytes }) => {
        if (what.length > 0) this.#log.info('old rests of downloads removed', { models: what, bytes })
      }),
    )
  }

  /**
   * The model on this machine: a local path as it is, anything else from the store or fetched into it. Throws ModelError, or the
   * signal's reason at once when that is aborted; a download ends when its last caller left, and is gone on with by the next.
   */
  ensure(request: ModelRequest, options: EnsureOptions): Promise<LocalModel> {
    return this.#shared(`${request.name}\n${keyOf(request)}`, request, options, (fetch) => this.#ensure(request, fetch))
  }

  /**
   * What the source holds now, where that is another content than `current`: fetched beside it. Undefined where it is the same.
   * Throws like {@link ensure}.
   */
  async refresh(request: ModelRequest, current: LocalModel, options: EnsureOptions): Promise<LocalModel | undefined> {
    const key = `refresh ${request.name}\n${keyOf(request)}`
    const model = await this.#shared(key, request, options, (fetch) => this.#refresh(request, fetch))
    return model.revision === current.revision ? undefined : model
  }

  /** Puts down that a server was started with it, and deletes older contents of its source. */
  async markUsed(request: ModelRequest, { path }: LocalModel): Promise<void> {
    const digest = wantedDigest(request)
    try {
      const stored = (await this.#store.list()).filter(
        ({ model, manifest }) => model === request.name && manifest.sourceSha256 === digest,
      )
      const used = stored.find((one) => one.path === path)
      if (!used) return
      await this.#store.markUsed(used)
      for (const old of stored) {
        if (old === used || old.manifest.completedAt >= used.manifest.completedAt) continue
        await this.#store.remove(old)
        this.#log.info('older content of a model removed', { model: old.model, path: old.path })
      }
    } catch (error) {
      this.#log.warn('use of a model not recorded', { model: request.name, error })
    }
  }

  /** Read once for each file as it is. Throws GgufError. */
  async header(path: string): Promise<GgufHeader> {
    const { size, mtimeMs } = await stat(path)
    const stamp = `${size} ${mtimeMs}`
    const known = this.#headers.get(path)
    if (known?.stamp === stamp) return known.header
    const header = readGgufHeader(path)
    this.#headers.set(path, { stamp, header })
    header.catch(() => this.#headers.delete(path))
    if (this.#headers.size > maxHeaders) this.#headers.delete(this.#headers.keys().next().value ?? '')
    return header
  }

  /** After a change of the settings: what counts for downloads under way. */
  settingsChanged(): void {
    this.#remote.limitBandwidth()
  }

  state(): ModelsState {
    const fetches = [...this.#fetches.values()]
      .map(({ model, source, callers, progress }) => ({
        model,
        source: shownSource(source),
        callers: callers.size,
        ...(progress === undefined ? {} : { progress }),
      }))
      .sort((a, b) => a.model.localeCompare(b.model) || a.source.localeCompare(b.source))
    const { problem } = this.#watch
    return {
      directory: this.#store.directory,
      ...(problem !== undefined && { problem }),
      fetches,
      downloads: this.#pulls.views(),
    }
  }

  /** What is in the store. A store that cannot be read is a problem in the answer. */
  async view(): Promise<ModelStoreView> {
    const { directory } = this.#store
    const { reserveBytes } = this.#settings()
    const problem = await this.#watch.look()
    const volume = await statfs(directory).catch(() => undefined)
    const facts = { directory, reserveBytes, ...(volume && { freeBytes: volume.bavail * volume.bsize }) }
    try {
      const models = await this.#inventory.list()
      return { ...facts, ...(problem && { problem: problem.message }), models }
    } catch (error) {
      if (!(error instanceof ModelError)) throw error
      return { ...facts, problem: problem?.message ?? error.message, models: [] }
    }
  }

  /** Begins a download without a service; a sentence where it cannot begin. */
  pull(request: PullRequest): { started: boolean; message: string } {
    const parsed = parseModelSource(request.source)
    if (parsed.kind === 'local')
      return { started: false, message: `${shownSource(request.source)} is on this machine already and used in place.` }
    if (parsed.kind === 'unsupported') return { started: false, message: parsed.message }
    if (this.#pulls.isRunning(request.model))
      return { started: false, message: `${request.model} is being pulled already.` }
    this.#pulls.start(request)
    return { started: true, message: `Pulling ${shownSource(request.source)} as ${request.model}.` }
  }

  cancelPull(model: string): boolean {
    return this.#pulls.cancel(model)
  }

  /** Throws ModelError. */
  remove(model: string) {
    return this.#inventory.remove(model)
  }

  /** What was or would be deleted, in a sentence. Throws ModelError. */
  async prune({ dryRun }: { readonly dryRun: boolean }): Promise<string> {
    return prunedSentence(await this.#inventory.prune({ dryRun }), dryRun ? 'would free' : 'freed')
  }

  /** Ends every fetch; returns when nothing is written any more. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#watch.stop()
    const running = [...this.#fetches.values()]
    for (const fetch of running) {
      for (const caller of fetch.callers) caller.reject(shuttingDown())
      fetch.ending.abort(shuttingDown())
    }
    await Promise.all(running.map(async ({ settled }) => settled))
    await Promise.all(this.#beside)
    await this.#remote[Symbol.asyncDispose]()
  }

  async #ensure(request: ModelRequest, fetch: Fetch): Promise<LocalModel> {
    const parsed = parseModelSource(request.source)
    if (parsed.kind === 'local') return localModel(parsed.path, request, this.#hashes)
    const wanted = wantedOf(request)
    const found = await this.#verified(request, await this.#store.find(wanted))
    if (found) return this.#arrived(request, found)
    if (parsed.kind === 'unsupported') throw new ModelError('terminal', 'UnsupportedSource', parsed.message)
    fetch.ending.signal.throwIfAborted()
    await this.#watch.require()
    const elsewhere = await this.#verified(request, await this.#store.findElsewhere(wanted))
    if (elsewhere) return this.#arrived(request, await this.#share(wanted, elsewhere))
    return this.#arrived(request, await this.#fetch(request, fetch, { beside: false }))
  }

  async #refresh(request: ModelRequest, fetch: Fetch): Promise<LocalModel> {
    const { signal } = fetch.ending
    const parsed = parseModelSource(request.source)
    if (parsed.kind === 'local') return localModel(parsed.path, request, this.#hashes)
    const remote = await this.#remote.resolve(request, signal)
    const stored = await this.#store.find(wantedOf(request))
    const told = stored && (await this.#remote.isSame(remote, stored.manifest, signal))
    if (stored && told?.isSame === true) return localOf(stored)
    await this.#watch.require()
    const fresh = await this.#fetch(request, fetch, { beside: true })
    if (!stored || contentRevision(fresh.manifest.files) !== contentRevision(stored.manifest.files)) {
      return this.#arrived(request, fresh)
    }
    // The server calls the same bytes something else now, perhaps only where it does not send them.
    await this.#store.remove(fresh)
    const files = fresh.manifest.files.map((file) => {
      const etag = told?.validators.get(file.path) ?? file.etag
      return { ...file, ...(etag !== undefined && { etag }) }
    })
    return localOf(await this.#store.amend(stored, { files }))
  }

  async #fetch(request: ModelRequest, fetch: Fetch, { beside }: { beside: boolean }): Promise<StoredModel> {
    const { signal } = fetch.ending
    const report = (progress: Progress): void => this.#report(fetch, progress)
    const onPlace = (ahead: number): void =>
      report({ doneBytes: 0, bytesPerSecond: 0, phase: 'waiting', message: waitingSentence(ahead) })
    const wanted = wantedOf(request)
    return this.#turns.take(signal, onPlace, async () => {
      // Another request may have brought it while this one waited.
      const found = beside ? undefined : await this.#verified(request, await this.#store.find(wanted))
      if (found) return found
      return this.#remote.fetch(request, {
        wanted,
        store: this.#store,
        contents: this.#contents,
        signal,
        beside,
        onProgress: report,
      })
    })
  }

  /** The same bytes under another Model's name. */
  async #share(wanted: Wanted, { folder, manifest }: StoredModel): Promise<StoredModel> {
    const { primary, mmproj, revision, header } = manifest
    const paths = manifest.files.map(({ path }) => path)
    const destination = await this.#store.reserve(wanted, paths, { primary })
    try {
      const files = await Promise.all(
        manifest.files.map(async ({ path, sizeBytes, sha256, etag }) => {
          const from = join(folder, path)
          const hash = sha256 ?? (await this.#hashes.of(from))
          return { path, from, sizeBytes, sha256: hash, etag, moveTo: (to: string) => sameBytes(from, to) }
        }),
      )
      return await destination.commit({ files, primary, mmproj, revision, header })
    } finally {
      destination.release()
    }
  }

  /** Undefined where the first file is not what the Model says: one that was found here is quarantined then, and served no more. */
  async #verified(request: ModelRequest, stored: StoredModel | undefined): Promise<StoredModel | undefined> {
    const wanted = request.sha256?.toLowerCase()
    const [first] = stored?.manifest.files ?? []
    if (!stored || wanted === undefined || !first) return stored
    const path = join(stored.folder, first.path)
    const found = first.sha256 ?? (await this.#hashes.of(path))
    if (first.sha256 === undefined) {
      const files = stored.manifest.files.map((file) => (file === first ? { ...file, sha256: found } : file))
      await this.#store.amend(stored, { files }).catch((error: unknown) => {
        this.#log.debug('checksum of a model cannot be recorded', { path, error })
      })
    }
    if (found === wanted) return stored
    // What was downloaded is another content than is asked for, not a wrong one: it stays until that one replaces it.
    if (stored.model !== request.name || stored.manifest.origin === 'downloaded') return undefined
    await this.#store.quarantine(
      path,
      `Its SHA-256 is ${found}, and spec.sha256 of Model ${request.name} says ${wanted}.`,
    )
    return undefined
  }

  async #arrived(request: ModelRequest, stored: StoredModel): Promise<LocalModel> {
    if (stored.manifest.primary !== '') await requireFormat(stored.path, request.format)
    if (!stored.manifest.header) this.#inBackground(this.#describe(stored))
    return localOf(stored)
  }

  /** What a list shows of a file; read after the model is handed out, so that nobody waits for it. */
  async #describe(stored: StoredModel): Promise<void> {
    if (!/\.gguf$/i.test(stored.path)) return
    try {
      await this.#store.amend(stored, { header: summaryOf(await this.header(stored.path)) })
    } catch (error) {
      this.#log.debug('header of a model not read', { path: stored.path, error })
    }
  }

  #inBackground(work: Promise<void>): void {
    const done = work
      .catch((error: unknown) => this.#log.warn('model store not looked after', { error }))
      .finally(() => this.#beside.delete(done))
    this.#beside.add(done)
  }

  async #shared(
    key: string,
    { name, source }: ModelRequest,
    { signal, onProgress }: EnsureOptions,
    work: (fetch: Fetch) => Promise<LocalModel>,
  ): Promise<LocalModel> {
    signal.throwIfAborted()
    let fetch = this.#fetches.get(key)
    while (fetch?.ending.signal.aborted === true) {
      await untilAborted(fetch.settled, signal)
      fetch = this.#fetches.get(key)
    }
    if (this.#stopped) throw shuttingDown()
    return this.#join(fetch ?? this.#begin(key, { model: name, source }, work), signal, onProgress)
  }

  #begin(
    key: string,
    about: { readonly model: string; readonly source: string },
    work: (fetch: Fetch) => Promise<LocalModel>,
  ): Fetch {
    const ending = new AbortController()
    const callers = new Set<Caller>()
    const fetch: Fetch = { ...about, ending, callers, progress: undefined, settled: Promise.resolve() }
    fetch.settled = work(fetch).then(
      (model) => {
        this.#fetches.delete(key)
        for (const caller of callers) caller.resolve(model)
      },
      (error: unknown) => {
        this.#fetches.delete(key)
        for (const caller of callers) caller.reject(error)
      },
    )
    this.#fetches.set(key, fetch)
    return fetch
  }

  #report(fetch: Fetch, progress: Progress): void {
    fetch.progress = progress
    for (const { onProgress } of fetch.callers) onProgress?.(progress)
  }

  #join(fetch: Fetch, signal: AbortSignal, onProgress: EnsureOptions['onProgress']): Promise<LocalModel> {
    const { promise, resolve, reject } = Promise.withResolvers<LocalModel>()
    const leave = (): void => {
      fetch.callers.delete(caller)
      if (fetch.callers.size === 0) fetch.ending.abort(signal.reason)
      reject(signal.reason)
    }
    const caller: Caller = { resolve, reject, onProgress }
    fetch.callers.add(caller)
    signal.addEventListener('abort', leave, { once: true })
    if (fetch.progress !== undefined) onProgress?.(fetch.progress)
    return promise.finally(() => signal.removeEventListener('abort', leave))
  }
}

interface Fetch {
  model: string
  source: string
  /** Aborted when nobody wants it any more. */
  ending: AbortController
  callers: Set<Caller>
  progress: Progress | undefined
  /** Never rejects. */
  settled: Promise<void>
}

interface Caller {
  resolve: (model: LocalModel) => void
  reject: (error: unknown) => void
  onProgress: EnsureOptions['onProgress']
}

/** More models than one machine serves; the oldest is read again. */
const maxHeaders = 64

const wantedOf = (request: ModelRequest): Wanted => ({
  model: request.name,
  source: request.source,
  digest: wantedDigest(request),
})

/** Requests of the same key can share one fetch: what they check is the same too. */
const keyOf = (request: ModelRequest): string =>
  [wantedDigest(request), request.format ?? 'gguf', request.sha256?.toLowerCase() ?? ''].join('\n')

const localOf = ({ path, mmproj, sizeBytes, manifest }: StoredModel): LocalModel => ({
  path,
  sizeBytes,
  revision: contentRevision(manifest.files),
  ...(mmproj !== undefined && { mmproj }),
})

const summaryOf = ({ architecture, quantization, contextLength }: GgufHeader): HeaderSummary => ({
  architecture,
  ...(quantization !== undefined && { quantization }),
  ...(contextLength !== undefined && { contextLength }),
})

function shuttingDown(): ModelError {
  return new ModelError(
    'transient',
    'ShuttingDown',
    'The agent is shutting down: the model is fetched at its next start.',
  )
}
