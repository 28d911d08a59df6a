import { connect } from 'node:net'
import { ownFailure } from '../util/error-code.ts'
import { pause } from '../util/pause.ts'
import { steadyNow } from '../util/steady-clock.ts'
import { daemonRuntimes, type DaemonRuntimeName } from './daemon.ts'
import { loopback } from './listening.ts'
import { addressAndPort } from '../../contract/addresses.ts'

/** A counters' answer beyond this is another program's, which may say as much as it likes. */
const maxAnswerLength = 256 * 1_024

type Exchange =
  | { readonly kind: 'answered'; readonly status: number; readonly text: string }
  /** No HTTP answer within the time: all HTTP threads are taken, a long batch is computed, nothing listens, or it hangs. */
  | { readonly kind: 'silent'; readonly reason: string }
  /** This process could not ask, such as for want of a file descriptor: nothing is known about the server. */
  | { readonly kind: 'cannotAsk'; readonly reason: string }

interface Question {
  readonly host: string
  readonly port: number
  readonly path: string
  /** JSON to be posted; absent = GET. */
  readonly body?: string
  readonly timeLimitMs: number
  readonly signal?: AbortSignal | undefined
  /** The status alone is waited for, not the text. */
  readonly statusOnly: boolean
}

const statusLine = /^HTTP\/1\.[01] (\d{3})/
/** An answer this long shows whether it begins with a status line. */
const statusLineLength = 'HTTP/1.1 200'.length

/** Shared by all questions: what is read into it is copied in the same turn. */
const readBuffer = Buffer.allocUnsafe(16_384)

/**
 * One request on a connection of its own: a kept one would tell us about the connection, and take one of the server's threads while it is
 * kept. It is written to the socket itself, as a request of node:http costs three times as much, for every server and every few seconds.
 * Never rejects.
 */
function exchange({ host, port, path, body, timeLimitMs, signal, statusOnly }: Question): Promise<Exchange> {
  return new Promise((resolve) => {
    let text = ''
    let status: number | undefined
    const onData = (length: number): boolean => {
      if (status !== undefined && statusOnly) return true
      text += readBuffer.toString('latin1', 0, length)
      if (status === undefined && text.length >= statusLineLength) {
        const digits = statusLine.exec(text)?.[1]
        if (digits === undefined) socket.destroy(new Error('the answer is not HTTP'))
        else status = Number(digits)
        if (status !== undefined && statusOnly) resolve({ kind: 'answered', status, text: '' })
      }
      if (text.length > maxAnswerLength) socket.destroy(new Error('the answer is too long'))
      return true
    }
    const socket = connect({ host, port, onread: { buffer: readBuffer, callback: onData } })
    // HTTP/1.0: the answer comes whole instead of in chunks, and ends with the connection.
    const [method, content] = body === undefined ? ['GET', ''] : ['POST', contentHeaders(body)]
    socket.write(
      `${method} ${path} HTTP/1.0\r\nHost: ${addressAndPort(host, port)}\r\nConnection: close\r\n${content}\r\n${body ?? ''}`,
    )
    const limit = setTimeout(() => socket.destroy(new Error(`no answer within ${timeLimitMs} ms`)), timeLimitMs)
    limit.unref()
    const onAbort = () => socket.destroy(new Error('the request was cancelled'))
    signal?.addEventListener('abort', onAbort)
    if (signal?.aborted === true) onAbort()
    socket.on('end', () => status !== undefined && resolve({ kind: 'answered', status, text }))
    socket.on('error', (error) => {
      const reason = ownFailure(error)
      resolve(reason === undefined ? { kind: 'silent', reason: error.message } : { kind: 'cannotAsk', reason })
    })
    socket.on('close', () => {
      clearTimeout(limit)
      signal?.removeEventListener('abort', onAbort)
      resolve({ kind: 'silent', reason: 'the connection was closed without an answer' })
    })
  })
}

const contentHeaders = (body: string): string =>
  `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`

/** Any answer is a sign of life; the caller decides what it means. */
export type ProbeAnswer =
  { readonly kind: 'answered'; readonly status: number } | Exclude<Exchange, { kind: 'answered' }>

/** `host`: this machine's loopback address where it is not said. */
export type HealthProbe = (
  port: number,
  timeLimitMs: number,
  signal: AbortSignal,
  host?: string,
) => Promise<ProbeAnswer>

const probeBy =
  (path: string): HealthProbe =>
  async (port, timeLimitMs, signal, host = loopback) => {
    const answer = await exchange({ host, port, path, timeLimitMs, signal, statusOnly: true })
    return answer.kind === 'answered' ? { kind: 'answered', status: answer.status } : answer
  }

/** Asks `/health`, which llama-server answers however busy it is. Never rejects. */
export const probeHealth = probeBy('/health')

