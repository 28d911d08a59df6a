import { lstat } from 'node:fs/promises'
import type { Progress } from '../../contract/service.ts'
import type { Logger } from '../observability/logger.ts'
import { pathBelow } from '../util/is-below.ts'
import { askAccess, compareWithStored, remoteStates, startProblem, type RemoteState } from './ask-source.ts'
import type { Content, ContentFetches, GetOptions } from './content-fetches.ts'
import { firstBytes, requireFormat } from './content-kind.ts'
import { hashFile } from './download/hash.ts'
import { isS3Login } from './download/s3.ts'
import type { DownloadTurns } from './download/limits.ts'
import { ModelError, type ModelErrorReason } from './errors.ts'
import { FactsOfFiles, stateOfFile } from './facts-of-files.ts'
import type { GgufHeader } from './gguf/gguf.ts'
import { findInHubCache } from './hub/hub-cache.ts'
import { localModel, type ModelRoots } from './local.ts'
import { wantedOf, type LocalModel, type ModelRequest } from './model-request.ts'
import type { Remote } from './remote.ts'
import { isVouchedFor, type RemoteFile } from './resolve.ts'
import type { Waiters } from './shared-work.ts'
import { parseModelSource, shownSource } from './source.ts'
import { lstatIfThere, sameBytes } from './store/files.ts'
import type { Inventory } from './store/inventory.ts'
import { accessAfter, contentRevision, isOpenTo, type Manifest } from './store/records.ts'
import type { Arrived, Store, StoredModel } from './store/store.ts'
import type { StoreWatch } from './store/watch.ts'

export interface FetcherOptions {
  readonly store: Store
  readonly watch: StoreWatch
  readonly inventory: Pick<Inventory, 'quarantine' | 'isLoaded'>
  /** Which files of this machine a Model may name. */
  readonly roots: ModelRoots
  readonly contents: ContentFetches
  readonly remote: Remote
  readonly turns: DownloadTurns
  readonly headers: FactsOfFiles<GgufHeader>
  readonly log: Logger
  readonly now: () => number
  /** Where other tools' caches are found. */
  readonly env: Readonly<Record<string, string | undefined>>
  readonly homeDir: string
  /** Takes work that lasts beyond the caller's answer. */
  readonly beside: (work: Promise<void>) => void
}

/** One file of a model, held until it is moved to its place. */
type Arriving = Content & Pick<Arrived, 'from'>

/** More files than the store of one machine has. */
const maxHashes = 10_000

/** Brings one model to this machine, and keeps it up to date with its source. */
export class Fetcher {
  readonly #options: FetcherOptions
  /** SHA-256 in hex. */
  readonly #hashes = new FactsOfFiles(hashFile, () => 1, maxHashes)

  constructor(options: FetcherOptions) {
    this.#options = options
  }

