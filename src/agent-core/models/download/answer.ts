import { STATUS_CODES } from 'node:http'
import { causesOf, errorCode, errorCodes, ownFailure } from '../../util/error-code.ts'
import { expectsGguf, isGguf, looksLikeHtml } from '../content-kind.ts'
import { innermostMessage, ModelError } from '../errors.ts'
import type { ByteRange, Remote } from './partial-file.ts'

/** What an answer says of the file and where its bytes belong. */
export type Meaning =
  /** The body is the part that begins at `start`; `end` is not beyond what was asked for. */
  | { readonly kind: 'part'; readonly start: number; readonly end: number; readonly remote: Remote }
  /** The body is the whole file. */
  | { readonly kind: 'whole'; readonly remote: Remote }
  /** The server has another file than was begun in the partial file. */
  | { readonly kind: 'changed' }
  /** Only the whole file can be had. */
  | { readonly kind: 'no-ranges' }

export interface Question {
  /** Absent where the whole file was asked for. */
  readonly range: ByteRange | undefined
  /** What the server said earlier. */
  readonly known: Remote
  /** Whether the file is being fetched already. */
  readonly begun: boolean
  /** Whether a checksum tells in the end if it was the same file. */
  readonly isVouchedFor: boolean
  readonly shown: string
  readonly now: number
}

/** Servers and proxies that do not support ranges answer with one of these. */
const rangeRefusals: ReadonlySet<number> = new Set([400, 405, 416, 501])

/** Throws ModelError where the answer is a refusal, or contradicts itself. */
export function meaningOf(
  { status, headers }: { readonly status: number; readonly headers: Headers },
  { range, known, begun, isVouchedFor, shown, now }: Question,
): Meaning {
  if (range !== undefined && status === 416 && begun) return { kind: 'changed' }
  if (range !== undefined && rangeRefusals.has(status)) return { kind: 'no-ranges' }
  const contentRange = range !== undefined && status === 206 ? headers.get('content-range') : null
  const error = refusal(contentRange === null ? status : 200, headers, shown, now)
  if (error !== undefined) throw error
  const encoding = headers.get('content-encoding')?.trim().toLowerCase() ?? ''
  if (encoding !== '' && encoding !== 'identity') {
    throw ModelError.untilRepairedThere(
      'HttpRefused',
      `${shown} is sent compressed (${encoding}) although the agent did not ask for that: give an address that sends the file uncompressed.`,
    )
  }
  const part = contentRange === null ? undefined : partOf(contentRange, contentLength(headers), shown)
  if (range !== undefined && contentRange !== null && part?.start !== range[0]) return { kind: 'no-ranges' }
  const remote = remoteOf(headers, part?.total ?? contentLength(headers))
  if (begun && differs(known, remote, isVouchedFor)) return { kind: 'changed' }
  if (range !== undefined && part) {
    return { kind: 'part', start: part.start, end: Math.min(part.end, range[1]), remote }
  }
  return begun ? { kind: 'no-ranges' } : { kind: 'whole', remote }
}

/**
 * What makes sure that a part is of the same file (RFC 9110, 13.1.5): a strong ETag, else a date that is older than
 * the answer it came with.
 */
export function validator({ etag, lastModified }: Remote): string | undefined {
  return etag !== undefined && !etag.startsWith('W/') ? etag : lastModified
}

function remoteOf(headers: Headers, sizeBytes: number | undefined): Remote {
  const etag = headers.get('etag')
  const lastModified = headers.get('last-modified')
  const age = Date.parse(headers.get('date') ?? '') - Date.parse(lastModified ?? '')
  return {
    ...(sizeBytes !== undefined && { sizeBytes }),
    ...(etag !== null && { etag }),
    // A file that changes twice in one second has one date for two contents.
    ...(lastModified !== null && age >= 1000 && { lastModified }),
  }
}

/** A header that one of the answers lacks is not compared. */
function differs(known: Remote, remote: Remote, isVouchedFor: boolean): boolean {
  const other = <T>(a: T | undefined, b: T | undefined): boolean => a !== undefined && b !== undefined && a !== b
  if (other(known.sizeBytes, remote.sizeBytes)) return true
  if (isVouchedFor) return false
  if (known.etag !== undefined && remote.etag !== undefined) return known.etag !== remote.etag
  return other(known.lastModified, remote.lastModified)
}

