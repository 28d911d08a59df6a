import { accessAfter, contentRevision, type HeaderSummary, isOpenTo, type Manifest } from './store/records.ts'
import type { Progress } from '../../contract/service.ts'
import type { Logger } from '../observability/logger.ts'
import { pathBelow } from '../util/is-below.ts'
import type { ContentFetches } from './content-fetches.ts'
import type { DownloadTurns } from './download/limits.ts'
import { ModelError, type ModelErrorReason } from './errors.ts'
import { requireFormat } from './content-kind.ts'
import type { GgufHeaders } from './gguf/file-header.ts'
import type { GgufHeader } from './gguf/gguf.ts'
import { FileHashes } from './download/hash.ts'
import { localModel, type ModelRoots } from './local.ts'
import { wantedOf, type LocalModel, type ModelRequest } from './model-request.ts'
import { waitingSentence } from './pulls.ts'
import type { Remote } from './remote.ts'
import { compareWithStored, type RemoteState } from './ask-source.ts'
import type { Waiters } from './shared-work.ts'
import { parseModelSource } from './source.ts'
import type { Store } from './store/store.ts'
import { lstatIfThere, sameBytes } from './store/files.ts'
import type { StoredModel, Wanted } from './store/places.ts'

export interface AcquisitionOptions {
  readonly store: Store
  /** Which files of this machine a Model may name. */
  readonly roots: ModelRoots
  readonly contents: ContentFetches
  readonly remote: Remote
  readonly turns: DownloadTurns
  readonly headers: GgufHeaders
  /** Whether a server has it in memory, or may load it again. */
  readonly isLoaded: (stored: StoredModel) => Promise<boolean>
  readonly log: Logger
  /** Throws ModelError where the store cannot be written to. */
  readonly requireStore: () => Promise<void>
  /** Throws ModelError where the store belongs to another user. */
  readonly requireOwnStore: () => Promise<void>
  /** Takes work that goes on after the caller's answer. */
  readonly beside: (work: Promise<void>) => void
}

/** How one model comes to this machine, and is kept as its source has it. */
export class Acquisition {
  readonly #options: AcquisitionOptions
  readonly #hashes = new FileHashes()

  constructor(options: AcquisitionOptions) {
    this.#options = options
  }

