import { lstat } from 'node:fs/promises'
import type { Progress } from '../../contract/service.ts'
import { editableRows } from '../../contract/settings-table.ts'
import type { Logger } from '../observability/logger.ts'
import { askAccess, type AskedFor, type RemoteState, remoteStates, requireFile, startProblem } from './ask-source.ts'
import type { Content, ContentFetches } from './content-fetches.ts'
import { download, type DownloadedFile, type DownloadOptions, type FileRequest } from './download/download.ts'
import { HostGuard, type Resolve } from './download/host-guard.ts'
import { Bandwidth, requireFreeSpace, SpaceClaims } from './download/limits.ts'
import { Login, withoutLogin } from './download/request.ts'
import { createTransport, type Transport } from './download/transport.ts'
import { localRepairMs, ModelError } from './errors.ts'
import type { GgufHeader } from './gguf/gguf.ts'
import { readGgufHeaderOverHttp } from './gguf/http-header.ts'
import { hubEndpoint, isHubOffline, publicHub } from './hub/endpoint.ts'
import { findInHubCache } from './hub/hub-cache.ts'
import { hubToken, type HubToken, keptToken, tokenInFile } from './hub/token.ts'
import { firstBytes } from './content-kind.ts'
import {
  isVouchedFor,
  type RemoteFile,
  type RemoteSource,
  type ResolveContext,
  resolveSource,
  type WantedModel,
} from './resolve.ts'
import { accessAfter, isOpenTo, type Manifest } from './store/records.ts'
import { shownSource } from './source.ts'
import { sameBytes, type WithRoom } from './store/files.ts'
import type { Arrived, StoredModel, Wanted } from './store/places.ts'
import type { Store } from './store/store.ts'
import { TotalProgress } from './download/progress.ts'

export interface DownloadSettings {
  /** Of all downloads together; 0 = no limit. */
  readonly bytesPerSecond: number
  readonly atOnce: number
  readonly hubEndpoint?: string | undefined
  readonly hubTokenFile?: string | undefined
  readonly caFile?: string | undefined
  /** 0 = the smaller of 2 GiB and 1 % of the volume. */
  readonly reserveBytes: number
  readonly partialKeepMs: number
  /** Namespaces whose Models may use the login of the person at this machine. */
  readonly hubLoginNamespaces: readonly string[]
}

export const defaultDownloadSettings: DownloadSettings = {
  bytesPerSecond: editableRows.downloadBytesPerSecond.default,
  atOnce: editableRows.downloadsAtOnce.default,
  reserveBytes: editableRows.diskReserveBytes.default,
  partialKeepMs: editableRows.partialKeepMs.default,
  hubLoginNamespaces: [],
}

export interface RemoteAccessOptions {
  readonly log: Logger
  readonly settings: () => DownloadSettings
  readonly env: Readonly<Record<string, string | undefined>>
  readonly homeDir: string
  /** The Hub's token that the program which hosts the agent keeps; throws where it cannot read it. */
  readonly keptHubToken?: (() => Promise<string | undefined>) | undefined
  readonly allowInsecureLoopback: boolean | undefined
  /** Servers beside the public ones that downloads may talk to; `any` for downloads that a person at this machine asks for. */
  readonly allowedHosts: readonly string[] | 'any'
  /** For tests: in place of the system's. */
  readonly resolveHost?: Resolve | undefined
}

export type RemoteRequest = WantedModel & {
  /** The Model's; `''` = a person at this machine asks. */
  readonly namespace: string
  readonly secret?: (() => Promise<HubToken>) | undefined
}

/** Over which connections other machines are asked, which of them, and with whose login. */
export class RemoteAccess implements AsyncDisposable {
  readonly #options: RemoteAccessOptions
  /** By the authorities that they trust. */
  readonly #transports = new Map<string, Promise<Transport>>()

  constructor(options: RemoteAccessOptions) {
    this.#options = options
  }

