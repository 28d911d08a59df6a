import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ProxyOutcome } from '../contract/gateway.ts'

/** Why a request is not forwarded, or was not answered: a sentence with what would help, in OpenAI's shape. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly outcome: ProxyOutcome
  readonly status: number
  readonly code: string
  /** When it is worth asking again, in seconds; absent where waiting alone does not help. */
  readonly retryAfterS: number | undefined

  constructor(
    outcome: ProxyOutcome,
    status: number,
    code: string,
    message: string,
    options: ErrorOptions & { readonly retryAfterS?: number | undefined } = {},
  ) {
    super(message, options)
    this.retryAfterS = options.retryAfterS
    this.outcome = outcome
    this.status = status
    this.code = code
  }
}

/** An answer that has begun is cut instead, so that nobody takes it for whole. `shape`: of its JSON. */
export function refuse(response: ServerResponse, refusal: Refusal, shape = asOpenAi): void {
  if (response.headersSent) {
    cut(response)
    return
  }
  const { status, retryAfterS } = refusal
  const body = `${JSON.stringify(shape(refusal))}\n`
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    ...(retryAfterS !== undefined && { 'retry-after': String(retryAfterS) }),
    ...(status === 401 && { 'www-authenticate': 'Bearer' }),
    ...closeIfUnread(response.req),
  })
  response.end(response.req.method === 'HEAD' ? undefined : body)
}

function asOpenAi({ status, code, message }: Refusal): object {
  return { error: { message, type: status >= 500 ? 'server_error' : 'invalid_request_error', code } }
}

export const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

/** The header of an answer to a request of which nobody reads the rest: it must not hold the connection. */
export const closeIfUnread = (request: IncomingMessage): { readonly connection?: 'close' } =>
  hasBody(request) && !request.complete ? { connection: 'close' } : {}

/** In HTTP/1.0 the end of the connection is the end of the answer: only a reset tells that it is none. */
export function cut(response: ServerResponse): void {
  const { socket, req } = response
  // A TLS connection cannot be reset, and need not be: its end would have to be announced.
  if (req.httpVersion === '1.0' && socket && !('encrypted' in socket)) socket.resetAndDestroy()
  else response.destroy()
}
