import { createHash } from 'node:crypto'
import { lstat, rename, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type PQueue from 'p-queue'
import { formatBytes } from '../../contract/format.ts'
import type { Progress } from '../../contract/service.ts'
import type { Logger } from '../observability/logger.ts'
import { stateOfFile } from '../util/files.ts'
import { pathBelow } from '../util/is-below.ts'
import { untilAborted } from '../util/until-aborted.ts'
import { compareWithStored, remoteStates, requireFile, startProblem, type RemoteState } from './ask-source.ts'
import { expectsGguf, firstBytes, requireFormat } from './content-kind.ts'
import { hashFile } from './download/hash.ts'
import type { DownloadedFile } from './download/download.ts'
import { forgetPartial } from './download/partial-file.ts'
import { ModelError } from './errors.ts'
import { FactsOfFiles } from './facts-of-files.ts'
import { type GgufHeader, whyNoModel } from './gguf/gguf.ts'
import { findInHubCache } from './hub/hub-cache.ts'
import { localModel, type ModelRoots } from './local.ts'
import { wantedOf, type LocalModel, type ModelRequest } from './model-request.ts'
import type { DownloadSettings, OwnedSource, Remote } from './remote.ts'
import { isVouchedFor, type RemoteFile } from './resolve.ts'
import type { Waiters } from './shared-work.ts'
import { parseModelSource, shownSource } from './source.ts'
import { sameBytes } from './store/files.ts'
import type { Inventory } from './store/inventory.ts'
import { isOfOneModel, owners } from './store/owner.ts'
import { contentRevision, type Manifest } from './store/records.ts'
import type { Store, StoredModel } from './store/store.ts'
import type { StoreWatch } from './store/watch.ts'

export interface FetcherOptions {
  readonly store: Store
  readonly watch: StoreWatch
  /** Which files of this machine a Model may name. */
  readonly roots: ModelRoots
  readonly inventory: Pick<Inventory, 'partialsFolder'>
  readonly remote: Remote
  /** Lets a few downloads run at a time, in the order in which they came. */
  readonly turns: PQueue
  readonly settings: () => DownloadSettings
  readonly headers: FactsOfFiles<GgufHeader>
  readonly log: Logger
  readonly now: () => number
  /** Where other tools' caches are found. */
  readonly env: Readonly<Record<string, string | undefined>>
  readonly homeDir: string
}

/** Many times what one machine serves: a namespace that has more fills the store, whose models are looked through. */
const maxModels = 1_000

/** More files than the store of one machine has. */
const maxHashes = 10_000

/** Complete and verified bytes of a file of a model. */
interface Content extends DownloadedFile {
  /** Puts them at `path`. */
  readonly moveTo: (path: string) => Promise<void>
  /** What is left of their download once the store has them. */
  readonly remove?: () => Promise<void>
}

interface GetOptions {
  /** Name of the Model that wants it. */
  readonly model: string
  readonly signal: AbortSignal
  readonly onProgress: (progress: Progress) => void
  /** Why a file that begins like this is not the wanted one: thrown as soon as that is known. */
  readonly refusal: (start: Uint8Array) => Error | undefined
}

/** Brings one model to this machine, and keeps it up to date with its source. */
export class Fetcher {
  readonly #options: FetcherOptions
  /** Names of the downloads of each fetch that is under way. */
  readonly #underWay = new Map<readonly string[], Promise<undefined>>()
  /** SHA-256 in hex. */
  readonly #hashes = new FactsOfFiles(hashFile, () => 1, maxHashes)

  constructor(options: FetcherOptions) {
    this.#options = options
  }

  /** Names of all downloads under way. */
  get underWay(): ReadonlySet<string> {
    return new Set([...this.#underWay.keys()].flat())
  }

  /** From this machine's disks, the store, another model's bytes, or the network. Throws ModelError, or the signal's reason. */
  async ensure(request: ModelRequest, waiters: Waiters<Progress>): Promise<LocalModel> {
    const { watch } = this.#options
    const parsed = parseModelSource(request.source)
    if (parsed.kind === 'local') return this.#inPlace(parsed.path, request)
    await watch.requireOwn()
    const found = await this.#found(request, waiters.signal)
    if (found) return this.#arrived(request, found)
    if (parsed.kind === 'unsupported') throw ModelError.terminal('UnsupportedSource', parsed.message)
    waiters.signal.throwIfAborted()
    await watch.requireWritable()
    // Another request may have brought it while this one waited.
    const fetched = this.#inTurn(
      waiters,
      async () => (await this.#found(request, waiters.signal)) ?? this.#fetch(request, waiters),
    )
    return this.#arrived(request, await fetched)
  }

  /** What the source holds now: the model as it is stored, or another content fetched beside it. Throws like {@link ensure}. */
  async refresh(request: ModelRequest, waiters: Waiters<Progress>): Promise<LocalModel> {
    const { store, remote, watch } = this.#options
    const { signal } = waiters
    const parsed = parseModelSource(request.source)
    if (parsed.kind === 'local') return this.#inPlace(parsed.path, request)
    const { files } = await remote.resolve(request, signal)
    const contents = await this.#contents(request, signal)
    const states: ReadonlyMap<string, RemoteState> =
      contents.length === 0 ? new Map() : await remoteStates(files, { transport: await remote.transport(), signal })
    for (const [place, stored] of contents.entries()) {
      const sameness = compareWithStored(files, states, stored.manifest)
      if (place === 0 && sameness !== 'different') return localOf(stored)
      // An older content counts only where the source proves that it has that content again.
      if (sameness === 'same') return localOf(await store.asNewest(stored))
    }
    await watch.requireWritable()
    return this.#arrived(request, await this.#inTurn(waiters, () => this.#fetch(request, waiters, states)))
  }

  /** Whether the files of the model of the store at `path` have the checksums that were recorded; one whose files have not is deleted. Throws ModelError, and what the disk answers. */
  async isIntact(path: string): Promise<boolean> {
    const { store, log } = this.#options
    const stored = (await store.list()).find((one) => one.path === path && one.manifest.origin !== 'adopted')
    if (!stored) return true
    for (const { path: name, sha256 } of stored.manifest.files) {
      const at = pathBelow(stored.folder, name)
      if (sha256 === undefined || (await this.#hashes.of(at)) === sha256) continue
      log.error('a file of a model is not what was stored, so the model is deleted and fetched again', { path: at })
      await store.remove(stored)
      return false
    }
    return true
  }

  /** What the store has of the source, as far as the request may have it and means it, the first that counts first. */
  async #contents(request: ModelRequest, signal: AbortSignal): Promise<readonly StoredModel[]> {
    const { store, remote } = this.#options
    const contents = await store.contents(wantedOf(request, remote.ownersFor(request)))
    const isOfOthers = ({ owner, manifest }: StoredModel) => owner === owners.everybody && manifest.origin !== 'adopted'
    if (!contents.some(isOfOthers)) return contents
    try {
      if (!(await remote.isAtOwnServer(request, signal))) return contents
    } catch (error) {
      // A Secret that cannot be read is no reason not to give what is everybody's.
      if (error instanceof ModelError) return contents
      throw error
    }
    return contents.filter((stored) => !isOfOthers(stored))
  }

  /** The first content that has the checksum which the Model states. */
  async #found(request: ModelRequest, signal: AbortSignal): Promise<StoredModel | undefined> {
    for (const stored of await this.#contents(request, signal)) {
      const verified = await this.#verified(request, stored)
      if (verified) return verified
    }
    return undefined
  }

  async #inPlace(path: string, request: ModelRequest): Promise<LocalModel> {
    const allows = (file: string) => this.#options.roots.allows(file, request.namespace)
    const model = await localModel(path, request, { hashes: this.#hashes, allows })
    await this.#modelHeader(model.path)
    return model
  }

  /** Throws the signal's reason at once while it waits; work that has begun ends itself, and keeps its turn until then. */
  async #inTurn({ signal, tell }: Waiters<Progress>, work: () => Promise<StoredModel>): Promise<StoredModel> {
    const { turns } = this.#options
    if (turns.pending >= turns.concurrency)
      tell({ doneBytes: 0, bytesPerSecond: 0, phase: 'waiting', message: 'Waiting for other downloads.' })
    const begun = Promise.withResolvers<undefined>()
    const done = turns.add(async () => {
      begun.resolve(undefined)
      signal.throwIfAborted()
      return work()
    })
    await Promise.race([begun.promise, untilAborted(done, signal)])
    return done
  }

  /**
   * Brings every file of the source here, one after the other, and makes them a model of the store; after a fetch that brings one of them
   * already. `states`: how servers call the files where they do not send them.
   */
  async #fetch(
    request: ModelRequest,
    { signal, tell }: Waiters<Progress>,
    states: ReadonlyMap<string, RemoteState> = new Map(),
  ): Promise<StoredModel> {
    const source = await this.#options.remote.resolve(request, signal)
    const names = source.files.map((file) => downloadName(file, source.owner))
    const rivals = () => [...this.#underWay].filter(([others]) => others.some((name) => names.includes(name)))
    const hasWaited = rivals().length > 0
    for (let [rival] = rivals(); rival; [rival] = rivals()) {
      tell({
        doneBytes: 0,
        bytesPerSecond: 0,
        phase: 'waiting',
        message: 'Waiting for another download of the same files.',
      })
      await untilAborted(rival[1], signal)
    }
    const over = Promise.withResolvers<undefined>()
    this.#underWay.set(names, over.promise)
    try {
      // The other one may have been of the same source.
      const found = hasWaited && states.size === 0 ? await this.#found(request, signal) : undefined
      return found ?? (await this.#bring(request, source, { signal, tell }, states))
    } finally {
      this.#underWay.delete(names)
      over.resolve(undefined)
    }
  }

  async #bring(
    request: ModelRequest,
    { files, primary, mmproj, owner }: OwnedSource,
    { signal, tell }: Waiters<Progress>,
    states: ReadonlyMap<string, RemoteState>,
  ): Promise<StoredModel> {
    const { log, now, store, remote } = this.#options
    const { name: model, format, source } = request
    const fields = { model, source: shownSource(source), files: files.length }
    await this.#requireRoomFor(request.namespace, files)
    log.info('downloading model', fields)
    const startedAt = now()
    const arrived: Content[] = []
    const onProgress = together(files, arrived, tell)
    for (const [at, file] of files.entries()) {
      const refusal = (start: Uint8Array) => startProblem(start, file, { isFirst: at === 0, format })
      arrived.push(await this.#content(file, owner, { model, signal, onProgress, refusal }))
    }
    const stored = await store.add(wantedOf(request, remote.ownersFor(request)), {
      ...{ owner, primary, mmproj },
      // The ETag tells this content from a later one of the same address.
      files: files.flatMap(({ path, blob }, at) => {
        const content = arrived[at]
        if (!content) return []
        return [{ ...content, path, etag: states.get(path)?.validator ?? blob ?? content.etag }]
      }),
    })
    for (const { remove } of arrived) await remove?.()
    const { path, sizeBytes } = stored
    log.info('downloaded model', { ...fields, path, sizeBytes, durationMs: now() - startedAt })
    return stored
  }

  /** Throws `NamespaceFull` where the files are more than the namespace may still have; a person may have all there is. */
  async #requireRoomFor(namespace: string, files: readonly RemoteFile[]): Promise<void> {
    if (namespace === '') return
    const { store, settings, inventory } = this.#options
    const { models, bytes } = await store.fetchedBy(namespace)
    const more = files.reduce((sum, { sizeBytes = 0 }) => sum + sizeBytes, 0)
    const { blocks, bsize } = await statfs(await inventory.partialsFolder())
    const limit = settings().bytesPerNamespace || Math.floor((blocks * bsize) / 2)
    if (models < maxModels && bytes + more <= limit) return
    throw ModelError.untilRepairedHere(
      'NamespaceFull',
      `Namespace ${namespace} has ${models} models of ${formatBytes(bytes)} in the model store and may have ${maxModels} of ${formatBytes(limit)}, and this one has ${formatBytes(more)}: delete models that no service uses, or raise --namespace-model-limit.`,
    )
  }

  /** One file from the store, the caches of other tools, or the network. */
  async #content(file: RemoteFile, owner: string, how: GetOptions): Promise<Content> {
    const { log, remote } = this.#options
    const { sha256, sizeBytes } = file
    const here = await this.#alreadyHere(file, owner, how.signal)
    if (here === undefined || sha256 === undefined) return this.#download(file, owner, how)
    const found = await lstat(here)
    const problem = how.refusal(await firstBytes(here))
    if (problem) throw problem
    log.info('using content that is on this machine already', { path: here, model: how.model })
    return {
      sha256,
      sizeBytes: sizeBytes ?? found.size,
      moveTo: (path) => sameBytes(here, path, remote.space.withRoom),
    }
  }

  /** What a failure leaves is continued by the next download of this name. */
  async #download(
    file: RemoteFile,
    owner: string,
    { model, signal, onProgress, refusal }: GetOptions,
  ): Promise<Content> {
    const { remote, inventory } = this.#options
    const partialPath = join(await inventory.partialsFolder(), downloadName(file, owner))
    const refused = new AbortController()
    const onStart = (start: Uint8Array): void => {
      const problem = refusal(start)
      if (problem) refused.abort(problem)
    }
    const downloaded = await remote.download(
      { ...file, etag: file.blob },
      { partialPath, model, signal: AbortSignal.any([signal, refused.signal]), onStart, onProgress },
    )
    return {
      ...downloaded,
      moveTo: (path) => rename(partialPath, path),
      remove: () => forgetPartial(partialPath),
    }
  }

  /** The path of a file with the same content that the owner may have. */
  async #alreadyHere(file: RemoteFile, owner: string, signal: AbortSignal): Promise<string | undefined> {
    const { store, remote, env, homeDir: home } = this.#options
    const { hub, sha256, sizeBytes } = file
    if (sha256 === undefined) return undefined
    const stored = await store.findContent({ sha256, sizeBytes }, owner)
    if (stored !== undefined || !hub || sizeBytes === undefined || !isVouchedFor(file) || isOfOneModel(owner))
      return stored
    const cached = await findInHubCache({ ...hub, sha256, sizeBytes, env, home, platform: process.platform, signal })
    // The cache is the person's, who may read more than this login: only a request for the file itself tells.
    if (cached !== undefined) {
      const how = { transport: await remote.transport(), signal }
      await requireFile(file, { isFirst: false, format: undefined }, how)
    }
    return cached
  }

  /** Puts down what has been found out about a model; where it cannot be written, it is found out again the next time. */
  #noted(stored: StoredModel, changes: (now: Manifest) => Partial<Manifest>): Promise<StoredModel> {
    return this.#options.store.amend(stored, changes).catch((error: unknown) => {
      this.#options.log.debug('what is known of a model cannot be recorded', { path: stored.path, error })
      return stored
    })
  }

  /**
   * Undefined where the first file has not the checksum that the Model states: it is then another version than the one asked for, or a wrong
   * file, which a person put there and others may name.
   */
  async #verified(request: ModelRequest, stored: StoredModel): Promise<StoredModel | undefined> {
    const wanted = request.sha256?.toLowerCase()
    const [first] = stored.manifest.files
    if (wanted === undefined || !first) return stored
    const { log } = this.#options
    const path = pathBelow(stored.folder, first.path)
    let known = stored
    let { sha256 } = first
    if (sha256 === undefined) {
      const hashedState = await stateOfFile(path)
      const found = await this.#hashes.of(path)
      known = await this.#noted(stored, ({ files }) => ({
        files: files.map((file) => (file.path === first.path ? { ...file, sha256: found, hashedState } : file)),
      }))
      sha256 = found
    }
    if (sha256 === wanted) return known
    log.info('content in the model store has another checksum than a Model states', { path, model: request.name })
    return undefined
  }

  async #arrived(request: ModelRequest, stored: StoredModel): Promise<LocalModel> {
    if (stored.manifest.primary !== '') await requireFormat(stored.path, request.format)
    const header = await this.#modelHeader(stored.path)
    if (!header || stored.manifest.header) return localOf(stored)
    const { architecture, quantization, contextLength } = header
    return localOf(await this.#noted(stored, () => ({ header: { architecture, quantization, contextLength } })))
  }

  /** Undefined where a file has none that can be read: whether that is a model is for the runtime to say. Throws ModelError where it says that it is none. */
  async #modelHeader(path: string): Promise<GgufHeader | undefined> {
    if (!expectsGguf(path)) return undefined
    const header = await this.#options.headers.of(path).catch((error: unknown) => {
      this.#options.log.debug('header of a model not read', { path, error })
      return undefined
    })
    const problem = header && whyNoModel(header, path)
    if (problem !== undefined) throw ModelError.untilRepairedHere('NotAModel', `${path} ${problem}`)
    return header
  }
}

/**
 * The name of a download. Where the Hub states the checksum, the same content under another address, as that of a later commit, is the same
 * download; one that a Model states is of this address alone, whose server may send something else.
 */
function downloadName(file: RemoteFile, owner: string): string {
  const { url, sha256 = '' } = file
  const [kind, ...named] = isVouchedFor(file) ? ['sha', sha256] : ['url', url, sha256]
  return `${kind}-${createHash('sha256')
    .update([owner, ...named].join('\n'))
    .digest('hex')}`
}

/** Reports the progress of a model's files, which come one after the other, as one. `arrived`: those that are here by now. */
function together(
  files: readonly RemoteFile[],
  arrived: readonly Content[],
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

const localOf = ({ path, mmproj, sizeBytes, manifest, folder }: StoredModel): LocalModel => ({
  path,
  files: manifest.files.map((file) => pathBelow(folder, file.path)),
  sizeBytes,
  revision: contentRevision(manifest.files),
  ...(mmproj !== undefined && { mmproj }),
})