  /** Throws ModelError where a setting cannot be used. */
  async context(request: RemoteRequest, signal: AbortSignal): Promise<ResolveContext & { transport: Transport }> {
    const { env, settings, log, allowInsecureLoopback } = this.#options
    const endpoint = hubEndpoint(env, settings().hubEndpoint)
    if ('problem' in endpoint)
      throw new ModelError('transient', 'BadAnswer', endpoint.problem, { retryAfterMs: localRepairMs })
    return {
      transport: await this.transport(),
      hubEndpoint: endpoint.endpoint,
      token: () => this.#token(request),
      ...(!this.#isLoginLent(request.namespace) && { namespace: request.namespace }),
      offline: isHubOffline(env),
      signal,
      log,
      allowInsecureLoopback,
    }
  }

  transport(): Promise<Transport> {
    const { settings, env } = this.#options
    const { caFile } = settings()
    const known = this.#transports.get(caFile ?? '')
    if (known) return known
    const made = createTransport({ env, caFile, guard: this.#guard() })
    this.#transports.set(caFile ?? '', made)
    // Another try may find the file repaired.
    made.catch(() => this.#transports.delete(caFile ?? ''))
    return made
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const made of this.#transports.values()) {
      const transport = await made.catch(() => undefined)
      await transport?.[Symbol.asyncDispose]()
    }
  }

  /** A namespace gets the login of the person at this machine only where that person listed the namespace. */
  async #token({ secret, namespace }: RemoteRequest): Promise<HubToken | undefined> {
    const { env, homeDir, settings, keptHubToken } = this.#options
    const { hubTokenFile } = settings()
    if (secret === undefined && !this.#isLoginLent(namespace)) return undefined
    const setting = secret === undefined && hubTokenFile !== undefined ? await tokenInFile(hubTokenFile) : undefined
    const kept = secret === undefined && setting === undefined ? await keptToken(keptHubToken) : undefined
    return hubToken({ secret, setting, kept, env, home: homeDir })
  }

  #isLoginLent(namespace: string): boolean {
    return namespace === '' || this.#options.settings().hubLoginNamespaces.includes(namespace)
  }

  #guard(): HostGuard | undefined {
    const { allowedHosts, resolveHost: resolve, settings, env } = this.#options
    if (allowedHosts === 'any') return undefined
    return new HostGuard({ allowed: () => [...allowedHosts, ...chosenHub(env, settings().hubEndpoint)], resolve })
  }
}

/** The host of the Hub that a person chose, which may well be in the network of a company. */
function chosenHub(env: RemoteAccessOptions['env'], setting: string | undefined): readonly string[] {
  const hub = hubEndpoint(env, setting)
  return 'endpoint' in hub && hub.endpoint !== publicHub ? [new URL(hub.endpoint).hostname] : []
}

export interface RemoteOptions extends RemoteAccessOptions {
  readonly now: () => number
  readonly stallMs: number | undefined
  readonly attempts: number | undefined
  /** As messages about the disk name it. */
  readonly storeFolder?: string | undefined
  readonly deletableBytes: () => Promise<number>
}

interface FetchOptions {
  readonly wanted: Wanted
  readonly store: Store
  readonly contents: ContentFetches
  readonly signal: AbortSignal
  /** What the store has of this source stays. */
  readonly beside: boolean
  readonly onProgress: (progress: Progress) => void
}

/** Why a file that begins like this is not what is wanted. */
type Refusal = (start: Uint8Array) => ModelError | undefined

/** Models on other machines: which files they are, and their bytes. */
export class Remote implements AsyncDisposable {
  readonly #options: RemoteOptions
  readonly #bandwidth: Bandwidth
  readonly #claims = new SpaceClaims()
  readonly #access: RemoteAccess

  constructor(options: RemoteOptions) {
    this.#options = options
    this.#access = new RemoteAccess(options)
    this.#bandwidth = new Bandwidth(options.settings().bytesPerSecond)
  }

  /** Of all downloads since the agent began. */
  get receivedBytes(): number {
    return this.#bandwidth.takenBytes
  }