/** How the servers of a runtime are asked, and what belongs to one beside its first process and its port. */
export interface ServerProtocol {
  /** For one start: answers 200 once the model itself can answer, and 503 while it is being loaded. */
  readonly readiness: () => HealthProbe
  readonly health: HealthProbe
  readonly activity: (port: number, timeLimitMs: number, signal?: AbortSignal, host?: string) => Promise<Activity>
  /** Asks a server that counts nothing for one token: any answer says that it computes. Absent = its counters say so. */
  readonly token?: HealthProbe
  /** Further ports that it listens at, each as what is added to its port. */
  readonly furtherPorts: readonly number[]
  /** Its first process waits for another that computes, also for one that has ended. */
  readonly isLauncher: boolean
}

/** mlx-lm says 503 where its model cannot be loaded or the thread that computes has died: it never serves again. */
const probeMlxLm: HealthProbe = async (...question) => {
  const answer = await probeHealth(...question)
  return answer.kind === 'answered' && answer.status === 503 ? { ...answer, status: 500 } : answer
}

const oneToken = {
  path: '/v1/completions',
  body: JSON.stringify({ model: 'default_model', prompt: 'a', max_tokens: 1 }),
}
const messages = [{ role: 'user', content: 'a' }]
const oneTokenOfChat = {
  path: '/v1/chat/completions',
  body: JSON.stringify({ model: 'default_model', messages, max_tokens: 1 }),
}

const tokenBy =
  (question: Pick<Question, 'path' | 'body'>): HealthProbe =>
  async (port, timeLimitMs, signal, host = loopback) => {
    const answer = await exchange({ ...question, host, port, timeLimitMs, signal, statusOnly: true })
    return answer.kind === 'answered' ? { kind: 'answered', status: answer.status } : answer
  }

/** A start without progress ends long before. */
const longestLoadMs = 6 * 3_600_000

/**
 * mlx-lm is healthy before its model is loaded, so it is asked for a token. The question stays open until it is answered: each one that is
 * given up would be computed all the same.
 */
function firstToken(): HealthProbe {
  let asked: Promise<ProbeAnswer> | undefined
  return async (port, timeLimitMs, signal, host = loopback) => {
    const health = await probeMlxLm(port, timeLimitMs, signal, host)
    if (health.kind !== 'answered' || health.status !== 200) return health
    asked ??= tokenBy(oneToken)(port, longestLoadMs, signal, host)
    const waited = new AbortController()
    const answer = await Promise.race([asked, pause(timeLimitMs, waited.signal).then(() => undefined)])
    waited.abort()
    if (answer === undefined) return { kind: 'answered', status: 503 }
    asked = undefined
    if (answer.kind !== 'answered') return answer
    return { kind: 'answered', status: answer.status === 200 ? 200 : 500 }
  }
}

/** Answers `/health` with 200 once its model is loaded, counts nothing, and is one process with one port. */
const plain: ServerProtocol = {
  readiness: () => probeHealth,
  health: probeHealth,
  // Open connections say whether it is used.
  activity: () => Promise.resolve({ kind: 'untold' }),
  furtherPorts: [],
  isLauncher: false,
}

const processProtocols = {
  'llama-server': { ...plain, activity: (...question) => askActivity(...question) },
  'mlx-lm': { ...plain, readiness: firstToken, health: probeMlxLm, token: tokenBy(oneToken) },
  // It listens only after its model is loaded.
  'mlx-server': { ...plain, token: tokenBy(oneTokenOfChat) },
  // With most models that reason, a proxy of its own takes the port, and vLLM listens behind it.
  'vllm-swift': {
    ...plain,
    activity: (...question) => askCounters(vllmNames, ...question),
    furtherPorts: [1_000],
    isLauncher: true,
  },
  // It listens only after its model is loaded; a build before 0.6 counts nothing.
  tensorfold: {
    ...plain,
    activity: (...question) => askCounters(tensorfoldNames, ...question),
    token: tokenBy(oneTokenOfChat),
  },
} as const satisfies Readonly<Record<string, ServerProtocol>>

/** How the process of a daemon is asked where this agent started it; its models are asked for as of any other (`daemon.ts`). */
const daemonProtocols: Readonly<Record<DaemonRuntimeName, ServerProtocol>> = {
  ollama: { ...plain, readiness: () => probeBy('/api/version'), health: probeBy('/api/version') },
  // It answers 503 while it loads what is pinned there.
  omlx: plain,
}

export const serverProtocols = { ...processProtocols, ...daemonProtocols }

/** The runtimes of which this agent starts a process for each service. */
export type ProcessRuntimeName = keyof typeof processProtocols
export type ServerRuntime = ProcessRuntimeName | DaemonRuntimeName
export const processRuntimes = Object.keys(processProtocols) as readonly ProcessRuntimeName[]
export const serverRuntimes: readonly ServerRuntime[] = [...processRuntimes, ...daemonRuntimes]

