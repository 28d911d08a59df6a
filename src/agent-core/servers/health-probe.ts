import { connect } from 'node:net'
import { ownFailure } from '../util/error-code.ts'

/** Any answer is a sign of life; the caller decides what it means. */
export type ProbeAnswer =
  | { readonly kind: 'answered'; readonly status: number }
  | { readonly kind: 'silent'; readonly reason: string }
  /** This process could not ask, such as for want of a file descriptor: nothing is known about the server. */
  | { readonly kind: 'cannotAsk'; readonly reason: string }

export type HealthProbe = (port: number, timeLimitMs: number, signal: AbortSignal) => Promise<ProbeAnswer>

const host = '127.0.0.1'
const statusLine = /^HTTP\/1\.[01] (\d{3})/
/** From here on it shows whether an answer begins with a status line. */
const statusLineLength = 'HTTP/1.1 200'.length

/** Of all probes: what is read is looked at in the same turn, and only its beginning. */
const readBuffer = Buffer.allocUnsafe(1_024)

/**
 * One request on a connection of its own: a kept one would tell us about the connection, and take one of the server's threads while it is
 * kept. Written to the socket itself, as a request of node:http costs three times as much, for every server and every few seconds.
 */
export const probeHealth: HealthProbe = (port, timeLimitMs, signal) =>
  new Promise((resolve) => {
    let head = ''
    const onData = (length: number) => {
      if (head.length >= statusLineLength) return true
      head += readBuffer.toString('latin1', 0, length)
      if (head.length < statusLineLength) return true
      const status = statusLine.exec(head)?.[1]
      if (status === undefined) socket.destroy(new Error('the answer is not HTTP'))
      else resolve({ kind: 'answered', status: Number(status) })
      return true
    }
    const socket = connect({ host, port, onread: { buffer: readBuffer, callback: onData } })
    socket.write(`GET /health HTTP/1.1\r\nHost: ${host}:${port}\r\nConnection: close\r\n\r\n`)
    const limit = setTimeout(() => socket.destroy(new Error(`no answer within ${timeLimitMs} ms`)), timeLimitMs)
    limit.unref()
    const onAbort = () => socket.destroy(new Error('not asked any more'))
    signal.addEventListener('abort', onAbort)
    if (signal.aborted) onAbort()
    socket.on('error', (error) => {
      const reason = ownFailure(error)
      resolve(reason === undefined ? { kind: 'silent', reason: error.message } : { kind: 'cannotAsk', reason })
    })
    socket.on('close', () => {
      clearTimeout(limit)
      signal.removeEventListener('abort', onAbort)
      resolve({ kind: 'silent', reason: 'the connection was closed without an answer' })
    })
  })