  /** For downloads under way too. */
  limitBandwidth(): void {
    this.#bandwidth.limit(this.#options.settings().bytesPerSecond)
  }

  /** Which files the source means now. Throws ModelError. */
  async resolve(request: RemoteRequest, signal: AbortSignal): Promise<RemoteSource> {
    const context = await this.#access.context(request, signal)
    const resolved = await resolveSource(request, context)
    if (resolved.kind === 'remote') {
      // What the Hub vouches for may be here already, and then no download asks for it.
      const telling = resolved.files.filter(({ hub, isUnsaid }) => hub !== undefined && isUnsaid === true)
      for (const file of telling) await requireFile(file, request.format, resolved.files[0] === file, context)
      return resolved
    }
    throw new Error(`${shownSource(request.source)} is on this machine.`)
  }

  /** Of a GGUF file, without the rest of it. Throws GgufError, ModelError or the signal's reason. */
  async header(file: RemoteFile, signal: AbortSignal): Promise<GgufHeader> {
    const { fetch } = await this.#access.transport()
    const url = withoutLogin(file.url)
    // Redirects are followed by fetch, which leaves the login behind where they lead to another origin.
    return readGgufHeaderOverHttp(url.href, { fetch, signal, headers: new Login(file).headersFor(url) })
  }

