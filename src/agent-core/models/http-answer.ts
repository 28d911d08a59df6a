import { STATUS_CODES } from 'node:http'
import { formatBytes } from '../../contract/format.ts'
import { expectsGguf, isGguf, looksLikeHtml } from './content.ts'
import { errorCode, ownFailure } from '../util/error-code.ts'
import { innermostMessage, ModelError, remoteRepairMs } from './errors.ts'

/** What an answer other than 200 means; undefined = go on. `shown` is the address as people may see it. */
export function refusal(status: number, headers: Headers, shown: string, now: number): ModelError | undefined {
  if (status === 200) return undefined
  const answer = `${shown} answered ${status}${STATUS_CODES[status] === undefined ? '' : ` ${STATUS_CODES[status]}`}`
  const asked = retryAfterMs(headers, now)
  if (status === 401 || status === 403) {
    return slow(
      'AccessDenied',
      `${answer}: the file needs a login or a licence to be accepted, so give an address that can be read without, or a local copy.`,
    )
  }
  if (status === 404 || status === 410) return slow('NotFound', `${answer}: correct spec.source or put the file there.`)
  if (status === 429)
    return soon(
      'RateLimited',
      `${answer}: the server limits how often it may be asked, so the agent waits and tries again.`,
      asked,
    )
  if (status >= 500 || status === 408 || status === 425) {
    return soon('ServerError', `${answer}: the server is in trouble, so the agent tries again.`, asked)
  }
  return slow('HttpRefused', `${answer} instead of the model file: check spec.source.`)
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
  return slow(
    'NotAModel',
    html
      ? `${shown} answered with a web page instead of a model: check spec.source${hint}, or whether the network asks for a login.`
      : `${shown} answered with something that is not a GGUF file although its name says so: check spec.source${hint}.`,
  )
}

export function emptyAnswer(shown: string): ModelError {
  return slow('EmptyFile', `${shown} is an empty file: check spec.source.`)
}

/** A request that got no answer, for our own reasons or others'. `proxy`: the one it went through, as people may see it. */
export function connectionError(error: unknown, shown: string, proxy?: string): ModelError {
  const refused = modelErrorIn(error)
  if (refused) return refused
  const code = innermostCode(error) ?? ''
  const message = innermostMessage(error)
  const through = proxy === undefined ? '' : ` through the proxy ${proxy}`
  const answer = /^Proxy response \((\d+)\)|^Proxy Authentication Required \((407)\)/.exec(message)
  if (answer !== null) return proxyRefusal(Number(answer[1] ?? answer[2]), shown, proxy, error)
  if (errorCode(error) === 'UND_ERR_PRX_TLS' || /CERT|^ERR_(?:SSL|TLS)|UNABLE_TO_|SELF_SIGNED/.test(code)) {
    const server = errorCode(error) === 'UND_ERR_PRX_TLS' ? `the proxy ${proxy ?? ''}`.trimEnd() : shown
    return new ModelError(
      'transient',
      'TlsFailed',
      `${server} has no TLS certificate this machine trusts (${untrustedBecause[code] ?? code}): repair the server's certificate or trust its authority.`,
      { cause: error, retryAfterMs: remoteRepairMs },
    )
  }
  if (errorCode(error) === 'UND_ERR_PRX_CONN') {
    return new ModelError(
      'transient',
      'ProxyFailed',
      `${shown} cannot be reached${through} (the proxy closed the connection): check the proxy; the agent tries again.`,
      { cause: error },
    )
  }
  const own = ownFailure(error)
  if (own !== undefined) {
    const sentence = `${shown} cannot be asked${through} (${own}): the agent tries again.`
    return new ModelError('transient', 'Unreachable', sentence, { cause: error })
  }
  const why = unreachableBecause[code] ?? message
  return new ModelError(
    'transient',
    'Unreachable',
    `${shown} cannot be reached${through} (${why}): check the address and the network; the agent tries again.`,
    { cause: error },
  )
}

function proxyRefusal(status: number, shown: string, proxy: string | undefined, cause: unknown): ModelError {
  const answer = `The proxy${proxy === undefined ? '' : ` ${proxy}`} answered ${status}${STATUS_CODES[status] === undefined ? '' : ` ${STATUS_CODES[status]}`} when asked for ${shown}`
  if (status >= 500) {
    return new ModelError('transient', 'ProxyFailed', `${answer}: check the proxy; the agent tries again.`, { cause })
  }
  const todo =
    status === 407
      ? 'give it a login in HTTPS_PROXY (http://user:password@host:port)'
      : 'allow the address there, or name its host in NO_PROXY'
  return new ModelError('transient', 'ProxyFailed', `${answer}: ${todo}.`, { cause, retryAfterMs: remoteRepairMs })
}

/** An answer that broke off, or is not as long as it said. */
export function truncated(
  shown: string,
  doneBytes: number,
  totalBytes: number | undefined,
  cause?: unknown,
): ModelError {
  const extent = totalBytes === undefined ? `${doneBytes} bytes` : partOf(doneBytes, totalBytes)
  return new ModelError(
    'transient',
    'Truncated',
    `The download of ${shown} ended after ${extent}: the agent tries again.`,
    { cause },
  )
}

/** Exact where it is little, and where rounding would hide that something is missing. */
function partOf(doneBytes: number, totalBytes: number): string {
  const [done, total] = [formatBytes(doneBytes), formatBytes(totalBytes)]
  return totalBytes < 1_000_000 || done === total ? `${doneBytes} of ${totalBytes} bytes` : `${done} of ${total}`
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

/** Codes of OpenSSL and Node.js, said. */
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
function retryAfterMs(headers: Headers, now: number): number | undefined {
  const header = headers.get('retry-after')
  if (header === null) return undefined
  const sent = Date.parse(headers.get('date') ?? '')
  const wait = /^\d+$/.test(header.trim())
    ? Number(header) * 1000
    : Date.parse(header) - (Number.isNaN(sent) ? now : sent)
  return Number.isFinite(wait) ? Math.min(Math.max(wait, 0), maxRetryAfterMs) : undefined
}

/** What we refused ourselves comes back wrapped in what the library says of it. */
function modelErrorIn(error: unknown): ModelError | undefined {
  for (let current = error; current instanceof Error; current = current.cause)
    if (current instanceof ModelError) return current
  return undefined
}

/** A TLS error of a proxy carries the reason one level deeper. */
function innermostCode(error: unknown): string | undefined {
  let code: string | undefined
  for (let current = error; current instanceof Error; current = current.cause) {
    if ('code' in current && typeof current.code === 'string') code = current.code
  }
  return code
}

function slow(
  reason: 'AccessDenied' | 'NotFound' | 'HttpRefused' | 'NotAModel' | 'EmptyFile',
  message: string,
): ModelError {
  return new ModelError('transient', reason, message, { retryAfterMs: remoteRepairMs })
}

function soon(reason: 'RateLimited' | 'ServerError', message: string, wait: number | undefined): ModelError {
  return new ModelError('transient', reason, message, wait === undefined ? {} : { retryAfterMs: wait })
}
