import { request, type Dispatcher } from 'undici'
import { Login, withoutLogin, type Credentials } from '../credentials.ts'
import { ModelError, remoteRepairMs } from '../errors.ts'
import { connectionError } from '../http-answer.ts'
import { shownSource } from '../source.ts'
import type { ByteRange } from './byte-ranges.ts'
import type { PaceGuard } from './pace-guard.ts'
import type { Transport } from './transport.ts'

export interface Asked {
  /** Absent = GET. */
  readonly method?: 'HEAD'
  /** May hold a login. */
  readonly url: string
  readonly credentials?: Credentials | undefined
  /** Absent = the whole file; the end may be Infinity. */
  readonly range?: ByteRange | undefined
  /** A validator: another content is to be sent whole. */
  readonly ifRange?: string | undefined
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Dispatcher.ResponseData['body']
}

const maxRedirects = 10

/** One request, with redirects followed; see `Login` for the credentials each host gets. Throws ModelError, or the signal's reason. */
export async function send(
  asked: Asked,
  { transport, signal, guard }: { transport: Transport; signal: AbortSignal; guard: PaceGuard },
): Promise<Answer> {
  const login = new Login(asked)
  let url = withoutLogin(asked.url)
  for (let redirects = 0; ; redirects += 1) {
    const shown = shownSource(url.href)
    guard.waiting()
    const answer = await request(url, {
      method: asked.method ?? 'GET',
      dispatcher: transport.dispatcher,
      signal: AbortSignal.any([signal, guard.signal]),
      headers: { ...requestHeaders(asked), ...login.headersFor(url) },
    }).catch((error: unknown) => {
      signal.throwIfAborted()
      throw connectionError(error, shown, proxyOf(error, url, transport))
    })
    guard.received(0)
    const headers = headersOf(answer.headers)
    const location = redirectStatuses.has(answer.statusCode) ? headers.get('location') : null
    if (location === null) return { status: answer.statusCode, headers, body: answer.body }
    discard(answer.body)
    const next = URL.canParse(location, url.href) ? withoutLogin(new URL(location, url).href) : undefined
    if (next === undefined || !['http:', 'https:'].includes(next.protocol)) {
      throw refused(`${shown} redirects to something that is no http address: check spec.source.`)
    }
    if (redirects === maxRedirects)
      throw refused(`${shown} redirects more than ${maxRedirects} times: check spec.source.`)
    if (login.isGiven && url.protocol === 'https:' && next.protocol === 'http:') {
      throw refused(
        `${shown} redirects from https to http, which is not followed with a login: give the address of the file itself.`,
      )
    }
    url = next
  }
}

/** Ends a body that is not read; its connection is closed with it. */
export function discard(body: Answer['body']): void {
  body.on('error', () => undefined) // what ends it is no news
  body.destroy()
}

const redirectStatuses: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])

function requestHeaders({ range, ifRange }: Asked): Record<string, string> {
  return {
    'user-agent': 'metalbar',
    'accept-encoding': 'identity',
    ...(range === undefined ? {} : { range: `bytes=${range[0]}-${range[1] === Infinity ? '' : range[1] - 1}` }),
    ...(range === undefined || ifRange === undefined ? {} : { 'if-range': ifRange }),
  }
}

function headersOf(raw: Dispatcher.ResponseData['headers']): Headers {
  const headers = new Headers()
  for (const [name, value] of Object.entries(raw)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) headers.append(name, one)
  }
  return headers
}

/** The proxy, where the error is about it and not about the server behind. */
function proxyOf(error: unknown, url: URL, transport: Transport): string | undefined {
  const proxy = transport.proxyFor(url)
  if (proxy === undefined) return undefined
  for (let current = error; current instanceof Error; current = current.cause) {
    const text = /proxy/i.test(current.message) || /proxy/i.test(current.name)
    const failed = current as Error & { hostname?: unknown; port?: unknown }
    const port = Number(failed.port)
    const atProxy = port === portOf(proxy) && port !== portOf(url)
    if (text || failed.hostname === proxy.hostname || atProxy)
      return proxy.origin === 'null' ? proxy.host : proxy.origin
  }
  return undefined
}

function portOf({ port, protocol }: URL): number {
  return port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port)
}

function refused(message: string): ModelError {
  return new ModelError('transient', 'HttpRefused', message, { retryAfterMs: remoteRepairMs })
}
