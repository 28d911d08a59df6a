import { isUtf8 } from 'node:buffer'
import { type Dispatcher, request } from 'undici'
import { boundedBody } from '../../util/bounded-body.ts'
import { causesOf } from '../../util/error-code.ts'
import { magicLength } from '../content-kind.ts'
import { ModelError } from '../errors.ts'
import { hubHosts } from '../hub/endpoint.ts'
import type { HubToken } from '../hub/token.ts'
import { shownSource } from '../source.ts'
import { connectionError, statusText, truncated } from './answer.ts'
import type { ByteRange } from './partial-file.ts'
import { isS3Login, type S3Login, s3Refusal, signature } from './s3.ts'
import type { Transport } from './transport.ts'

export type Credentials = TokenCredentials | S3Login

/** A token and the only hosts (`host` or `host:port`, as URLs write them) that may see it, over https alone. */
interface TokenCredentials {
  /** Sent as `Authorization: Bearer`. */
  readonly token: string
  readonly hosts: readonly string[]
  /** For tests: plain http to this machine gets the token too. */
  readonly allowInsecureLoopback?: boolean
}

export function hubCredentials(
  endpoint: string,
  token: HubToken | undefined,
  allowInsecureLoopback = false,
): TokenCredentials | undefined {
  if (token === undefined) return undefined
  return {
    token: token.value,
    hosts: hubHosts(endpoint),
    ...(allowInsecureLoopback && { allowInsecureLoopback }),
  }
}

export function maySend({ hosts, allowInsecureLoopback = false }: TokenCredentials, url: URL): boolean {
  const isSecure = url.protocol === 'https:' || (allowInsecureLoopback && isLoopback(url.hostname))
  return isSecure && hosts.includes(url.host)
}

/**
 * The credentials sent along one chain of redirects: the login of the address to its own origin, else the token to the hosts it is for.
 * From the first redirect to another host on neither is sent, also where that host redirects back.
 */
export class Login {
  readonly #origin: string
  readonly #basic: string | undefined
  readonly #credentials: TokenCredentials | undefined
  readonly #s3: S3Login | undefined
  #leftOrigin = false
  #leftHosts = false

  constructor({ url, credentials }: { readonly url: string; readonly credentials?: Credentials | undefined }) {
    const { origin, username, password } = new URL(url)
    this.#origin = origin
    if (isS3Login(credentials)) this.#s3 = credentials
    else this.#credentials = credentials
    if (username !== '' || password !== '') {
      const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
      this.#basic = `Basic ${Buffer.from(login).toString('base64')}`
    }
  }

  get isGiven(): boolean {
    return this.#basic !== undefined || this.#credentials !== undefined || this.#s3?.keys !== undefined
  }

  /** Asked for every address of the chain, in its order. */
  headersFor(url: URL): { authorization?: string } {
    this.#leftOrigin ||= url.origin !== this.#origin
    this.#leftHosts ||= this.#credentials?.hosts.includes(url.host) !== true
    if (this.#basic !== undefined && !this.#leftOrigin) return { authorization: this.#basic }
    if (this.#credentials === undefined || this.#leftHosts || !maySend(this.#credentials, url)) return {}
    return { authorization: `Bearer ${this.#credentials.token}` }
  }

  /** Those of {@link headersFor}, and what S3 wants of each request. */
  async signedHeadersFor(url: URL, method: string): Promise<Readonly<Record<string, string>>> {
    const plain = this.headersFor(url)
    return this.#s3 === undefined || this.#leftOrigin ? plain : signature(this.#s3, method, url)
  }
}

/** The address for the request itself, whose login goes into its headers. */
function withoutLogin(address: string): URL {
  const url = new URL(address)
  url.username = ''
  url.password = ''
  url.hash = ''
  return url
}

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname)
}

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
  const { method = 'GET', credentials } = asked
  let url = withoutLogin(asked.url)
  for (let redirects = 0; ; redirects += 1) {
    const shown = shownSource(url.href)
    guard.waiting()
    const answer = await request(url, {
      method,
      dispatcher: transport.dispatcher,
      signal: AbortSignal.any([signal, guard.signal]),
      headers: { ...requestHeaders(asked), ...(await login.signedHeadersFor(url, method)) },
    }).catch(async (error: unknown) => {
      signal.throwIfAborted()
      throw (await transport.denied(error, shown)) ?? connectionError(error, shown, proxyOf(error, url, transport))
    })
    guard.received(0)
    const headers = headersOf(answer.headers)
    const location = redirectStatuses.has(answer.statusCode) ? asWritten(headers.get('location')) : null
    if (location === null) {
      const { statusCode: status, body } = answer
      if (status >= 300 && isS3Login(credentials)) {
        const text = await errorText(body, guard)
        signal.throwIfAborted()
        const problem = s3Refusal({ status, headers, text }, credentials, shown, Date.now())
        if (problem) throw problem
      }
      if (redirects > 0 && (status === 401 || status === 403)) {
        discard(body)
        throw addressRefused(shownSource(asked.url), url.host, status)
      }
      return { status, headers, body }
    }
    discard(answer.body)
    const next = URL.canParse(location, url.href) ? withoutLogin(new URL(location, url).href) : undefined
    if (next === undefined || !['http:', 'https:'].includes(next.protocol)) {
      throw refused(`${shown} redirects to something that is not an http address: check spec.source.`)
    }
    if (redirects === maxRedirects)
      throw refused(`${shown} redirects more than ${maxRedirects} times: check spec.source.`)
    if (login.isGiven && url.protocol === 'https:' && next.protocol === 'http:') {
      throw refused(
        `${shown} redirects from https to http, which the agent does not follow with a login: give the address of the file itself.`,
      )
    }
    url = next
  }
}

