import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import { EnvHttpProxyAgent, fetch as undiciFetch, type Dispatcher } from 'undici'
import { readBounded } from '../../util/files.ts'
import { messageOf } from '../../util/message-of.ts'
import { ModelError } from '../errors.ts'
import type { HostGuard } from './host-guard.ts'

/** How requests for models leave this machine: through which proxy, and with which trusted authorities. */
export interface Transport extends AsyncDisposable {
  readonly dispatcher: Dispatcher
  readonly fetch: typeof fetch
  /** The proxy that requests to such an address go through, without its login; also given where NO_PROXY exempts the address. */
  proxyFor(url: URL): URL | undefined
  /** Where it is this machine's system that keeps us from `shown`; `fetch` throws it by itself. */
  denied(error: unknown, shown: string): Promise<ModelError | undefined>
}

export interface TransportOptions {
  /** Read: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY, or the same in small letters, which win. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Certificates (PEM) of authorities to trust beside the usual ones. */
  readonly caFile?: string | undefined
  /** Absent: any server, for what a person at this machine asks for. */
  readonly guard?: HostGuard | undefined
  /** One sentence where this machine's system keeps us from an address. */
  readonly whyUnreachable?: ((error: unknown) => Promise<string | undefined>) | undefined
}

/** Throws ModelError where the certificates cannot be read or a proxy's address makes no sense. */
export async function createTransport({ env, caFile, guard, whyUnreachable }: TransportOptions): Promise<Transport> {
  const http = proxyAddress(env, 'http_proxy') ?? proxyAddress(env, 'all_proxy')
  const https = proxyAddress(env, 'https_proxy') ?? proxyAddress(env, 'all_proxy') ?? http
  const tls = caFile === undefined ? {} : { secureContext: await trusting(caFile) }
  const agent = new EnvHttpProxyAgent({
    // Undici falls back to the process's own environment where nothing is said.
    httpProxy: http?.href ?? '',
    httpsProxy: https?.href ?? '',
    noProxy: variable(env, 'no_proxy') ?? '',
    // Not for the proxy itself, which a person chose.
    connect: { ...tls, ...(guard && { lookup: guard.lookup }) },
    requestTls: tls,
    proxyTls: tls,
    // When the last HTTP/2 stream of a connection is ended, undici 8 throws from a timer, where it cannot be caught.
    allowH2: false,
    // The download watches the pace itself.
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  const guarded =
    (dispatch: Dispatcher['dispatch']): Dispatcher['dispatch'] =>
    (request, handler) => {
      guard?.requireHost(new URL(request.origin ?? '').hostname)
      return dispatch(request, handler)
    }
  const dispatcher = agent.compose(guarded)
  const denied: Transport['denied'] = async (error, shown) => {
    const why = await whyUnreachable?.(error).catch(() => undefined)
    if (why === undefined) return undefined
    return ModelError.passing('Unreachable', `${shown} cannot be reached: ${why}`, { cause: error })
  }
  const fetch = (input: string, init?: object) =>
    undiciFetch(input, { ...init, dispatcher }).catch(async (error: unknown) => {
      throw (await denied(error, new URL(input).origin)) ?? error
    })
  return {
    dispatcher,
    // Node.js types the fetch that is built in, which is an older undici.
    fetch: fetch as unknown as typeof globalThis.fetch,
    denied,
    proxyFor: ({ protocol }) => withoutLogin(protocol === 'https:' ? https : http),
    [Symbol.asyncDispose]: () => agent.destroy(),
  }
}

/** All authorities of a system take less than a megabyte. */
const maxCaBytes = 16 * 1024 * 1024

async function trusting(caFile: string): Promise<SecureContext> {
  try {
    const own = (await readBounded(caFile, maxCaBytes)).toString()
    if (!own.includes('-----BEGIN CERTIFICATE-----')) throw new Error('it holds no PEM certificate')
    return createSecureContext({ ca: [...getCACertificates('default'), own] })
  } catch (error) {
    throw ModelError.untilRepairedHere(
      'BadAuthorityFile',
      `The certificate authorities in ${caFile} cannot be used (${messageOf(error)}): give a file of PEM certificates that this user may read.`,
      error,
    )
  }
}

function proxyAddress(env: TransportOptions['env'], name: 'all_proxy' | 'http_proxy' | 'https_proxy'): URL | undefined {
  const value = variable(env, name)
  if (value === undefined) return undefined
  const address = /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? value : `http://${value}`
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (url !== undefined && ['http:', 'https:'].includes(url.protocol)) return url
  const what =
    url?.protocol.startsWith('socks') === true
      ? 'names a SOCKS proxy, but models are fetched through HTTP proxies only: give one in HTTPS_PROXY and HTTP_PROXY as http://host:port, or none.'
      : 'is not the address of a proxy: write it as http://host:port.'
  throw ModelError.untilRepairedHere('BadProxy', `${name.toUpperCase()} ${what}`)
}

/** As curl: small letters win, empty counts as not there. */
function variable(env: TransportOptions['env'], name: string): string | undefined {
  return [env[name], env[name.toUpperCase()]].find((value) => value !== undefined && value.trim() !== '')?.trim()
}

function withoutLogin(url: URL | undefined): URL | undefined {
  if (url === undefined) return undefined
  const shown = new URL(url)
  shown.username = ''
  shown.password = ''
  return shown
}