interface Part {
  readonly start: number
  /** The byte after the last. */
  readonly end: number
  readonly total: number
}

/**
 * Undefined where the header cannot be read or does not say how long the file is. Throws where it cannot be true: read on, such a body
 * would end too early or never.
 */
function partOf(contentRange: string, length: number | undefined, shown: string): Part | undefined {
  const match = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(contentRange.trim())
  if (match === null) return undefined
  const [start = 0, last = 0, total = 0] = match.slice(1).map(Number)
  const isLongAsSaid = length === undefined || length === last - start + 1
  if (start > last || last >= total || !isLongAsSaid) {
    const what = `Content-Range ${contentRange}${isLongAsSaid ? '' : ` with Content-Length ${length}`}`
    throw ModelError.untilRepairedThere(
      'HttpRefused',
      `${shown} answered with a part that contradicts itself (${what.slice(0, 200)}): check the server, or a proxy in between.`,
    )
  }
  return Number.isSafeInteger(total) ? { start, end: last + 1, total } : undefined
}

/** The length of the body as it is sent. */
export function contentLength(headers: Headers): number | undefined {
  const length = headers.get('content-length')
  const bytes = Number(length)
  return length !== null && Number.isSafeInteger(bytes) && bytes >= 0 ? bytes : undefined
}

/** An answer's status with its words: `404 Not Found`. */
export const statusText = (status: number): string =>
  STATUS_CODES[status] === undefined ? `${status}` : `${status} ${STATUS_CODES[status]}`

/** What an answer other than 200 means; undefined = it is none. `shown` is the address as people may see it. */
export function refusal(status: number, headers: Headers, shown: string, now: number): ModelError | undefined {
  if (status === 200) return undefined
  const answer = `${shown} answered ${statusText(status)}`
  const retryAfterMs = askedWaitMs(headers, now)
  if (status === 401 || status === 403) {
    return ModelError.untilRepairedThere(
      'AccessDenied',
      `${answer}: the file needs a login or an accepted licence, so give an address that needs neither, or a local copy.`,
    )
  }
  if (status === 404 || status === 410)
    return ModelError.untilRepairedThere('NotFound', `${answer}: correct spec.source or put the file there.`)
  if (status === 429) {
    const message = `${answer}: the server limits the rate of requests, so the agent waits and tries again.`
    return ModelError.passing('RateLimited', message, { retryAfterMs })
  }
  if (status >= 500 || status === 408 || status === 425) {
    const message = `${answer}: the server failed, so the agent tries again.`
    return ModelError.passing('ServerError', message, { retryAfterMs })
  }
  return ModelError.untilRepairedThere('HttpRefused', `${answer} instead of the model file: check spec.source.`)
}

/** Something else than a model came with status 200 (a login page, a file viewer, a captive portal). */
export function contentProblem(
  fileName: string,
  start: Buffer,
  contentType: string | null,
  shown: string,
): ModelError | undefined {
  const html = looksLikeHtml(start) || /^(?:text\/html|application\/xhtml\+xml)\b/i.test(contentType ?? '')
  if (expectsGguf(fileName) ? isGguf(start) : !html) return undefined
  const hint = /\/blob\//.test(shown) ? ' (/resolve/ in place of /blob/ gives the file itself)' : ''
  return ModelError.untilRepairedThere(
    'NotAModel',
    html
      ? `${shown} answered with a web page instead of a model: check spec.source${hint}, or whether the network asks for a login.`
      : `${shown} answered with something that is not a GGUF file although its name says so: check spec.source${hint}.`,
  )
}

export const emptyAnswer = (shown: string): ModelError =>
  ModelError.untilRepairedThere('EmptyFile', `${shown} is an empty file: check spec.source.`)