/** An error of S3 takes less than a kilobyte. */
const maxErrorBytes = 16 * 1024

/** Empty where it is longer than an error, or does not arrive: the status says enough. */
async function errorText(body: Answer['body'], guard: PaceGuard): Promise<string> {
  guard.waiting()
  const bytes = await boundedBody(body as AsyncIterable<Uint8Array>, maxErrorBytes, () => new Error('too long')).catch(
    () => '',
  )
  guard.received(0)
  return bytes.toString()
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
    ...(range && { range: `bytes=${range[0]}-${range[1] === Infinity ? '' : range[1] - 1}` }),
    ...(range && ifRange !== undefined && { 'if-range': ifRange }),
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
  for (const current of causesOf(error)) {
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

/** Many servers write other letters than ASCII into an address as UTF-8; headers are read as Latin-1. */
function asWritten(address: string | null): string | null {
  const bytes = Buffer.from(address ?? '', 'latin1')
  return address === null || !isUtf8(bytes) ? address : bytes.toString()
}

const refused = (message: string): ModelError => ModelError.untilRepairedThere('HttpRefused', message)

/** Addresses that a server signs for another one expire: asked again, it gives a new one. */
const addressRefused = (shown: string, host: string, status: number): ModelError =>
  ModelError.passing(
    'ServerError',
    `${shown} leads to ${host}, which answered ${statusText(status)}: the address may have expired there, or the file needs a login; the agent tries again.`,
  )

/** A server that sends nothing for this long is taken for gone: slow disks and proxies answer well within it. */
export const downloadStallMs = 60_000

/** Slower than this over the same time is as good as nothing. */
const minBytesPerSecond = 1024

/** Ends a request whose server goes quiet or only drips. Time in which no read waits for the server does not count. */
export class PaceGuard {
  readonly #ending = new AbortController()
  readonly #stallMs: number
  readonly #shown: string
  readonly #timer: NodeJS.Timeout
  #waitingSince: number | undefined
  #windowMs = 0
  #windowBytes = 0

  constructor(stallMs: number, shown: string) {
    this.#stallMs = stallMs
    this.#shown = shown
    this.#timer = setInterval(() => this.#look(), Math.max(10, Math.min(1000, stallMs / 5)))
  }

  /** For the request; its reason is the error of the stall. */
  get signal(): AbortSignal {
    return this.#ending.signal
  }

  waiting(): void {
    this.#waitingSince = performance.now()
  }

  received(bytes: number): void {
    this.#windowMs += this.#waitedMs()
    this.#windowBytes += bytes
    this.#waitingSince = undefined
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    this.#ending.abort()
  }

  #waitedMs(): number {
    return this.#waitingSince === undefined ? 0 : performance.now() - this.#waitingSince
  }

  #look(): void {
    const waitedMs = this.#waitedMs()
    if (waitedMs >= this.#stallMs) this.#end('sent nothing')
    const windowMs = this.#windowMs + waitedMs
    if (windowMs < this.#stallMs) return
    if (this.#windowBytes < (minBytesPerSecond * windowMs) / 1000) this.#end(`sent only ${this.#windowBytes} bytes`)
    this.#windowMs = -waitedMs
    this.#windowBytes = 0
  }

  #end(what: string): void {
    const seconds = Math.round(this.#stallMs / 1000)
    this.#ending.abort(ModelError.passing('Stalled', `${this.#shown} ${what} for ${seconds} s: the agent tries again.`))
  }
}

/** The bytes of an answer. */
export class Body {
  readonly #chunks: AsyncIterator<unknown>
  readonly #guard: PaceGuard
  readonly #signal: AbortSignal
  readonly #shown: string
  #held: Uint8Array[] = []
  #ended = false

  constructor(answer: Answer, guard: PaceGuard, signal: AbortSignal, shown: string) {
    this.#guard = guard
    this.#signal = signal
    this.#shown = shown
    this.#chunks = answer.body[Symbol.asyncIterator]()
  }

  /** The first bytes, which `next` gives as well. Enough to tell what it is, unless it is shorter. */
  async start(totalBytes: number | undefined): Promise<Buffer> {
    const held: Uint8Array[] = []
    let bytes = 0
    while (bytes < magicLength) {
      const chunk = await this.next(bytes, totalBytes)
      if (chunk === undefined) break
      held.push(chunk)
      bytes += chunk.length
    }
    this.#held = [...held, ...this.#held]
    return Buffer.concat(held).subarray(0, magicLength)
  }

  /** Undefined at the end. Throws ModelError when the server goes quiet or away. */
  async next(doneBytes: number, totalBytes: number | undefined): Promise<Uint8Array | undefined> {
    const held = this.#held.shift()
    if (held !== undefined || this.#ended) return held
    this.#guard.waiting()
    try {
      const next: IteratorResult<unknown, unknown> = await this.#chunks.next()
      this.#ended = next.done === true
      const value: unknown = next.value
      const chunk = value instanceof Uint8Array ? value : undefined
      this.#guard.received(chunk?.length ?? 0)
      return chunk
    } catch (error) {
      this.#signal.throwIfAborted()
      this.#guard.signal.throwIfAborted()
      throw error instanceof ModelError ? error : truncated(this.#shown, doneBytes, totalBytes, error)
    }
  }
}
