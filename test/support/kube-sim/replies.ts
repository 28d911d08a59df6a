import type { ServerResponse } from 'node:http'
import { TLSSocket } from 'node:tls'
import type { RequestFault } from './faults.ts'
import { isObject, type Json } from './json.ts'

export interface Reply {
  readonly code: number
  readonly body: Json
  readonly headers?: Readonly<Record<string, string>>
}

/** Sends a whole answer, in the way a fault wants it sent. */
export function sendReply(response: ServerResponse, reply: Reply, fault: RequestFault | undefined): void {
  const isText = typeof reply.body === 'string'
  const body = fault?.kind === 'endless-list' ? withNextPage(reply.body) : reply.body
  const text = typeof body === 'string' ? body : `${JSON.stringify(body)}\n`
  response.writeHead(reply.code, {
    'content-type': isText ? 'text/plain; charset=utf-8' : 'application/json',
    'content-length': Buffer.byteLength(text),
    ...reply.headers,
  })
  switch (fault?.kind) {
    case 'slow-body':
      sendSlowly(response, Buffer.from(text), fault)
      break
    case 'half-body':
      response.write(Buffer.from(text).subarray(0, Math.floor(Buffer.byteLength(text) / 2)), () => {
        response.socket?.destroy()
      })
      break
    default:
      response.end(text)
  }
}

const withNextPage = (body: Json): Json =>
  isObject(body) && isObject(body['metadata'])
    ? { ...body, metadata: { ...body['metadata'], continue: 'once more' } }
    : body

function sendSlowly(
  response: ServerResponse,
  body: Buffer,
  { bytes, everyMs }: { bytes: number; everyMs: number },
): void {
  let sent = 0
  const timer = setInterval(() => {
    response.write(body.subarray(sent, sent + bytes))
    sent += bytes
    if (sent < body.length) return
    clearInterval(timer)
    response.end()
  }, everyMs)
  response.once('close', () => {
    clearInterval(timer)
  })
}

/** Cuts the connection once what was written so far is out. */
export function resetConnection({ socket }: ServerResponse): void {
  socket?.write('', () => {
    // A TLS connection cannot send the RST itself; its client reports the missing end the same way.
    if (socket instanceof TLSSocket) socket.destroy()
    else socket.resetAndDestroy()
  })
}
