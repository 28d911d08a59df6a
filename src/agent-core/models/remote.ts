import { editableRows } from '../../contract/settings-table.ts'
import type { Logger } from '../observability/logger.ts'
import { requireFile } from './ask-source.ts'
import { download, type DownloadedFile, type DownloadOptions, type FileRequest } from './download/download.ts'
import { HostGuard, type Resolve } from './download/host-guard.ts'
import { Bandwidth, requireFreeSpace, SpaceClaims } from './download/limits.ts'
import { Login, withoutLogin } from './download/request.ts'
import { createTransport, type Transport, type TransportOptions } from './download/transport.ts'
import { localRepairMs, ModelError } from './errors.ts'
import type { GgufHeader } from './gguf/gguf.ts'
import { readGgufHeaderOverHttp } from './gguf/http-header.ts'
import { hubEndpoint, isHubOffline, publicHub } from './hub/endpoint.ts'
import { hubToken, keptToken, tokenInFile, type HubToken } from './hub/token.ts'
import { resolveSource, type RemoteFile, type RemoteSource, type ResolveContext, type WantedModel } from './resolve.ts'
import { shownSource } from './source.ts'
import type { WithRoom } from './store/files.ts'

export interface DownloadSettings {
  /** The limit of all downloads together; 0 = none. */
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

export interface RemoteOptions {
  readonly log: Logger
  readonly settings: () => DownloadSettings
  readonly env: Readonly<Record<string, string | undefined>>
  readonly homeDir: string
  /** The Hub's token that the program which hosts the agent keeps; throws where it cannot read it. */
  readonly keptHubToken?: (() => Promise<string | undefined>) | undefined
  /** For tests: the token may go over http to this machine. */
  readonly allowInsecureLoopback: boolean | undefined
  readonly whyUnreachable?: TransportOptions['whyUnreachable']
  /** Servers beside the public ones that downloads may talk to; `any` for downloads that a person at this machine asks for. */
  readonly allowedHosts: readonly string[] | 'any'
  /** For tests: in place of the system's. */
  readonly resolveHost?: Resolve | undefined
  readonly now: () => number
  /** See `DownloadOptions`. */
  readonly stallMs: number | undefined
  readonly attempts: number | undefined
  /** As messages about the disk name it. */
  readonly storeFolder?: string | undefined
  readonly deletableBytes: () => Promise<number>
}

export type RemoteRequest = WantedModel & {
  /** The Model's; `''` = a person at this machine asks. */
  readonly namespace: string
  readonly secret?: (() => Promise<HubToken>) | undefined
}

/** Other machines: over which connections they are asked, which of them, with whose login, and what downloads from them share. */
export class Remote implements AsyncDisposable {
  readonly #options: RemoteOptions
  readonly #bandwidth: Bandwidth
  readonly #claims = new SpaceClaims()
  /** By the authorities that they trust. */
  readonly #transports = new Map<string, Promise<Transport>>()

  constructor(options: RemoteOptions) {
    this.#options = options
    this.#bandwidth = new Bandwidth(options.settings().bytesPerSecond)
  }

  /** Received by all downloads since the agent started. */
  get receivedBytes(): number {
    return this.#bandwidth.takenBytes
  }

  /** For downloads under way too. */
  limitBandwidth(): void {
    this.#bandwidth.limit(this.#options.settings().bytesPerSecond)
  }

