import { connect } from 'node:net'

const host = '127.0.0.1'

/** What a server says of its own work. */
export type Activity =
  /** `work` only ever rises, with every token read or written: a request that makes progress makes it rise. */
  | { readonly kind: 'counted'; readonly requests: number; readonly work: number }
  /** It is there, but this is not among the things that it tells. */
  | { readonly kind: 'untold' }
  /** No answer within the time: its HTTP threads are all taken, a long batch is computed, or it hangs. */
  | { readonly kind: 'silent' }

/** Of a server's counters; another program may say as much as it likes. */
const maxAnswerLength = 256 * 1_024

/** Asks for llama-server's own counters. Never rejects. Written to the socket itself, as every server is asked now and then: see probeHealth. */
export function askActivity(port: number, timeLimitMs: number, signal?: AbortSignal): Promise<Activity> {
  return new Promise((resolve) => {
    let text = ''
    const socket = connect({ host, port, ...(signal && { signal }) })
    // Of HTTP/1.0, so that the answer comes whole instead of in chunks, and ends with the connection.
    socket.write(`GET /metrics HTTP/1.0\r\nHost: ${host}:${port}\r\nConnection: close\r\n\r\n`)
    const limit = setTimeout(() => socket.destroy(), timeLimitMs)
    limit.unref()
    socket.setEncoding('latin1')
    socket.on('data', (chunk: string) => {
      text += chunk
      if (text.length > maxAnswerLength) socket.destroy()
    })
    socket.on('end', () => resolve(/^HTTP\/1\.[01] \d{3}/.test(text) ? activityFrom(text) : { kind: 'silent' }))
    socket.on('error', () => resolve({ kind: 'silent' }))
    socket.on('close', () => {
      clearTimeout(limit)
      resolve({ kind: 'silent' })
    })
  })
}

const inFlight = ['requests_processing', 'requests_deferred']
const progress = ['prompt_tokens_total', 'tokens_predicted_total', 'n_decode_total']

/** Reads the figures of llama-server out of Prometheus text. */
export function activityFrom(metrics: string): Activity {
  const figures = new Map(
    [...metrics.matchAll(/^llamacpp:(\w+) ([\d.e+]+)$/gm)].map(([, name = '', value]) => [name, Number(value)]),
  )
  const sum = (names: readonly string[]) => names.reduce((total, name) => total + (figures.get(name) ?? 0), 0)
  return inFlight.some((name) => figures.has(name))
    ? { kind: 'counted', requests: sum(inFlight), work: sum(progress) }
    : { kind: 'untold' }
}
