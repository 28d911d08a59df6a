import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { parseJson } from '../../agent-core/util/files.ts'
import { isFromAnotherPage } from '../../agent-core/util/loopback-server.ts'
import type { LinkErrorCode } from '../../contract/client.ts'
import { maxBodyBytes } from '../../contract/http.ts'
import { requestTooLong } from '../agent-door.ts'

/** On every answer. Nothing may be framed, guessed to be of another type, told where a visitor came from, or read by another page. */
export const strictHeaders = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()',
} as const

/** Only what we serve ourselves; styles that the component library adds carry the nonce of this one answer. */
export const contentSecurityPolicy = (nonce?: string): string =>
  [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self'${nonce === undefined ? '' : ` 'nonce-${nonce}'`}`,
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')

interface HttpRefusalOptions {
  readonly status: number
  readonly code: LinkErrorCode
  /** One sentence for a person. */
  readonly message: string
  readonly headers?: Readonly<Record<string, string>>
}

/** A request that is answered with something else than 200. */
export class HttpRefusal extends Error {
  override readonly name = 'HttpRefusal'
  readonly status: number
  readonly code: LinkErrorCode
  readonly headers: Readonly<Record<string, string>>

  constructor({ status, code, message, headers = {} }: HttpRefusalOptions) {
    super(message)
    this.status = status
    this.code = code
    this.headers = headers
  }
}

/**
 * Throws {@link HttpRefusal} for what another page made a browser ask. A program that is no browser sends neither header, and has
 * no key either. The Host was looked at before, so that a page under a foreign name that points here comes not even this far.
 */
export function checkOrigin(headers: IncomingHttpHeaders): void {
  if (!isFromAnotherPage(headers)) return
  throw new HttpRefusal({
    status: 403,
    code: 'refused',
    message: "Another web page asked for this; only Metalbar's own page may.",
  })
}

/** Throws {@link HttpRefusal}. A form can send no JSON, and a script of another page not without asking first. */
export function checkContentType({ 'content-type': type = '' }: IncomingHttpHeaders): void {
  if (/^application\/json\s*(;|$)/i.test(type)) return
  throw new HttpRefusal({ status: 415, code: 'misunderstood', message: 'A request must be sent as application/json.' })
}

/** Throws {@link HttpRefusal}. */
export function checkMethod(method: string | undefined, allowed: readonly string[]): void {
  if (method !== undefined && allowed.includes(method)) return
  const allow = allowed.join(', ')
  throw new HttpRefusal({
    status: 405,
    code: 'misunderstood',
    message: `This path answers only ${allow}.`,
    headers: { allow },
  })
}

/** The token of `Authorization: Bearer …`. */
export function bearerIn({ authorization = '' }: IncomingHttpHeaders): string | undefined {
  return /^Bearer ([\w-]{1,200})$/i.exec(authorization)?.[1]
}

/** The client ended the connection, so that no answer can be sent. */
export class ClientGoneError extends Error {
  override readonly name = 'ClientGoneError'
}

/** Undefined where it is no JSON. Throws {@link HttpRefusal} as soon as it is too long, and {@link ClientGoneError}. */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  if (Number(request.headers['content-length'] ?? 0) > maxBodyBytes) throw tooLong()
  return parseJson(await readText(request))
}

function readText(request: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    const onData = (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes <= maxBodyBytes) {
        chunks.push(chunk)
        return
      }
      request.off('data', onData).pause()
      reject(tooLong())
    }
    request.on('data', onData)
    request.once('end', () => resolve(Buffer.concat(chunks).toString('utf8')))
    request.once('error', (error) => reject(new ClientGoneError('The request was cut short.', { cause: error })))
    request.once('close', () => reject(new ClientGoneError('The request was cut short.')))
  })
}

function tooLong(): HttpRefusal {
  const { code, message } = requestTooLong(maxBodyBytes)
  return new HttpRefusal({ status: 413, code, message })
}