  /** See {@link remoteStates}. Throws ModelError. */
  async states({ files }: RemoteSource, signal: AbortSignal): Promise<ReadonlyMap<string, RemoteState>> {
    return remoteStates(files, { transport: await this.#access.transport(), signal })
  }

  /** See {@link askAccess}: with the login of the request. */
  async askAccess(
    request: RemoteRequest,
    stored: Manifest & Pick<AskedFor, 'sha256Of'>,
    signal: AbortSignal,
  ): Promise<{ isPublic: boolean } | undefined> {
    return askAccess(request, stored, await this.#access.context(request, signal))
  }

  /** Brings every file of the source here and makes them a model of the store. Throws ModelError, or the signal's reason. */
  async fetch(
    request: RemoteRequest & { readonly format?: string | undefined },
    options: FetchOptions,
  ): Promise<StoredModel> {
    const { log, now } = this.#options
    const { wanted, store, signal, beside } = options
    const resolved = await this.resolve(request, signal)
    const { files, primary, mmproj, revision } = resolved
    const fields = { model: wanted.model, source: shownSource(wanted.source), files: files.length }
    const destination = await store.reserve(
      wanted,
      files.map(({ path }) => path),
      { primary, beside },
    )
    const arrived: (Content & Pick<Arrived, 'from'>)[] = []
    try {
      log.info('downloading model', { ...fields, folder: destination.folder })
      const startedAt = now()
      const progress = new TotalProgress(
        files.map(({ sizeBytes }) => sizeBytes),
        options.onProgress,
      )
      for (const [at, file] of files.entries()) {
        const refusal = (start: Uint8Array) => startProblem(start, file, { isFirst: at === 0, format: request.format })
        arrived.push(await this.#content(file, { ...options, refusal }, (news) => progress.report(news)))
        progress.end(arrived.at(-1)?.sizeBytes ?? 0)
      }
      const stored = await destination.commit({
        files: arrived.map((content, at) => {
          const file = files[at]
          return { ...content, path: file?.path ?? '', etag: validatorOf(file, content) }
        }),
        primary,
        mmproj,
        revision,
        access: accessAfter(undefined, {
          namespace: request.namespace,
          isPublic: files.every(({ isPublic }) => isPublic === true),
          isByLogin: files.some(({ credentials }) => credentials !== undefined),
        }),
      })
      const { sizeBytes } = stored
      log.info('downloaded model', { ...fields, path: stored.path, sizeBytes, durationMs: now() - startedAt })
      return stored
    } finally {
      destination.release()
      for (const released of await Promise.allSettled(arrived.map((content) => content.release()))) {
        if (released.status === 'rejected')
          log.warn('partial download not removed', { model: wanted.model, error: released.reason })
      }
    }
  }

  /** One file. Throws ModelError, or the signal's reason. */
  async download(
    request: FileRequest,
    how: Pick<DownloadOptions, 'partialPath' | 'signal' | 'onStart' | 'onProgress'>,
  ): Promise<DownloadedFile> {
    const { log, now, settings, stallMs, attempts, deletableBytes, storeFolder } = this.#options
    const { reserveBytes } = settings()
    this.limitBandwidth()
    return download(request, {
      ...how,
      log,
      now,
      stallMs,
      attempts,
      storeFolder,
      transport: await this.#access.transport(),
      bandwidth: this.#bandwidth,
      deletableBytes,
      claims: this.#claims,
      ...(reserveBytes > 0 && { reserveBytes }),
    })
  }

  /** Throws `DiskFull` where it would take of the disk's reserve, or of what downloads under way need. */
  readonly withRoom: WithRoom = async ({ folder, bytes }, work) => {
    const { settings, deletableBytes, storeFolder: name } = this.#options
    const { reserveBytes } = settings()
    const room = { folder, name, deletableBytes, claims: this.#claims, ...(reserveBytes > 0 && { reserveBytes }) }
    const owner = {}
    try {
      await requireFreeSpace(room, bytes, owner)
      await work()
    } finally {
      this.#claims.claim(owner, 0)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#access[Symbol.asyncDispose]()
  }

  /** From the store, the caches of other tools, or the network. */
  async #content(
    file: RemoteFile,
    { store, contents, signal, wanted, refusal }: FetchOptions & { readonly refusal: Refusal },
    onProgress: (progress: Progress) => void,
  ): Promise<Content & Pick<Arrived, 'from'>> {
    const { sha256, sizeBytes } = file
    const here =
      sha256 === undefined ? undefined : await this.#alreadyHere(file, { store, signal, namespace: wanted.namespace })
    if (here !== undefined && sha256 !== undefined) {
      const found = await lstat(here)
      const problem = refusal(await firstBytes(here))
      if (problem) throw problem
      this.#options.log.info('using content that is on this machine already', { path: here, model: wanted.model })
      return {
        sha256,
        sizeBytes: sizeBytes ?? found.size,
        from: here,
        moveTo: (path) => sameBytes(here, path, this.withRoom),
        release: () => Promise.resolve(),
      }
    }
    const { blob, credentials, url, fileName, hub } = file
    const isShared = sha256 === undefined ? hub !== undefined || credentials === undefined : isVouchedFor(file)
    const request = {
      ...(!isShared && { scope: wanted.namespace }),
      url,
      fileName,
      ...(sizeBytes !== undefined && { sizeBytes }),
      ...(sha256 !== undefined && { sha256 }),
      ...(credentials && { credentials }),
      ...(blob !== undefined && { etag: blob }),
    }
    return contents.get(request, { model: wanted.model, signal, onProgress, refusal })
  }

  async #alreadyHere(
    file: RemoteFile,
    { store, signal, namespace }: { store: Store; signal: AbortSignal; namespace: string },
  ): Promise<string | undefined> {
    const { hub, sha256, sizeBytes } = file
    if (sha256 === undefined) return undefined
    const isVouched = isVouchedFor(file)
    const stored = await store.findContent(
      { sha256, sizeBytes },
      (manifest) => isVouched || isOpenTo(manifest, namespace),
    )
    if (stored !== undefined || hub === undefined || sizeBytes === undefined || !isVouched) return stored
    const { env, homeDir } = this.#options
    return findInHubCache({ ...hub, sha256, sizeBytes, env, home: homeDir, platform: process.platform, signal })
  }
}

/** What tells this content from a later one of the same address. */
function validatorOf(file: RemoteFile | undefined, { etag, lastModified }: DownloadedFile): string | undefined {
  return file?.blob ?? etag ?? lastModified
}
