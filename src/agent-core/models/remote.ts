import { editableRows } from '../../contract/settings-table.ts'
import type { Logger } from '../observability/logger.ts'
import { type AskContext, requireFile } from './ask-source.ts'
import { download, type DownloadedFile, type DownloadOptions, type FileRequest } from './download/download.ts'
import { HostGuard, type Resolve } from './download/host-guard.ts'
import { Bandwidth, DiskSpace } from './download/limits.ts'
import { isS3Login } from './download/s3.ts'
import { createTransport, type Transport, type TransportOptions } from './download/transport.ts'
import { hasReason, ModelError } from './errors.ts'
import type { GgufHeader } from './gguf/gguf.ts'
import { readGgufHeaderOverHttp } from './gguf/http-header.ts'
import { hubEndpoint, isHubOffline, publicHub } from './hub/endpoint.ts'
import { hubOfSecret, hubToken, type LoginSources, tokenOfSecret } from './hub/token.ts'
import type { ModelRequest } from './model-request.ts'
import { hubAddressIn, resolveSource, type RemoteFile, type RemoteSource } from './resolve.ts'
import { parseModelSource, shownSource } from './source.ts'
import { owners } from './store/owner.ts'

export interface DownloadSettings {
  /** The limit of all downloads together; 0 = none. */
  readonly bytesPerSecond: number
  /** What the models that one namespace fetched may take of the store together; 0 = half of its volume. */
  readonly bytesPerNamespace: number
  readonly hubEndpoint?: string | undefined
  readonly hubTokenFile?: string | undefined
  readonly caFile?: string | undefined
  /** Namespaces whose Models may use the login of the person at this machine. */
  readonly hubLoginNamespaces: readonly string[]
}

export const defaultDownloadSettings: DownloadSettings = {
  bytesPerSecond: editableRows.downloadBytesPerSecond.default,
  bytesPerNamespace: editableRows.namespaceModelBytes.default,
  hubLoginNamespaces: [],
}

export interface RemoteOptions {
  readonly log: Logger
  readonly settings: () => DownloadSettings
  readonly env: Readonly<Record<string, string | undefined>>
  readonly homeDir: string
  readonly keptHubToken?: LoginSources['keptHubToken']
  readonly whyUnreachable?: TransportOptions['whyUnreachable']
  /** Servers beside the public ones that downloads may talk to; `any` for downloads that a person at this machine asks for. */
  readonly allowedHosts: readonly string[] | 'any'
  readonly now?: () => number
  /** As messages about the disk name it. */
  readonly storeFolder?: string
  /** What deleting unused models would free. */
  readonly deletableBytes?: () => Promise<number>
  /** For tests: the token may go over http to this machine. */
  readonly allowInsecureLoopback?: boolean | undefined
  /** For tests: in place of the system's. */
  readonly resolveHost?: Resolve | undefined
  /** For tests: what downloads leave free of the volume. */
  readonly reserveBytes?: number | undefined
  /** For tests: see `DownloadOptions`. */
  readonly stallMs?: number | undefined
  readonly attempts?: number | undefined
}

export type RemoteRequest = Omit<ModelRequest, 'name'> & Partial<Pick<ModelRequest, 'name'>>

/** The files that a source means now. */
export interface OwnedSource extends RemoteSource {
  /** The owner of their bytes: see `owners`. */
  readonly owner: string
}

/** Other machines: over which connections they are asked, which of them, with whose login, and what downloads from them share. */
export class Remote implements AsyncDisposable {
  readonly #options: RemoteOptions
  readonly #bandwidth = new Bandwidth()
  readonly space: DiskSpace
  /** By the authorities that they trust. */
  readonly #transports = new Map<string, Promise<Transport>>()

  constructor(options: RemoteOptions) {
    const { reserveBytes, deletableBytes } = options
    this.#options = options
    this.space = new DiskSpace({
      name: options.storeFolder,
      ...(reserveBytes !== undefined && { reserveBytes }),
      ...(deletableBytes && { deletableBytes }),
    })
    this.limitBandwidth()
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
  async context(request: RemoteRequest, signal: AbortSignal): Promise<AskContext> {
    const { env, homeDir: home, settings, keptHubToken, log, allowInsecureLoopback } = this.#options
    const { hubEndpoint: stated, hubTokenFile } = settings()
    const endpoint = hubEndpoint(env, stated)
    if ('problem' in endpoint) throw ModelError.untilRepairedHere('BadAnswer', endpoint.problem)
    const { namespace, name = '', source, secret: readSecret } = request
    const offline = isHubOffline(env)
    const shared = {
      transport: await this.transport(),
      offline,
      signal,
      log,
      allowInsecureLoopback,
      secret: readSecret,
    }
    const named = offline ? undefined : await this.#hubOfSecret(request, endpoint.endpoint)
    const ofModel = owners.model(namespace, name)
    if (named !== undefined) {
      const isOwnServer = named.endpoint !== publicHub && named.endpoint !== endpoint.endpoint
      const owner = isOwnServer ? ofModel : namespace
      return { ...shared, hubEndpoint: named.endpoint, token: () => Promise.resolve(named.token), isOwnServer, owner }
    }
    const secret = readSecret && (async () => tokenOfSecret(await readSecret()))
    const isLent = this.#isLent(namespace)
    const isOwnServer = readSecret !== undefined && parseModelSource(source).kind === 's3'
    const isOfLogin = isLent && secret === undefined && hubAddressIn(source, endpoint.endpoint) !== undefined
    const owner = isOwnServer ? ofModel : isOfLogin ? owners.hubLogin : namespace || owners.person
    return {
      ...{ ...shared, isOwnServer, owner },
      hubEndpoint: endpoint.endpoint,
      token: isLent ? () => hubToken({ secret, hubTokenFile, keptHubToken, env, home }) : secret,
      ...(!isLent && { namespace }),
    }
  }

  /** The owners whose contents a request may use besides everybody's, the preferred first. */
  ownersFor({ namespace, name, secret }: ModelRequest): string[] {
    if (namespace === '') return [owners.hubLogin, owners.person]
    const own = [owners.model(namespace, name), namespace]
    return secret === undefined && this.#isLent(namespace) ? [...own, owners.hubLogin] : own
  }

  /** A namespace gets the login of the person at this machine only where that person listed the namespace. */
  #isLent(namespace: string): boolean {
    return namespace === '' || this.#options.settings().hubLoginNamespaces.includes(namespace)
  }

