import { connect } from 'node:net'
import { ownFailure } from '../util/error-code.ts'
import { steadyNow } from '../util/steady-clock.ts'

const host = '127.0.0.1'

/** What a server says of its own work. */
export type Activity =
  /** `work` only ever rises, with every token read or written: a request that makes progress makes it rise. */
  | { readonly kind: 'counted'; readonly requests: number; readonly work: number; readonly reading: CountersReading }
  /** It is there, but this is not among the things that it tells. */
  | { readonly kind: 'untold' }
  /** No answer within the time: its HTTP threads are all taken, a long batch is computed, or it hangs. */
  | { readonly kind: 'silent' }
  /** This process could not ask, such as for want of a file descriptor. */
  | { readonly kind: 'cannotAsk' }

/** What llama-server counts of its work since it began to serve. What it does not say, or what cannot be true, is absent. */
export interface RuntimeCounters {
  readonly promptTokens?: number
  readonly promptSeconds?: number
  /** Of prompts, found in the cache instead of read. */
  readonly cachedTokens?: number
  /** Counted when a request ends, as are their seconds. */
  readonly generatedTokens?: number
  readonly generationSeconds?: number
  /** Calls of llama_decode; rises during a request. */
  readonly decodes?: number
  /** Mean number of slots that worked in one of them. */
  readonly slotsPerDecode?: number
  readonly draftedTokens?: number
  readonly requestsRunning?: number
  readonly requestsWaiting?: number
  /** From 0 to 1; current llama-servers do not tell it. */
  readonly kvUse?: number
}

/** As a server answered. */
export interface CountersReading {
  readonly counters: RuntimeCounters
  /** On the steady clock. */
  readonly askedAt: number
}

/** Of a server's counters; another program may say as much as it likes. */
const maxAnswerLength = 256 * 1_024

/** Asks for llama-server's own counters. Never rejects. Written to the socket itself, as every server is asked now and then: see probeHealth. */
export function askActivity(port: number, timeLimitMs: number, signal?: AbortSignal): Promise<Activity> {
  const askedAt = steadyNow()
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
    socket.on('end', () =>
      resolve(/^HTTP\/1\.[01] \d{3}/.test(text) ? activityFrom(text, askedAt) : { kind: 'silent' }),
    )
    socket.on('error', (error) => resolve({ kind: ownFailure(error) === undefined ? 'silent' : 'cannotAsk' }))
    socket.on('close', () => {
      clearTimeout(limit)
      resolve({ kind: 'silent' })
    })
  })
}

const names = {
  promptTokens: 'prompt_tokens_total',
  promptSeconds: 'prompt_seconds_total',
  cachedTokens: 'prompt_tokens_cached_total',
  generatedTokens: 'tokens_predicted_total',
  generationSeconds: 'tokens_predicted_seconds_total',
  decodes: 'n_decode_total',
  slotsPerDecode: 'n_busy_slots_per_decode',
  draftedTokens: 'spec_decode_num_draft_tokens_total',
  requestsRunning: 'requests_processing',
  requestsWaiting: 'requests_deferred',
  kvUse: 'kv_cache_usage_ratio',
} as const satisfies Record<keyof RuntimeCounters, string>

/** Beyond what a server counts in its life; JavaScript counts exactly up to there. */
const largest = Number.MAX_SAFE_INTEGER

/** Reads the figures of llama-server out of Prometheus text. */
export function activityFrom(metrics: string, askedAt: number): Activity {
  const told = new Map(
    [...metrics.matchAll(/^llamacpp:(\w+) ([\d.e+-]+)$/gm)]
      .map(([, name = '', value]) => [name, Number(value)] as const)
      .filter(([, value]) => value >= 0 && value <= largest),
  )
  const counters: RuntimeCounters = Object.fromEntries(
    Object.entries(names).flatMap(([figure, name]) => {
      const value = told.get(name)
      return value === undefined || (figure === 'kvUse' && value > 1) ? [] : [[figure, value]]
    }),
  )
  const { requestsRunning, requestsWaiting, promptTokens = 0, generatedTokens = 0, decodes = 0 } = counters
  if (requestsRunning === undefined && requestsWaiting === undefined) return { kind: 'untold' }
  const requests = (requestsRunning ?? 0) + (requestsWaiting ?? 0)
  return { kind: 'counted', requests, work: promptTokens + generatedTokens + decodes, reading: { counters, askedAt } }
}