  /** From this machine's disks, the store, another model's bytes, or the network. Throws ModelError, or the signal's reason. */
  async ensure(request: ModelRequest, waiters: Waiters<Progress>): Promise<LocalModel> {
    const { store, watch } = this.#options
    const { signal } = waiters
    const parsed = parseModelSource(request.source)
    if (parsed.kind === 'local') return this.#inPlace(parsed.path, request)
    const wanted = wantedOf(request)
    await watch.requireOwn()
    const found =
      (await this.#allowed(request, await store.find(wanted), signal)) ?? (await this.#replaced(request, signal))
    if (found) return this.#arrived(request, found)
    if (parsed.kind === 'unsupported') throw ModelError.terminal('UnsupportedSource', parsed.message)
    signal.throwIfAborted()
    await watch.requireWritable()
    const other = await store.findElsewhere(wanted)
    const isMeant = other !== undefined && (await this.#isMeant(request, other, signal))
    const elsewhere = await this.#allowed(request, isMeant ? other : undefined, signal)
    return this.#arrived(
      request,
      elsewhere ? await this.#share(request, elsewhere) : await this.#inTurn(request, waiters, 'missing'),
    )
  }

  /** What the source holds now: the model as it is stored, or another content fetched beside it. Throws like {@link ensure}. */
  async refresh(request: ModelRequest, waiters: Waiters<Progress>): Promise<LocalModel> {
    const { store, remote, watch } = this.#options
    const { signal } = waiters
    const parsed = parseModelSource(request.source)
    if (parsed.kind === 'local') return this.#inPlace(parsed.path, request)
    const { files } = await remote.resolve(request, signal)
    const contents = await store.contents(wantedOf(request))
    const states: ReadonlyMap<string, RemoteState> =
      contents.length === 0 ? new Map() : await remoteStates(files, { transport: await remote.transport(), signal })
    for (const [place, stored] of contents.entries()) {
      const sameness = compareWithStored(files, states, stored.manifest)
      // An older content counts only where the source proves that it has that content again.
      if (sameness === 'different' || (place > 0 && sameness !== 'same')) continue
      const same = await this.#admitted(request, stored, signal)
      if (same) return localOf(place === 0 ? same : await store.amend(same, () => ({}), { asNewest: true }))
    }
    await watch.requireWritable()
    const fresh = await this.#inTurn(request, waiters, 'newer')
    const revision = contentRevision(fresh.manifest.files)
    const twin = contents.find(({ manifest }) => contentRevision(manifest.files) === revision)
    if (!twin || (await lstatIfThere(twin.manifestPath)) === undefined) return this.#arrived(request, fresh)
    // The same bytes under another ETag, which some servers give only where they do not send the content.
    await store.remove(fresh)
    const { isPublic = false, isByLogin, isOwnServer } = fresh.manifest.access ?? {}
    const merged = (now: Manifest): Partial<Manifest> => ({
      files: fresh.manifest.files.map((file) => ({
        ...file,
        hashedState: now.files.find(({ path }) => path === file.path)?.hashedState,
        etag: states.get(file.path)?.validator ?? file.etag,
      })),
      access: accessAfter(now.access, { namespace: request.namespace, isPublic, isByLogin, isOwnServer }),
    })
    return localOf(await store.amend(twin, merged, { asNewest: true }))
  }

  /** Whether the Model means what another one fetched from the same source. Throws ModelError. */
  async #isMeant(request: ModelRequest, other: StoredModel, signal: AbortSignal): Promise<boolean> {
    try {
      return !(await this.#options.remote.isAtOwnServer(request, signal))
    } catch (error) {
      // The stored copy is public, so it is shared although the Secret cannot be read.
      if (error instanceof ModelError && other.manifest.access?.isPublic === true) return true
      throw error
    }
  }

  #inPlace(path: string, request: ModelRequest): Promise<LocalModel> {
    const allows = (file: string) => this.#options.roots.allows(file, request.namespace)
    return localModel(path, request, { hashes: this.#hashes, allows })
  }

  #inTurn(request: ModelRequest, { signal, tell }: Waiters<Progress>, why: 'missing' | 'newer'): Promise<StoredModel> {
    const { store, turns, inventory } = this.#options
    const onPlace = (ahead: number): void => {
      const message = `Waiting for ${ahead} other download${ahead === 1 ? '' : 's'}.`
      tell({ doneBytes: 0, bytesPerSecond: 0, phase: 'waiting', message })
    }
    return turns.take(signal, onPlace, async () => {
      // Another request may have brought it while this one waited.
      const stored = why === 'missing' ? await store.find(wantedOf(request)) : undefined
      const found = await this.#allowed(request, stored, signal)
      if (found) return found
      const beside = why === 'newer' || (stored !== undefined && (await inventory.isLoaded(stored)))
      return this.#fetch(request, { signal, beside, onProgress: tell })
    })
  }

  /**
   * Brings every file of the source here, one after the other, and makes them a model of the store. `beside`: what the store has of this
   * source stays.
   */
  async #fetch(
    request: ModelRequest,
    how: { readonly signal: AbortSignal; readonly beside: boolean; readonly onProgress: (progress: Progress) => void },
  ): Promise<StoredModel> {
    const { log, now, store, remote } = this.#options
    const { signal, beside, onProgress } = how
    const { name: model, namespace, format, source } = request
    const { files, primary, mmproj, revision } = await remote.resolve(request, signal)
    const fields = { model, source: shownSource(source), files: files.length }
    const paths = files.map(({ path }) => path)
    const destination = await store.reserve(wantedOf(request), paths, { primary, beside })
    const arrived: Arriving[] = []
    try {
      log.info('downloading model', { ...fields, folder: destination.folder })
      const startedAt = now()
      const report = together(files, arrived, onProgress)
      for (const [at, file] of files.entries()) {
        const refusal = (start: Uint8Array) => startProblem(start, file, { isFirst: at === 0, format })
        arrived.push(await this.#content(file, namespace, { model, signal, onProgress: report, refusal }))
      }
      const stored = await destination.commit({
        // The ETag tells this content from a later one of the same address.
        files: arrived.map((content, at) => ({
          ...content,
          path: paths[at] ?? '',
          isStated: at === 0 && request.sha256 !== undefined,
          etag: files[at]?.blob ?? content.etag,
        })),
        ...{ mmproj, revision },
        access: accessAfter(undefined, {
          namespace,
          isPublic: files.every(({ isPublic }) => isPublic === true),
          isByLogin: files.some(({ credentials }) => credentials !== undefined),
          isOwnServer: files.some(({ isOwnServer }) => isOwnServer === true),
        }),
      })
      const { path, sizeBytes } = stored
      log.info('downloaded model', { ...fields, path, sizeBytes, durationMs: now() - startedAt })
      return stored
    } finally {
      destination.release()
      for (const released of await Promise.allSettled(arrived.map((content) => content.release()))) {
        if (released.status === 'rejected') log.warn('partial download not removed', { model, error: released.reason })
      }
    }
  }

  /** One file from the store, the caches of other tools, or the network. */
  async #content(file: RemoteFile, namespace: string, how: Required<GetOptions>): Promise<Arriving> {
    const { log, contents, remote } = this.#options
    const { sha256, sizeBytes, blob, credentials, url, fileName, hub, isOwnServer } = file
    const here = await this.#alreadyHere(file, namespace, how.signal)
    if (here !== undefined && sha256 !== undefined) {
      const found = await lstat(here)
      const problem = how.refusal(await firstBytes(here))
      if (problem) throw problem
      log.info('using content that is on this machine already', { path: here, model: how.model })
      return {
        sha256,
        sizeBytes: sizeBytes ?? found.size,
        from: here,
        moveTo: (path) => sameBytes(here, path, remote.space.withRoom),
        release: () => Promise.resolve(),
      }
    }
    const isShared = sha256 === undefined ? hub !== undefined || credentials === undefined : isVouchedFor(file)
    // Two Secrets of a namespace may name different keys for one address.
    const own = isS3Login(credentials) ? `${namespace}\n${credentials.from}` : namespace
    const scope = isShared && isOwnServer !== true ? undefined : own
    return contents.get({ url, fileName, scope, sizeBytes, sha256, credentials, etag: blob }, how)
  }