  /** From this machine's disks, the store, another model's bytes, or the network. Throws ModelError, or the signal's reason. */
  async ensure(request: ModelRequest, waiters: Waiters<Progress>): Promise<LocalModel> {
    const parsed = parseModelSource(request.source)
    if (parsed.kind === 'local') return this.#inPlace(parsed.path, request)
    const wanted = wantedOf(request)
    await this.#options.requireOwnStore()
    const found =
      (await this.#allowed(request, await this.#options.store.find(wanted), waiters.signal)) ??
      (await this.#replaced(request, wanted, waiters.signal))
    if (found) return this.#arrived(request, found)
    if (parsed.kind === 'unsupported') throw new ModelError('terminal', 'UnsupportedSource', parsed.message)
    waiters.signal.throwIfAborted()
    await this.#options.requireStore()
    const elsewhere = await this.#allowed(request, await this.#options.store.findElsewhere(wanted), waiters.signal)
    if (elsewhere) return this.#arrived(request, await this.#share(wanted, elsewhere))
    return this.#arrived(request, await this.#fetch(request, waiters, 'missing'))
  }

  /** What the source holds now: the model as it is stored, or another content fetched beside it. Throws like {@link ensure}. */
  async refresh(request: ModelRequest, waiters: Waiters<Progress>): Promise<LocalModel> {
    const { signal } = waiters
    const parsed = parseModelSource(request.source)
    if (parsed.kind === 'local') return this.#inPlace(parsed.path, request)
    const { store } = this.#options
    const wanted = wantedOf(request)
    const remote = await this.#options.remote.resolve(request, signal)
    const contents = await store.contents(wanted)
    const states: ReadonlyMap<string, RemoteState> =
      contents.length === 0 ? new Map() : await this.#options.remote.states(remote, signal)
    for (const [place, stored] of contents.entries()) {
      const sameness = compareWithStored(remote.files, states, stored.manifest)
      // A source that went back to an older content has to show it.
      if (sameness === 'different' || (place > 0 && sameness !== 'same')) continue
      const same = await this.#admitted(request, stored, signal)
      if (same) return localOf(place === 0 ? same : await store.amend(same, () => ({}), { asNewest: true }))
    }
    await this.#options.requireStore()
    const fresh = await this.#fetch(request, waiters, 'newer')
    const revision = contentRevision(fresh.manifest.files)
    const twin = contents.find(({ manifest }) => contentRevision(manifest.files) === revision)
    if (!twin || (await lstatIfThere(twin.manifestPath)) === undefined) return this.#arrived(request, fresh)
    // The server calls the same bytes something else now, perhaps only where it does not send them.
    await store.remove(fresh)
    const files = fresh.manifest.files.map((file) => {
      const etag = states.get(file.path)?.validator ?? file.etag
      return { ...file, ...(etag !== undefined && { etag }) }
    })
    const { isPublic = false, isByLogin = false } = fresh.manifest.access ?? {}
    const { namespace } = request
    const merged = (now: Manifest) => ({ files, access: accessAfter(now.access, { namespace, isPublic, isByLogin }) })
    return localOf(await store.amend(twin, merged, { asNewest: true }))
  }

  #inPlace(path: string, request: ModelRequest): Promise<LocalModel> {
    return localModel(path, request, { hashes: this.#hashes, lent: this.#options.roots.lentTo(request.namespace) })
  }

  async #fetch(
    request: ModelRequest,
    { signal, tell }: Waiters<Progress>,
    why: 'missing' | 'newer',
  ): Promise<StoredModel> {
    const { store } = this.#options
    const onPlace = (ahead: number): void =>
      tell({ doneBytes: 0, bytesPerSecond: 0, phase: 'waiting', message: waitingSentence(ahead) })
    const wanted = wantedOf(request)
    return this.#options.turns.take(signal, onPlace, async () => {
      // Another request may have brought it while this one waited.
      const stored = why === 'missing' ? await store.find(wanted) : undefined
      const found = await this.#allowed(request, stored, signal)
      if (found) return found
      const beside = why === 'newer' || (stored !== undefined && (await this.#options.isLoaded(stored)))
      return this.#options.remote.fetch(request, {
        wanted,
        store,
        contents: this.#options.contents,
        signal,
        beside,
        onProgress: tell,
      })
    })
  }

