import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import { Agent, type Dispatcher, fetch as undiciFetch, ProxyAgent } from 'undici'
import { readBounded } from '../../util/files.ts'
import { messageOf } from '../../util/message-of.ts'
import { proxyFor } from '../../util/proxy.ts'
import { ModelError } from '../errors.ts'
import type { HostGuard } from './host-guard.ts'

/** How requests for models leave this machine: through which proxy, and with which trusted authorities. */
export interface Transport extends AsyncDisposable {
  readonly dispatcher: Dispatcher
  readonly fetch: typeof fetch
  /** The proxy that requests to such an address go through, with its login. */
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

/** Throws ModelError where the certificates cannot be read. */
export async function createTransport({ env, caFile, guard, whyUnreachable }: TransportOptions): Promise<Transport> {
  const tls = caFile === undefined ? {} : { secureContext: await trusting(caFile) }
  const options = {
    // When the last HTTP/2 stream of a connection is ended, undici 8 throws from a timer, where it cannot be caught.
    allowH2: false,
    // The download watches the pace itself.
    headersTimeout: 0,
    bodyTimeout: 0,
  }
  const agent = new Agent({ ...options, connect: { ...tls, ...(guard && { lookup: guard.lookup }) } })
  /** By their addresses. What leads to one is not guarded, as a person chose it. */
  const proxies = new Map<string, ProxyAgent>()
  const through = (proxy: URL): ProxyAgent => {
    const known =
      proxies.get(proxy.href) ?? new ProxyAgent({ ...options, uri: proxy.href, requestTls: tls, proxyTls: tls })
    proxies.set(proxy.href, known)
    return known
  }
  const guarded =
    (dispatch: Dispatcher['dispatch']): Dispatcher['dispatch'] =>
    (request, handler) => {
      const origin = new URL(request.origin ?? '')
      guard?.requireHost(origin.hostname)
      const proxy = httpProxyFor(env, origin)
      return proxy === undefined ? dispatch(request, handler) : through(proxy).dispatch(request, handler)
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
    proxyFor: (url) => httpProxyFor(env, url),
    [Symbol.asyncDispose]: async () => {
      await Promise.all([agent, ...proxies.values()].map((one) => one.destroy()))
    },
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

/** Throws ModelError where the proxy that is stated cannot be used. */
function httpProxyFor(env: TransportOptions['env'], url: URL): URL | undefined {
  try {
    const proxy = proxyFor(env, url, { allProxy: true })
    if (proxy?.protocol.startsWith('socks') !== true) return proxy
    throw new Error(
      `The proxy ${proxy.protocol}//${proxy.host} speaks SOCKS, but models are fetched through HTTP proxies only: give one in HTTPS_PROXY and HTTP_PROXY as http://host:port, or none.`,
    )
  } catch (error) {
    throw ModelError.untilRepairedHere('BadProxy', messageOf(error))
  }
}