/** A request that got no answer, for our own reasons or others'. `proxy`: the one it went through, as people may see it. */
export function connectionError(error: unknown, shown: string, proxy?: string): ModelError {
  // What we refused ourselves comes back wrapped in what the library says of it.
  const refused = causesOf(error).find((one) => one instanceof ModelError)
  if (refused) return refused
  // A TLS error of a proxy carries the reason one level deeper than its own code.
  const code = errorCodes(error).at(-1) ?? ''
  const message = innermostMessage(error)
  const through = proxy === undefined ? '' : ` through the proxy ${proxy}`
  // In the words of undici 8.12.
  const answer = /^Proxy response \((\d+)\)|^Proxy Authentication Required \((407)\)/.exec(message)
  if (answer !== null) return proxyRefusal(Number(answer[1] ?? answer[2]), shown, proxy, error)
  const isProxyTls = errorCode(error) === 'UND_ERR_PRX_TLS'
  if (isProxyTls || /CERT|^ERR_(?:SSL|TLS)|UNABLE_TO_|SELF_SIGNED/.test(code)) {
    const server = isProxyTls ? `the proxy ${proxy ?? ''}`.trimEnd() : shown
    return ModelError.untilRepairedThere(
      'TlsFailed',
      `${server} has no TLS certificate this machine trusts (${untrustedBecause[code] ?? code}): repair the server's certificate or trust its authority.`,
      error,
    )
  }
  if (errorCode(error) === 'UND_ERR_PRX_CONN') {
    const sentence = `${shown} cannot be reached${through} (the proxy closed the connection): check the proxy; the agent tries again.`
    return ModelError.passing('ProxyFailed', sentence, { cause: error })
  }
  const own = ownFailure(error)
  const why = unreachableBecause[code] ?? message
  const sentence =
    own === undefined
      ? `${shown} cannot be reached${through} (${why}): check the address and the network; the agent tries again.`
      : `${shown} cannot be asked${through} (${own}): the agent tries again.`
  return ModelError.passing('Unreachable', sentence, { cause: error })
}

function proxyRefusal(status: number, shown: string, proxy: string | undefined, cause: unknown): ModelError {
  const answer = `The proxy${proxy === undefined ? '' : ` ${proxy}`} answered ${statusText(status)} when asked for ${shown}`
  if (status >= 500)
    return ModelError.passing('ProxyFailed', `${answer}: check the proxy; the agent tries again.`, { cause })
  const todo =
    status === 407
      ? 'give it a login in HTTPS_PROXY (http://user:password@host:port)'
      : 'allow the address there, or name its host in NO_PROXY'
  return ModelError.untilRepairedThere('ProxyFailed', `${answer}: ${todo}.`, cause)
}

/** An answer that broke off, or is not as long as it said. */
export function truncated(
  shown: string,
  doneBytes: number,
  totalBytes: number | undefined,
  cause?: unknown,
): ModelError {
  const extent = totalBytes === undefined ? `${doneBytes} bytes` : `${doneBytes} of ${totalBytes} bytes`
  const sentence = `The download of ${shown} ended after ${extent}: the agent tries again.`
  return ModelError.passing('Truncated', sentence, { cause })
}

const unreachableBecause: Readonly<Record<string, string>> = {
  ENOTFOUND: 'no such host',
  EAI_AGAIN: 'the name service does not answer',
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  UND_ERR_SOCKET: 'the server closed the connection',
  ETIMEDOUT: 'connection timed out',
  UND_ERR_CONNECT_TIMEOUT: 'connection timed out',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no network',
}

/** Codes of OpenSSL 3.5 and Node.js 24, said. */
const untrustedBecause: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'the certificate has expired',
  CERT_NOT_YET_VALID: 'the certificate is not valid yet; is the clock right?',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'the certificate is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'the certificate comes from a private authority',
  UNABLE_TO_GET_ISSUER_CERT: 'the certificate comes from an unknown authority',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'the certificate comes from an unknown authority',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'the certificate comes from an unknown authority',
  ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate is for another host name',
  CERT_REVOKED: 'the certificate was revoked',
}

/** Longer waits than this are a server's mistake or a clock's. */
const maxRetryAfterMs = 60 * 60_000

/** Seconds or an HTTP date (RFC 9110, 10.2.3), which is by the server's clock. */
function askedWaitMs(headers: Headers, now: number): number | undefined {
  const header = headers.get('retry-after')
  if (header === null) return undefined
  const sent = Date.parse(headers.get('date') ?? '')
  const wait = /^\d+$/.test(header.trim())
    ? Number(header) * 1000
    : Date.parse(header) - (Number.isNaN(sent) ? now : sent)
  return Number.isFinite(wait) ? Math.min(Math.max(wait, 0), maxRetryAfterMs) : undefined
}