  /** What the namespace may have and its Model means. Throws ModelError where it may not have it. */
  async #allowed(
    request: ModelRequest,
    stored: StoredModel | undefined,
    signal: AbortSignal,
  ): Promise<StoredModel | undefined> {
    const admitted = stored && (await this.#admitted(request, stored, signal))
    return admitted && this.#verified(request, admitted)
  }

  /** A content that another spec.sha256 replaced, and that a server kept in the store. */
  async #replaced(request: ModelRequest, wanted: Wanted, signal: AbortSignal): Promise<StoredModel | undefined> {
    const { store } = this.#options
    if (request.sha256 === undefined) return undefined
    for (const earlier of (await store.contents(wanted)).slice(1)) {
      const found = await this.#allowed(request, earlier, signal)
      if (found) return store.amend(found, () => ({}), { asNewest: true })
    }
    return undefined
  }

  /**
   * What its source gave to another namespace, after the source was asked with the login of this one. For files that an earlier version or
   * another agent left, no namespace is recorded: they belong to the first namespace that their source would give them to, and where their
   * source cannot be reached at all, every Model that names them may have them. Undefined where the source gives the namespace something that
   * is not shown to be what is stored. Throws ModelError.
   */
  async #admitted(request: ModelRequest, stored: StoredModel, signal: AbortSignal): Promise<StoredModel | undefined> {
    const { log, remote, store } = this.#options
    if (isOpenTo(stored.manifest, request.namespace)) return stored
    const isUnknown = stored.manifest.access === undefined
    if (isUnknown && parseModelSource(request.source).kind === 'unsupported') return stored
    try {
      const sha256Of = ({ path }: { readonly path: string }) => this.#hashes.of(pathBelow(stored.folder, path))
      const given = await remote.askAccess(request, { ...stored.manifest, sha256Of }, signal)
      if (given === undefined) {
        log.info('the source of a model may have another content by now, fetching it', { path: stored.path })
        return undefined
      }
      const { isPublic } = given
      const { namespace } = request
      const admitted = (now: Manifest): Partial<Manifest> => ({
        access: accessAfter(now.access, { namespace, isPublic }),
        ...(now.namespace === undefined && namespace !== '' && { namespace }),
      })
      return await store.amend(stored, admitted).catch((error: unknown) => {
        log.debug('access to a model cannot be recorded', { path: stored.path, error })
        return stored
      })
    } catch (error) {
      if (!(isUnknown && error instanceof ModelError && hasNoNetwork.has(error.reason))) throw error
      log.info('the source of a model cannot be asked, using what is in the store', {
        path: stored.path,
        reason: error.reason,
      })
      return stored
    }
  }

  /** The same bytes under another Model's name. */
  async #share(wanted: Wanted, { folder, manifest }: StoredModel): Promise<StoredModel> {
    const { primary, mmproj, revision, header, access } = manifest
    const paths = manifest.files.map(({ path }) => path)
    const destination = await this.#options.store.reserve(wanted, paths, { primary })
    try {
      const files = await Promise.all(
        manifest.files.map(async ({ path, sizeBytes, sha256, etag }) => {
          const from = pathBelow(folder, path)
          const hash = sha256 ?? (await this.#hashes.of(from))
          return {
            path,
            from,
            sizeBytes,
            sha256: hash,
            etag,
            moveTo: (to: string) => sameBytes(from, to, this.#options.remote.withRoom),
          }
        }),
      )
      return await destination.commit({ files, primary, mmproj, revision, header, access })
    } finally {
      destination.release()
    }
  }

  /**
   * Undefined where the first file has not the checksum that the Model states: a file that was found here for this namespace is then
   * quarantined, and served no more.
   */
  async #verified(request: ModelRequest, stored: StoredModel): Promise<StoredModel | undefined> {
    const wanted = request.sha256?.toLowerCase()
    const [first] = stored.manifest.files
    if (wanted === undefined || !first) return stored
    const path = pathBelow(stored.folder, first.path)
    const found = first.sha256 ?? (await this.#hashes.of(path))
    if (first.sha256 === undefined) {
      const hashed = ({ files }: Manifest): Partial<Manifest> => ({
        files: files.map((file) => (file.path === first.path ? { ...file, sha256: found } : file)),
      })
      await this.#options.store.amend(stored, hashed).catch((error: unknown) => {
        this.#options.log.debug('checksum of a model cannot be recorded', { path, error })
      })
    }
    if (found === wanted) return stored
    // What was downloaded is another content than is asked for, not a wrong one: it stays until that one replaces it. What another
    // namespace's Model is served is not this Model's to call wrong.
    const { origin, namespace } = stored.manifest
    const isOwn = stored.model === request.name && namespace === request.namespace
    if (!isOwn || origin === 'downloaded') return undefined
    await this.#options.store.leftovers.quarantine(
      path,
      `Its SHA-256 is ${found}, and spec.sha256 of Model ${request.name} says ${wanted}.`,
    )
    return undefined
  }

  async #arrived(request: ModelRequest, stored: StoredModel): Promise<LocalModel> {
    if (stored.manifest.primary !== '') await requireFormat(stored.path, request.format)
    if (!stored.manifest.header) this.#options.beside(this.#describe(stored))
    return localOf(stored)
  }

  /** What a list shows of a file; read after the model is handed out, so that no start waits for it. */
  async #describe(stored: StoredModel): Promise<void> {
    if (!/\.gguf$/i.test(stored.path)) return
    try {
      const header = summaryOf(await this.#options.headers.of(stored.path))
      await this.#options.store.amend(stored, () => ({ header }))
    } catch (error) {
      this.#options.log.debug('header of a model not read', { path: stored.path, error })
    }
  }
}

/** There is no way to the source. That it does not answer well says nothing for a namespace, which could provoke it: a limited rate, say. */
const hasNoNetwork: ReadonlySet<ModelErrorReason> = new Set([
  ...(['Offline', 'Unreachable', 'TlsFailed', 'ProxyFailed', 'BadProxy', 'BadAuthorityFile'] as const),
])

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
