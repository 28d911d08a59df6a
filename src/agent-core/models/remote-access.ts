import type { Logger } from '../observability/logger.ts'
import type { DownloadSettings } from './download-settings.ts'
import { HostGuard, type Resolve } from './download/host-guard.ts'
import { createTransport, type Transport } from './download/transport.ts'
import { localRepairMs, ModelError } from './errors.ts'
import { hubEndpoint, isHubOffline, publicHub } from './hub/endpoint.ts'
import { hubToken, keptToken, tokenInFile, type HubToken } from './hub/token.ts'
import type { ResolveContext, WantedModel } from './resolve-source.ts'

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