/** 503 is how llama-server says that it is busy with itself; other answers from 500 on mean that it cannot serve. */
export const isAlive = (status: number): boolean => status < 500 || status === 503

/** What llama-server counts of its work since it began to serve. What it does not say, or what cannot be true, is absent. */
export interface RuntimeCounters {
  readonly promptTokens?: number
  readonly promptSeconds?: number
  /** Prompt tokens found in the cache instead of read. */
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

export interface CountersReading {
  readonly counters: RuntimeCounters
  /** On the steady clock. */
  readonly askedAt: number
}

/** What a server says of its own work. */
export type Activity =
  /** `work` only ever rises, with every token read or written: a request that makes progress makes it rise. */
  | { readonly kind: 'counted'; readonly requests: number; readonly work: number; readonly reading: CountersReading }
  /**
   * It answers, but does not say how many requests it has. `work`: another after each request that was answered, where it says that.
   * `requests`: of a daemon that says how many it has of all its models together.
   */
  | { readonly kind: 'untold'; readonly work?: number; readonly requests?: number }
  | { readonly kind: 'silent' }
  | { readonly kind: 'cannotAsk' }

/** Asks for llama-server's own counters, once. Of a server of ours, its poller is asked instead: see Poller. Never rejects. */
export const askActivity: ServerProtocol['activity'] = (...question) => askCounters(llamaServerNames, ...question)

async function askCounters(
  names: CounterNames,
  port: number,
  timeLimitMs: number,
  signal?: AbortSignal,
  host = loopback,
): Promise<Activity> {
  const askedAt = steadyNow()
  const answer = await exchange({ host, port, path: '/metrics', timeLimitMs, signal, statusOnly: false })
  return answer.kind === 'answered' ? activityFrom(answer.text, askedAt, names) : { kind: answer.kind }
}

/** How a runtime calls its counters. */
type CounterNames = Readonly<Partial<Record<keyof RuntimeCounters, string>>>

const llamaServerNames = {
  promptTokens: 'llamacpp:prompt_tokens_total',
  promptSeconds: 'llamacpp:prompt_seconds_total',
  cachedTokens: 'llamacpp:prompt_tokens_cached_total',
  generatedTokens: 'llamacpp:tokens_predicted_total',
  generationSeconds: 'llamacpp:tokens_predicted_seconds_total',
  decodes: 'llamacpp:n_decode_total',
  slotsPerDecode: 'llamacpp:n_busy_slots_per_decode',
  draftedTokens: 'llamacpp:spec_decode_num_draft_tokens_total',
  requestsRunning: 'llamacpp:requests_processing',
  requestsWaiting: 'llamacpp:requests_deferred',
  kvUse: 'llamacpp:kv_cache_usage_ratio',
} as const satisfies Record<keyof RuntimeCounters, string>

/** vLLM's use of the cache is bookkeeping: with vllm-swift the cache is elsewhere. */
const vllmNames: CounterNames = {
  promptTokens: 'vllm:prompt_tokens_total',
  generatedTokens: 'vllm:generation_tokens_total',
  requestsRunning: 'vllm:num_requests_running',
  requestsWaiting: 'vllm:num_requests_waiting',
}

const tensorfoldNames: CounterNames = {
  promptTokens: 'tensorfold:prompt_tokens_total',
  generatedTokens: 'tensorfold:generation_tokens_total',
  requestsRunning: 'tensorfold:requests_running',
  requestsWaiting: 'tensorfold:requests_waiting',
  kvUse: 'tensorfold:kv_cache_usage_ratio',
}

/** Beyond what a server counts in its life; JavaScript counts exactly up to there. */
const largest = Number.MAX_SAFE_INTEGER

/** Reads a server's figures out of Prometheus text. */
export function activityFrom(metrics: string, askedAt: number, names: CounterNames = llamaServerNames): Activity {
  const values = new Map(
    [...metrics.matchAll(/^(\w+:\w+)(?:\{[^}\r\n\u2028\u2029]*\})? ([\d.e+-]+)$/gm)]
      .map(([, name = '', value]) => [name, Number(value)] as const)
      .filter(([, value]) => value >= 0 && value <= largest),
  )
  const counters: RuntimeCounters = Object.fromEntries(
    Object.entries(names).flatMap(([figure, name]) => {
      const value = values.get(name)
      return value === undefined || (figure === 'kvUse' && value > 1) ? [] : [[figure, value]]
    }),
  )
  const { requestsRunning, requestsWaiting, promptTokens = 0, generatedTokens = 0, decodes = 0 } = counters
  if (requestsRunning === undefined && requestsWaiting === undefined) return { kind: 'untold' }
  const requests = (requestsRunning ?? 0) + (requestsWaiting ?? 0)
  return { kind: 'counted', requests, work: promptTokens + generatedTokens + decodes, reading: { counters, askedAt } }
}
