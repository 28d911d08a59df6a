import { getCACertificates } from 'node:tls'
import { Agent, type buildConnector, type Dispatcher, ProxyAgent } from 'undici'

/**
 * Heartbeats come every 45 s or oftener and need no new handshake; API servers close idle connections after 90 s, some load balancers after
 * 60 s, which is also why TCP looks after an idle connection every 30 s.
 */
const keeping = { keepAliveTimeout: 50_000 }
const lookedAfter = { keepAlive: true, keepAliveInitialDelay: 30_000 }

interface TlsOptions {
  /** Absent = those that the system and Node trust. */
  readonly ca?: Buffer | undefined
  readonly cert?: Buffer | undefined
  readonly key?: Buffer | undefined
  readonly servername?: string
  readonly rejectUnauthorized?: boolean
}

/**
 * Connections that are kept and used again. HTTP/2 stays off: when the last stream of a session has ended, undici 8 throws "socket idle timeout"
 * from a timer, where it cannot be caught.
 */
export function dispatcherFor(stated: TlsOptions, proxy: URL | undefined): Dispatcher {
  const { ca = [...getCACertificates('default'), ...getCACertificates('system')] } = stated
  // As Go takes it: whatever is stated as authority is trusted, be it an intermediate one.
  const tls: buildConnector.BuildOptions = { ...stated, ca, allowPartialTrustChain: true, allowH2: false }
  if (proxy === undefined) return new Agent({ ...keeping, connect: { ...tls, ...lookedAfter } })
  const uri = proxy.href.replace(/^socks5h:/, 'socks5:')
  // With options of TLS undici would speak it to any proxy.
  const proxyTls = proxy.protocol === 'https:' && { proxyTls: { ...tls, servername: proxy.hostname } }
  return new ProxyAgent({ ...keeping, uri, requestTls: tls, ...proxyTls })
}
