import PQueue from 'p-queue'
import { request, type Dispatcher } from 'undici'
import { ProgramError } from '../util/ask-program.ts'
import { boundedBody } from '../util/bounded-body.ts'
import { linesOf } from '../util/lines.ts'
import { answerTooLarge, ApiError, isApiError, rootMessage } from './api-error.ts'
import { readAnswer, type AnswerKind } from './large-answer.ts'
import type { Authenticated } from './connection.ts'
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

type HttpMethod = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

interface Asked {
  readonly method: HttpMethod
  readonly url: string
  readonly body?: object | undefined
  readonly contentType?: string | undefined
}

/** Called for each request, watches included; undefined: there was no answer. */
export type OnAnswer = (statusCode: number | undefined) => void

/**
 * Requests to the API server with the credentials of the pinned context: bounded in time, in size and in number at once. fetch takes several
 * times the memory and processor time of a plain request. Throws {@link ApiError}.
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
      const asked: Asked = { method: 'GET', url: this.#urlOf(path, query) }
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
    const { connection } = this.#context
    try {
      return await this.#send(method, path, options)
    } catch (error) {
      if (!isApiError(error, 401)) throw error
      if (this.#context.connection === connection) await this.#renew(error)
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
    const { query, body: sent, contentType } = options
    const asked = { method, url: this.#urlOf(path, query), body: sent, contentType }
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
    const url = new URL(this.#context.server)
    url.pathname = url.pathname.replace(/\/$/, '') + path
    url.search = url.hash = ''
    for (const [key, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(key, value)
    }
    return url.toString()
  }

  /** `signal` bounds the time: undici's own timeouts are off, since it wakes twice a second for them. */
  async #open(
    { method, url, body, contentType = 'application/json' }: Asked,
    signal: AbortSignal,
    onCredentials: () => void = () => undefined,
  ): Promise<Dispatcher.ResponseData> {
    const { dispatcher, headers } = await unlessAborted(signal, this.#context.connection.authenticated())
    onCredentials()
    const answer = request(url, {
      ...{ method, dispatcher, signal, headersTimeout: 0, bodyTimeout: 0 },
      headers: {
        ...{ ...headers, Accept: 'application/json', 'User-Agent': fieldManager },
        ...(body && { 'Content-Type': contentType }),
      },
      ...(body && { body: JSON.stringify(body) }),
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

async function textOf(body: Dispatcher.ResponseData['body'], what: string, maxBytes = maxAnswerBytes): Promise<string> {
  const message = `${what}: the answer has more than ${maxBytes / 1024 / 1024} MB`
  return (await boundedBody(body, maxBytes, () => new ApiError(message, { reason: answerTooLarge }))).toString()
}

/** An exec plugin of the kubeconfig may wait for a person, or for ever: no request waits longer than for a server. */
async function unlessAborted(signal: AbortSignal, authentication: Promise<Authenticated>): Promise<Authenticated> {
  const { promise, reject } = Promise.withResolvers<never>()
  const onAbort = (): void =>
    reject(new ProgramError('The kubeconfig gave no credentials in time; is its exec plugin waiting for a person?'))
  signal.addEventListener('abort', onAbort)
  try {
    return await Promise.race([authentication, promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
