import { HttpMethod, RequestContext } from '@kubernetes/client-node'
import PQueue from 'p-queue'
import { request, type Dispatcher } from 'undici'
import { linesOf } from '../util/lines.ts'
import { answerTooLarge, ApiError, isApiError, rootMessage } from './api-error.ts'
import { readAnswer, type AnswerKind } from './large-answer.ts'
import type { PinnedContext } from './pinned-context.ts'

/** A list page must fit well inside this; an API server that takes longer is treated as not answering. */
export const requestTimeoutMs = 15_000

/** No object is nearly as large: etcd takes about 1.5 MB. */
const maxAnswerBytes = 8 * 1024 * 1024

/** Between two clocks, and from the whole seconds of the `Date` header, this much is noise. */
const clockNoiseMs = 1_500

/** A thousand services that all want to say something take turns instead of opening a thousand connections. */
const maxRequestsAtOnce = 32

/** Server-side apply keys ownership by this name: it must never change. */
export const fieldManager = 'metalbar'

export interface RequestOptions {
  readonly answer: AnswerKind
  readonly query?: Readonly<Record<string, string | undefined>>
  readonly body?: object
  readonly contentType?: string
  readonly signal?: AbortSignal | undefined
  /** Caps the answer where the usual limit is too generous. */
  readonly maxBytes?: number | undefined
  /** Called with the length of the answer in bytes. */
  readonly onRead?: (bytes: number) => void
}

export interface StreamOptions {
  /** A stream that brings no byte for so long is closed. */
  readonly silenceMs: number
  readonly onOpen: () => void
  readonly signal: AbortSignal
}

interface StreamRequest<T> extends StreamOptions {
  /** What an error calls it. */
  readonly what: string
  readonly answer: AnswerKind
  readonly query: RequestOptions['query']
  readonly parse: (line: unknown) => T
}

/** Called for each request, watches included; undefined: there was no answer. */
export type OnAnswer = (statusCode: number | undefined) => void

/**
 * Requests to the API server with the credentials of the pinned context: bounded in time, in size and in number at once. client-node's
 * own transport, fetch, takes several times the memory and processor time of a plain request. Throws {@link ApiError}.
 */
export class KubeTransport {
  readonly #context: PinnedContext
  readonly #onAnswer: OnAnswer
  readonly #turns = new PQueue({ concurrency: maxRequestsAtOnce })
  /** What the server's clock said, and when that was on our monotonic clock. */
  #serverClock = { read: Date.now(), at: performance.now() }

  constructor(context: PinnedContext, onAnswer: OnAnswer = () => undefined) {
    this.#context = context
    this.#onAnswer = onAnswer
  }

  /**
   * The API server's time in milliseconds, by the `Date` headers of its answers (1 s resolution): a step of this machine's own clock
   * does not reach it. Before the first answer it is our clock.
   */
  serverNow(): number {
    return this.#serverClock.read + (performance.now() - this.#serverClock.at)
  }

  /** The JSON of the answer. */
  request(method: HttpMethod, path: string, options: RequestOptions): Promise<unknown> {
    return this.#turns.add(() => this.#sendRenewed(method, path, options))
  }