  /** What it takes to ask for the files of a request. Throws ModelError where a setting cannot be used. */
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
    const { settings, env, whyUnreachable } = this.#options
    const { caFile } = settings()
    const known = this.#transports.get(caFile ?? '')
    if (known) return known
    const made = createTransport({ env, caFile, guard: this.#guard(), whyUnreachable })
    this.#transports.set(caFile ?? '', made)
    // Another try may find the file repaired.
    made.catch(() => this.#transports.delete(caFile ?? ''))
    return made
  }

  /** Which files the source means now. Throws ModelError. */
  async resolve(request: RemoteRequest, signal: AbortSignal): Promise<RemoteSource> {
    const context = await this.context(request, signal)
    const resolved = await resolveSource(request, context)
    if (resolved.kind === 'local') throw new Error(`${shownSource(request.source)} is on this machine.`)
    // What the Hub vouches for may be here already, and then no download asks for it.
    const telling = resolved.files.filter(({ hub, isUnsaid }) => hub !== undefined && isUnsaid === true)
    for (const file of telling) await requireFile(file, request.format, resolved.files[0] === file, context)
    return resolved
  }

  /** The header of a GGUF file, without the rest of it. Throws GgufError, ModelError or the signal's reason. */
  async header(file: RemoteFile, signal: AbortSignal): Promise<GgufHeader> {
    const { fetch } = await this.transport()
    const url = withoutLogin(file.url)
    // Redirects are followed by fetch, which leaves the login behind where they lead to another origin.
    return readGgufHeaderOverHttp(url.href, { fetch, signal, headers: new Login(file).headersFor(url) })
  }

  /** Brings one file here. Throws ModelError, or the signal's reason. */
  async download(
    request: FileRequest,
    how: Pick<DownloadOptions, 'partialPath' | 'signal' | 'onStart' | 'onProgress'>,
  ): Promise<DownloadedFile> {
    const { log, now, stallMs, attempts, deletableBytes, storeFolder } = this.#options
    this.limitBandwidth()
    const transport = await this.transport()
    const shared = { transport, bandwidth: this.#bandwidth, claims: this.#claims, ...this.#reserve() }
    return download(request, { ...how, ...shared, log, now, stallMs, attempts, storeFolder, deletableBytes })
  }

  /** Throws `DiskFull` where it would take of the disk's reserve, or of what downloads under way need. */
  readonly withRoom: WithRoom = async ({ folder, bytes }, work) => {
    const { deletableBytes, storeFolder: name } = this.#options
    const owner = {}
    try {
      await requireFreeSpace({ folder, name, deletableBytes, claims: this.#claims, ...this.#reserve() }, bytes, owner)
      await work()
    } finally {
      this.#claims.claim(owner, 0)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const made of this.#transports.values()) {
      const transport = await made.catch(() => undefined)
      await transport?.[Symbol.asyncDispose]()
    }
  }

  /** A namespace gets the login of the person at this machine only where that person listed the namespace. */
  async #token({ secret, namespace }: RemoteRequest): Promise<HubToken | undefined> {
    const { env, homeDir: home, settings, keptHubToken } = this.#options
    const { hubTokenFile } = settings()
    if (secret !== undefined) return secret()
    if (!this.#isLoginLent(namespace)) return undefined
    const setting = hubTokenFile === undefined ? undefined : await tokenInFile(hubTokenFile)
    const kept = setting === undefined ? await keptToken(keptHubToken) : undefined
    return hubToken({ setting, kept, env, home })
  }

  #isLoginLent(namespace: string): boolean {
    return namespace === '' || this.#options.settings().hubLoginNamespaces.includes(namespace)
  }

  #guard(): HostGuard | undefined {
    const { allowedHosts, resolveHost: resolve, settings, env } = this.#options
    if (allowedHosts === 'any') return undefined
    return new HostGuard({ allowed: () => [...allowedHosts, ...chosenHub(env, settings().hubEndpoint)], resolve })
  }

  #reserve(): { reserveBytes?: number } {
    const { reserveBytes } = this.#options.settings()
    return reserveBytes > 0 ? { reserveBytes } : {}
  }
}

/** The host of the Hub that a person chose, which may well be in the network of a company. */
function chosenHub(env: RemoteOptions['env'], setting: string | undefined): readonly string[] {
  const hub = hubEndpoint(env, setting)
  return 'endpoint' in hub && hub.endpoint !== publicHub ? [new URL(hub.endpoint).hostname] : []
}