  /** Whether a server that the Model's own Secret names is asked, so that the same source may mean something else to another Model. Throws ModelError. */
  async isAtOwnServer(request: RemoteRequest, signal: AbortSignal): Promise<boolean> {
    return request.secret !== undefined && (await this.context(request, signal)).isOwnServer === true
  }

  /** The Hub that the Model's Secret names, where that is another one than `usual` or is to be asked without a token. Throws ModelError. */
  async #hubOfSecret({ source, secret }: RemoteRequest, usual: string): Promise<ReturnType<typeof hubOfSecret>> {
    const { kind } = parseModelSource(source)
    if (secret === undefined || (kind !== 'hub' && kind !== 'http')) return undefined
    try {
      const named = hubOfSecret(await secret())
      return named?.endpoint === usual && named.token !== undefined ? undefined : named
    } catch (error) {
      const isNeeded = hubAddressIn(source, usual) !== undefined || hasReason(error, ['SecretUnread'])
      if (!(error instanceof ModelError) || isNeeded) throw error
      // An address of no Hub is asked without a login, so that a Secret that cannot be read is no reason not to.
      this.#options.log.debug('Secret of a model not read', { source: shownSource(source), error })
      return undefined
    }
  }

  transport(): Promise<Transport> {
    const { settings, env, whyUnreachable, allowedHosts, resolveHost: resolve } = this.#options
    const { caFile } = settings()
    const key = caFile ?? ''
    const known = this.#transports.get(key)
    if (known) return known
    const allowed = (): readonly string[] => [
      ...(allowedHosts === 'any' ? [] : allowedHosts),
      ...chosenHub(env, settings().hubEndpoint),
    ]
    const guard = allowedHosts === 'any' ? undefined : new HostGuard({ allowed, resolve })
    const made = createTransport({ env, caFile, guard, whyUnreachable })
    this.#transports.set(key, made)
    // Another try may find the file repaired.
    made.catch(() => this.#transports.delete(key))
    return made
  }

  /** Which files the source means now. Throws ModelError. */
  async resolve(request: RemoteRequest, signal: AbortSignal): Promise<OwnedSource> {
    const context = await this.context(request, signal)
    const resolved = await resolveSource(request, context)
    const isOpen = context.isOwnServer !== true && resolved.isSaidToBeOpen === true
    const files = isOpen ? await withoutNeedlessLogin(resolved.files, request, context) : resolved.files
    const isSecret = context.isOwnServer === true || files.some(sendsSecret)
    return { ...resolved, files, owner: isSecret ? context.owner : owners.everybody }
  }

  /** The header of a GGUF file, without the rest of it. Throws GgufError, ModelError or the signal's reason. */
  async header(file: RemoteFile, signal: AbortSignal): Promise<GgufHeader> {
    return readGgufHeaderOverHttp(file, { transport: await this.transport(), signal })
  }

  /** Brings one file here. Throws ModelError, or the signal's reason. */
  async download(
    request: FileRequest,
    how: Pick<DownloadOptions, 'partialPath' | 'model' | 'signal' | 'onStart' | 'onProgress'>,
  ): Promise<DownloadedFile> {
    const { log, now, stallMs, attempts } = this.#options
    this.limitBandwidth()
    const shared = { transport: await this.transport(), bandwidth: this.#bandwidth, space: this.space }
    return download(request, { ...how, ...shared, log, now, stallMs, attempts })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const made of this.#transports.values()) {
      const transport = await made.catch(() => undefined)
      await transport?.[Symbol.asyncDispose]()
    }
  }
}

/** The host of the Hub that a person chose, which may well be in the network of a company. */
function chosenHub(env: RemoteOptions['env'], setting: string | undefined): readonly string[] {
  const hub = hubEndpoint(env, setting)
  return 'endpoint' in hub && hub.endpoint !== publicHub ? [new URL(hub.endpoint).hostname] : []
}

/**
 * Without the login where the Hub gives a file without it, so that what arrives is everybody's. Some mirrors pass on that a repository is open, and
 * want a login themselves. Throws only the signal's reason.
 */
async function withoutNeedlessLogin(
  files: RemoteSource['files'],
  { format }: RemoteRequest,
  context: AskContext,
): Promise<RemoteSource['files']> {
  const open = files.map((file) => ({ ...file, credentials: undefined }))
  const [first] = open
  if (first === undefined || files.every(({ credentials }) => credentials === undefined)) return files
  try {
    await requireFile(first, { isFirst: true, format }, context)
    return open
  } catch (error) {
    if (!(error instanceof ModelError)) throw error
    return files
  }
}

/** Whether something is sent for the file that not everybody knows. */
function sendsSecret({ url, credentials }: RemoteFile): boolean {
  const { username, password, search } = new URL(url)
  const hasKeys = isS3Login(credentials) ? credentials.keys !== undefined : credentials !== undefined
  return hasKeys || username !== '' || password !== '' || search !== ''
}