  /** The JSON of each line as `parse` reads it, until the server ends the answer; throws ApiError where the connection was lost. */
  async *stream<T>(path: string, options: StreamRequest<T>): AsyncGenerator<T, void> {
    const { what, answer, query, parse, silenceMs, onOpen } = options
    const silence = new AbortController()
    const endIn = (ms: number): NodeJS.Timeout =>
      setTimeout(() => silence.abort(new Error(`nothing came for ${ms / 1_000} s`)), ms).unref()
    // Credentials take no longer than for any request; the server may stay silent until it has an event.
    let timer = endIn(Math.min(silenceMs, requestTimeoutMs))
    const signal = AbortSignal.any([options.signal, silence.signal])
    try {
      const asked = new RequestContext(this.#urlOf(path, query), HttpMethod.GET)
      const { statusCode, headers, body } = await this.#open(asked, signal, () => {
        clearTimeout(timer)
        timer = endIn(silenceMs)
      })
      if (statusCode !== 200) throw ApiError.fromResponse(what, statusCode, await textOf(body, what), headers)
      timer.refresh()
      onOpen()
      for await (const line of linesOf(body, maxAnswerBytes)) {
        timer.refresh()
        yield parse(await readAnswer(line, answer, signal))
      }
    } catch (error) {
      if (error instanceof ApiError) throw error
      throw new ApiError(`${what}: ${rootMessage(error)}`, { cause: error })
    } finally {
      clearTimeout(timer)
    }
  }

  /** Credentials expire while watches that were opened with them stay open: the first request that is refused reads them again. */
  async #sendRenewed(method: HttpMethod, path: string, options: RequestOptions): Promise<unknown> {
    const { config } = this.#context
    try {
      return await this.#send(method, path, options)
    } catch (error) {
      if (!isApiError(error, 401)) throw error
      if (this.#context.config === config) await this.#renew(error)
      return await this.#send(method, path, options)
    }
  }

  async #renew({ message, reason }: ApiError): Promise<void> {
    try {
      await this.#context.renew()
    } catch (cause) {
      throw new ApiError(message, { code: 401, reason, cause })
    }
  }

  async #send(method: HttpMethod, path: string, options: RequestOptions): Promise<unknown> {
    const what = `${method} ${path}`
    const asked = new RequestContext(this.#urlOf(path, options.query), method)
    if (options.body) {
      asked.setBody(JSON.stringify(options.body))
      asked.setHeaderParam('Content-Type', options.contentType ?? 'application/json')
    }
    const late = new AbortController()
    // Cleared with the answer: AbortSignal.timeout would wake the process 15 s after each request that was answered.
    const timer = setTimeout(
      () => late.abort(new Error(`no answer within ${requestTimeoutMs / 1_000} s`)),
      requestTimeoutMs,
    )
    const signal = options.signal ? AbortSignal.any([options.signal, late.signal]) : late.signal
    try {
      const { statusCode, headers, body } = await this.#open(asked, signal)
      this.#learnServerTime(headers.date)
      const text = await textOf(body, what, options.maxBytes)
      options.onRead?.(Buffer.byteLength(text))
      if (statusCode >= 200 && statusCode < 300) return await readAnswer(text, options.answer, signal)
      throw ApiError.fromResponse(what, statusCode, text, headers)
    } catch (error) {
      if (error instanceof ApiError) throw error
      throw new ApiError(`${what}: ${rootMessage(error)}`, { cause: error })
    } finally {
      clearTimeout(timer)
    }
  }

  #urlOf(path: string, query: RequestOptions['query'] = {}): string {
    const url = new URL(`${this.#context.server.replace(/\/$/, '')}${path}`)
    for (const [key, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(key, value)
    }
    return url.toString()
  }

  /** `signal` bounds the time: undici's own timeouts are off, since it wakes twice a second for them. */
  async #open(
    asked: RequestContext,
    signal: AbortSignal,
    onCredentials: () => void = () => undefined,
  ): Promise<Dispatcher.ResponseData> {
    asked.setHeaderParam('Accept', 'application/json')
    asked.setHeaderParam('User-Agent', fieldManager)
    await unlessAborted(signal, this.#context.config.applySecurityAuthentication(asked))
    onCredentials()
    const [dispatcher, body] = [asked.getDispatcher(), asked.getBody()]
    const answer = request(asked.getUrl(), {
      method: asked.getHttpMethod(),
      headers: asked.getHeaders(),
      ...(dispatcher && { dispatcher }),
      ...(typeof body === 'string' && { body }),
      ...{ signal, headersTimeout: 0, bodyTimeout: 0 },
    })
    answer.then(
      ({ statusCode }) => this.#onAnswer(statusCode),
      () => this.#onAnswer(undefined),
    )
    return await answer
  }

  #learnServerTime(date: string | string[] | undefined): void {
    const server = date === undefined ? Number.NaN : Date.parse(date.toString())
    if (Number.isNaN(server)) return
    if (Math.abs(server - this.serverNow()) >= clockNoiseMs) this.#serverClock = { read: server, at: performance.now() }
  }
}

async function textOf(
  body: Dispatcher.ResponseData['body'],
  what: string,
  maxBytes: number = maxAnswerBytes,
): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body) {
    const piece = Buffer.from(chunk as Uint8Array)
    bytes += piece.length
    // Leaving the loop ends the connection.
    if (bytes > maxBytes) {
      throw new ApiError(`${what}: the answer has more than ${maxBytes / 1024 / 1024} MB`, {
        reason: answerTooLarge,
      })
    }
    chunks.push(piece)
  }
  return Buffer.concat(chunks).toString()
}

/** An exec plugin of the kubeconfig may wait for a person, or for ever: no request waits longer than for a server. */
async function unlessAborted(signal: AbortSignal, authentication: Promise<void>): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>()
  const onAbort = (): void =>
    reject(new Error('the kubeconfig gave no credentials in time; is its exec plugin waiting for a person?'))
  signal.addEventListener('abort', onAbort)
  try {
    await Promise.race([authentication, promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
