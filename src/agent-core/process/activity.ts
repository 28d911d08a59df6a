import { get } from 'node:http'

/** What a server says of its own work. */
export type Activity =
  /** `work` only ever rises, with every token read or written: a request that makes progress makes it rise. */
  | { readonly kind: 'counted'; readonly requests: number; readonly work: number }
  /** It is there, but this is not among the things that it tells. */
  | { readonly kind: 'untold' }
  /** No answer within the time: its HTTP threads are all taken, a long batch is computed, or it hangs. */
  | { readonly kind: 'silent' }

/** Asks for llama-server's own counters. Never rejects. */
export function askActivity(port: number, timeLimitMs: number, signal?: AbortSignal): Promise<Activity> {
  return new Promise((resolve) => {
    const silent = () => resolve({ kind: 'silent' })
    const options = { host: '127.0.0.1', port, path: '/metrics', agent: false, ...(signal && { signal }) }
    const request = get(options, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => (text += chunk))
      response.on('end', () => resolve(activityFrom(response.statusCode === 200 ? text : '')))
      response.on('error', silent)
    })
    const limit = setTimeout(() => request.destroy(), timeLimitMs)
    limit.unref()
    request.on('error', silent)
    request.on('close', () => {
      clearTimeout(limit)
      silent()
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