  /** The path of a file with the same content, if the namespace may have it: a login that the Hub told the digest may read the file. */
  async #alreadyHere(file: RemoteFile, namespace: string, signal: AbortSignal): Promise<string | undefined> {
    const { store, env, homeDir: home } = this.#options
    const { hub, sha256, sizeBytes } = file
    if (sha256 === undefined) return undefined
    const isVouched = isVouchedFor(file)
    const isMeant = (manifest: Manifest): boolean => isVouched || isOpenTo(manifest, namespace)
    const stored = await store.findContent({ sha256, sizeBytes }, isMeant)
    if (stored !== undefined || hub === undefined || sizeBytes === undefined || !isVouched) return stored
    return findInHubCache({ ...hub, sha256, sizeBytes, env, home, platform: process.platform, signal })
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

  /** An older content of the source that has the checksum which the Model states now. */
  async #replaced(request: ModelRequest, signal: AbortSignal): Promise<StoredModel | undefined> {
    const { store } = this.#options
    if (request.sha256 === undefined) return undefined
    for (const earlier of (await store.contents(wantedOf(request))).slice(1)) {
      const found = await this.#allowed(request, earlier, signal)
      if (found) return store.amend(found, () => ({}), { asNewest: true })
    }
    return undefined
  }

  /**
   * Lets the namespace have a stored model. Where another namespace fetched it, its source is first asked with the login of this one. Files
   * that another agent left have no recorded namespace: they go to the first namespace that their source would give
   * them to, and to every Model that names them where the source cannot be reached at all. Undefined where the source gives the namespace
   * something that is not proven to be what is stored. Throws ModelError where the source refuses.
   */
  async #admitted(request: ModelRequest, stored: StoredModel, signal: AbortSignal): Promise<StoredModel | undefined> {
    const { log, remote } = this.#options
    const { namespace } = request
    const { path, manifest, folder } = stored
    if (isOpenTo(manifest, namespace)) return stored
    const isUnknown = manifest.access === undefined
    if (isUnknown && parseModelSource(request.source).kind === 'unsupported') return stored
    try {
      const sha256Of = (file: { readonly path: string }) => this.#hashes.of(pathBelow(folder, file.path))
      const given = await askAccess(request, { ...manifest, sha256Of }, await remote.context(request, signal))
      if (given === undefined) {
        log.info('the source of a model may have another content by now, fetching it', { path })
        return undefined
      }
      return await this.#noted(stored, (now) => ({
        access: accessAfter(now.access, { namespace, isPublic: given.isPublic }),
        ...(now.namespace === undefined && namespace !== '' && { namespace }),
      }))
    } catch (error) {
      if (!(isUnknown && error instanceof ModelError && hasNoNetwork.has(error.reason))) throw error
      log.info('the source of a model cannot be asked, using what is in the store', { path, reason: error.reason })
      return stored
    }
  }

  /** Puts down what has been found out about a model; where it cannot be written, it is found out again the next time. */
  #noted(stored: StoredModel, changes: (now: Manifest) => Partial<Manifest>): Promise<StoredModel> {
    return this.#options.store.amend(stored, changes).catch((error: unknown) => {
      this.#options.log.debug('what is known of a model cannot be recorded', { path: stored.path, error })
      return stored
    })
  }

  /** The same bytes under another Model's name. */
  async #share(request: ModelRequest, { folder, manifest }: StoredModel): Promise<StoredModel> {
    const { store, remote } = this.#options
    const { primary, mmproj, revision, header, access } = manifest
    const paths = manifest.files.map(({ path }) => path)
    const destination = await store.reserve(wantedOf(request), paths, { primary })
    try {
      const files = await Promise.all(
        manifest.files.map(async (file) => {
          const from = pathBelow(folder, file.path)
          const sha256 = file.sha256 ?? (await this.#hashes.of(from))
          return { ...file, sha256, from, moveTo: (to: string) => sameBytes(from, to, remote.space.withRoom) }
        }),
      )
      return await destination.commit({ files, mmproj, revision, header, access })
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
    const { store } = this.#options
    const path = pathBelow(stored.folder, first.path)
    // A stamp that says otherwise proves nothing, and one that agrees is not put down: it says so to this Model alone.
    if (first.sha256 === undefined && (await store.stamped(path)) === wanted) return stored
    let known = stored
    let { sha256 } = first
    if (sha256 === undefined) {
      const hashedState = await stateOfFile(path)
      const found = await this.#hashes.of(path)
      await store.stamp(path, found)
      known = await this.#noted(stored, ({ files }) => ({
        files: files.map((file) => (file.path === first.path ? { ...file, sha256: found, hashedState } : file)),
      }))
      sha256 = found
    }
    if (sha256 === wanted) return known
    // A downloaded file is another version than the one asked for, not a wrong file: it stays until that version replaces it. A file that
    // serves another namespace's Model is not for this Model to quarantine.
    const { origin, namespace } = stored.manifest
    const isOwn = stored.model === request.name && namespace === request.namespace
    if (!isOwn || origin === 'downloaded') return undefined
    const why = `Its SHA-256 is ${sha256}, and spec.sha256 of Model ${request.name} says ${wanted}.`
    await store.stamp(path, undefined)
    await this.#options.inventory.quarantine(path, why)
    return undefined
  }

  async #arrived(request: ModelRequest, stored: StoredModel): Promise<LocalModel> {
    if (stored.manifest.primary !== '') await requireFormat(stored.path, request.format)
    if (!stored.manifest.header) this.#options.beside(this.#describe(stored))
    return localOf(stored)
  }

  /** Records what a list shows of a model; the header is read after the model is handed out, so that no start waits for it. */
  async #describe(stored: StoredModel): Promise<void> {
    if (!/\.gguf$/i.test(stored.path)) return
    try {
      const { architecture, quantization, contextLength } = await this.#options.headers.of(stored.path)
      await this.#noted(stored, () => ({ header: { architecture, quantization, contextLength } }))
    } catch (error) {
      this.#options.log.debug('header of a model not read', { path: stored.path, error })
    }
  }
}

/** Reports the progress of a model's files, which come one after the other, as one. `arrived`: those that are here by now. */
function together(
  files: readonly RemoteFile[],
  arrived: readonly Arriving[],
  onProgress: (progress: Progress) => void,
): (progress: Progress) => void {
  if (files.length === 1) return onProgress
  const sizes = files.map(({ sizeBytes }) => sizeBytes).filter((size) => size !== undefined)
  const total = sizes.length === files.length && { totalBytes: sizes.reduce((sum, size) => sum + size, 0) }
  return (progress) => {
    const { totalBytes: _, ...rest } = progress
    const doneBytes = arrived.reduce((sum, { sizeBytes }) => sum + sizeBytes, rest.doneBytes)
    onProgress({ ...rest, doneBytes, ...total })
  }
}

/** Reasons why a source cannot be reached at all. A bad answer is none of them: a namespace could provoke one, such as a rate limit. */
const hasNoNetwork: ReadonlySet<ModelErrorReason> = new Set([
  ...(['Offline', 'Unreachable', 'TlsFailed', 'ProxyFailed', 'BadProxy', 'BadAuthorityFile'] as const),
])

const localOf = ({ path, mmproj, sizeBytes, manifest, folder }: StoredModel): LocalModel => ({
  path,
  files: manifest.files.map((file) => pathBelow(folder, file.path)),
  sizeBytes,
  revision: contentRevision(manifest.files),
  ...(mmproj !== undefined && { mmproj }),
})
