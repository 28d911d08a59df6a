import { setImmediate as nextTurn } from 'node:timers/promises'
import { HttpMethod, RequestContext } from '@kubernetes/client-node'
import PQueue from 'p-queue'
import { request, type Dispatcher } from 'undici'
import { z } from 'zod'
import { answerTooLarge, ApiError, isApiError, rootMessage } from './api-error.ts'
import { pagesOf } from './list-pages.ts'
import type { PinnedContext } from './pinned-context.ts'
import { apiVersionOf, type Resource } from './resources.ts'

/** A list page must fit well inside this; an API server that takes longer is treated as not answering. */
export const requestTimeoutMs = 15_000

/** No object is nearly as large: etcd takes about 1.5 MB. */
const maxAnswerBytes = 8 * 1024 * 1024

/** Half a millisecond of reading an ordinary answer; one that was made to be slow takes a hundred times as long. */
const largeTextLength = 64 * 1024

/** Between two clocks, and from the whole seconds of the `Date` header, this much is noise. */
const clockNoiseMs = 1_500

/** A thousand services that all want to say something take turns instead of opening a thousand connections. */
const maxRequestsAtOnce = 32

const listBody = z.object({
  metadata: z.object({ resourceVersion: z.string(), continue: z.string().optional() }),
  items: z.array(z.unknown()),
})

const groupList = z.object({ groups: z.array(z.object({ name: z.string() })) })

export interface ListPage {
  readonly items: readonly unknown[]
  readonly resourceVersion: string
  readonly continueToken: string | undefined
}

export interface ListQuery {
  readonly namespace?: string | undefined
  readonly labelSelector?: string | undefined
  readonly fieldSelector?: string | undefined
  readonly limit?: number
  readonly continueToken?: string | undefined
  /** Of the answer, where it is to have less than any other. */
  readonly maxBytes?: number
}

export interface WatchQuery {
  readonly namespace: string | undefined
  readonly labelSelector: string | undefined
  readonly resourceVersion: string
  /** The server ends the watch by itself after so long. */
  readonly timeoutSeconds: number
}

export interface WatchOptions {
  /** Without a byte for so long it is given up. */
  readonly silenceMs: number
  readonly onOpen: () => void
  readonly signal: AbortSignal
}

export interface WatchEvent {
  readonly type: string
  readonly object: unknown
}

const watchEvent = z.object({ type: z.string(), object: z.unknown() })

export interface Preconditions {
  readonly uid: string
  readonly resourceVersion?: string
}

/**
 * The handful of requests the agent makes, as raw JSON with client-node's authentication: its typed calls turn timestamps
 * into dates, drop the nulls of a merge patch, and so disagree with what a watch delivers; and its transport, fetch, takes
 * several times the memory and processor time of a plain request. Every method throws {@link ApiError}.
 */
export class KubeApi {
  readonly context: PinnedContext
  /** The name of our writes. */
  readonly fieldManager = fieldManager
  readonly #turns = new PQueue({ concurrency: maxRequestsAtOnce })
  /** What the server's clock said, and when that was on our monotonic clock. */
  #serverClock = { read: Date.now(), at: performance.now() }

  constructor(context: PinnedContext) {
    this.context = context
  }

  /**
   * The API server's time in milliseconds, by the `Date` headers of its answers (1 s resolution): a step of this machine's own clock
   * does not reach it. Before the first answer it is our clock.
   */
  serverNow(): number {
    return this.#serverClock.read + (performance.now() - this.#serverClock.at)
  }

  async list(resource: Resource, query: ListQuery, signal?: AbortSignal): Promise<ListPage> {
    const body = await this.#request(HttpMethod.GET, pathOf(resource, query.namespace), {
      query: {
        labelSelector: query.labelSelector,
        fieldSelector: query.fieldSelector,
        limit: query.limit?.toString(),
        continue: query.continueToken,
      },
      signal,
      maxBytes: query.maxBytes,
    })
    const { metadata, items } = listBody.parse(body)
    return { items, resourceVersion: metadata.resourceVersion, continueToken: metadata.continue || undefined }
  }

  /** All of a list, in pages that are bounded in number and in bytes. Throws ApiError. */
  pages(
    resource: Resource,
    query: Omit<ListQuery, 'limit' | 'continueToken' | 'maxBytes'>,
    signal?: AbortSignal,
  ): AsyncGenerator<ListPage, void> {
    return pagesOf((page) => this.list(resource, { ...query, ...page }, signal))
  }

  /** Ends when the server ends the watch; throws ApiError where the connection was lost. */
  async *watch(resource: Resource, query: WatchQuery, options: WatchOptions): AsyncGenerator<WatchEvent, void> {
    const { namespace, labelSelector, resourceVersion, timeoutSeconds } = query
    const { silenceMs, onOpen } = options
    const url = this.#urlOf(pathOf(resource, namespace), {
      ...{ watch: 'true', allowWatchBookmarks: 'true', resourceVersion, labelSelector },
      timeoutSeconds: timeoutSeconds.toString(),
    })
    const silence = new AbortController()
    const endIn = (ms: number): NodeJS.Timeout =>
      setTimeout(() => silence.abort(new Error(`nothing came for ${ms / 1_000} s`)), ms).unref()
    // Credentials take no longer than for any request; the server may stay silent until it has an event.
    let timer = endIn(Math.min(silenceMs, requestTimeoutMs))
    const signal = AbortSignal.any([options.signal, silence.signal])
    try {
      const { statusCode, headers, body } = await this.#open(new RequestContext(url, HttpMethod.GET), signal, () => {
        clearTimeout(timer)
        timer = endIn(silenceMs)
      })
      if (statusCode !== 200) throw ApiError.fromResponse('watch', statusCode, await textOf(body, 'watch'), headers)
      timer.refresh()
      onOpen()
      for await (const line of linesOf(body)) {
        timer.refresh()
        yield watchEvent.parse(await parsedJson(line))
      }
    } catch (error) {
      if (error instanceof ApiError) throw error
      throw new ApiError(`watch: ${rootMessage(error)}`, { cause: error })
    } finally {
      clearTimeout(timer)
    }
  }

  /** Names of the API groups the server has, such as `discovery.k8s.io`. */
  async groups(signal?: AbortSignal): Promise<string[]> {
    const { groups } = groupList.parse(await this.#request(HttpMethod.GET, '/apis', { signal }))
    return groups.map(({ name }) => name)
  }

  /** A quorum read: what the server holds now, not what a cache remembers. */
  async get(resource: Resource, namespace: string | undefined, name: string, signal?: AbortSignal): Promise<unknown> {
    return this.#request(HttpMethod.GET, pathOf(resource, namespace, name), { signal })
  }

  async create(
    resource: Resource,
    namespace: string,
    body: object,
    options: { dryRun?: boolean; signal?: AbortSignal } = {},
  ): Promise<unknown> {
    return this.#request(HttpMethod.POST, pathOf(resource, namespace), {
      body: withType(resource, body),
      query: { dryRun: options.dryRun === true ? 'All' : undefined, fieldManager },
      signal: options.signal,
    })
  }

  /** JSON merge patch: null removes, lists are replaced whole. Preconditions travel in `metadata`. */
  async mergePatch(
    resource: Resource,
    namespace: string,
    name: string,
    body: object,
    signal?: AbortSignal,
  ): Promise<unknown> {
    return this.#request(HttpMethod.PATCH, pathOf(resource, namespace, name), {
      body,
      contentType: 'application/merge-patch+json',
      query: { fieldManager },
      signal,
    })
  }

  /** Server-side apply of the fields we own on `/status`, taken by force. */
  async applyStatus(
    resource: Resource,
    namespace: string,
    name: string,
    body: object,
    signal?: AbortSignal,
  ): Promise<unknown> {
    return this.#request(HttpMethod.PATCH, `${pathOf(resource, namespace, name)}/status`, {
      body: withType(resource, body),
      contentType: 'application/apply-patch+yaml',
      query: { fieldManager, force: 'true' },
      signal,
    })
  }

  async mergePatchStatus(
    resource: Resource,
    namespace: string,
    name: string,
    body: object,
    signal?: AbortSignal,
  ): Promise<unknown> {
    return this.#request(HttpMethod.PATCH, `${pathOf(resource, namespace, name)}/status`, {
      body,
      contentType: 'application/merge-patch+json',
      query: { fieldManager },
      signal,
    })
  }

  async delete(
    resource: Resource,
    namespace: string,
    name: string,
    preconditions: Preconditions,
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#request(HttpMethod.DELETE, pathOf(resource, namespace, name), {
      body: { apiVersion: 'v1', kind: 'DeleteOptions', preconditions },
      signal,
    })
  }

  #request(method: HttpMethod, path: string, options: RequestOptions): Promise<unknown> {
    return this.#turns.add(() => this.#sendRenewed(method, path, options))
  }

  /** Credentials expire while watches that were opened with them go on: whoever is refused first reads them anew. */
  async #sendRenewed(method: HttpMethod, path: string, options: RequestOptions): Promise<unknown> {
    const { config } = this.context
    try {
      return await this.#send(method, path, options)
    } catch (error) {
      if (!isApiError(error, 401)) throw error
      if (this.context.config === config) await this.#renew(error)
      return await this.#send(method, path, options)
    }
  }

  async #renew({ message, reason }: ApiError): Promise<void> {
    try {
      await this.context.renew()
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
    // Cleared with the answer: AbortSignal.timeout would wake us 15 s after each request, for nobody.
    const timer = setTimeout(
      () => late.abort(new Error(`no answer within ${requestTimeoutMs / 1_000} s`)),
      requestTimeoutMs,
    )
    const signal = options.signal ? AbortSignal.any([options.signal, late.signal]) : late.signal
    try {
      const { statusCode, headers, body } = await this.#open(asked, signal)
      this.#learnServerTime(headers.date)
      const text = await textOf(body, what, options.maxBytes)
      if (statusCode >= 200 && statusCode < 300) return await parsedJson(text)
      throw ApiError.fromResponse(what, statusCode, text, headers)
    } catch (error) {
      if (error instanceof ApiError) throw error
      throw new ApiError(`${what}: ${rootMessage(error)}`, { cause: error })
    } finally {
      clearTimeout(timer)
    }
  }

  #urlOf(path: string, query: RequestOptions['query'] = {}): string {
    const url = new URL(`${this.context.server.replace(/\/$/, '')}${path}`)
    for (const [key, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(key, value)
    }
    return url.toString()
  }

  /** The signal ends it, so that undici's own timeouts, for which it wakes twice a second, are off. */
  async #open(
    asked: RequestContext,
    signal: AbortSignal,
    onCredentials: () => void = () => undefined,
  ): Promise<Dispatcher.ResponseData> {
    asked.setHeaderParam('Accept', 'application/json')
    asked.setHeaderParam('User-Agent', fieldManager)
    await unlessAborted(signal, this.context.config.applySecurityAuthentication(asked))
    onCredentials()
    const [dispatcher, body] = [asked.getDispatcher(), asked.getBody()]
    return await request(asked.getUrl(), {
      method: asked.getHttpMethod(),
      headers: asked.getHeaders(),
      ...(dispatcher && { dispatcher }),
      ...(typeof body === 'string' && { body }),
      ...{ signal, headersTimeout: 0, bodyTimeout: 0 },
    })
  }

  #learnServerTime(date: string | string[] | undefined): void {
    const server = date === undefined ? Number.NaN : Date.parse(date.toString())
    if (Number.isNaN(server)) return
    if (Math.abs(server - this.serverNow()) >= clockNoiseMs) this.#serverClock = { read: server, at: performance.now() }
  }
}

/** After parsing a large answer the caller goes on in another turn of the event loop, so that others are served in between. */
async function parsedJson(text: string): Promise<unknown> {
  const value: unknown = JSON.parse(text)
  if (text.length > largeTextLength) await nextTurn()
  return value
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

async function* linesOf(body: Dispatcher.ResponseData['body']): AsyncGenerator<string, void> {
  let rest = ''
  body.setEncoding('utf8')
  for await (const chunk of body) {
    const lines = `${rest}${String(chunk)}`.split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > maxAnswerBytes) throw new Error('a line of it is too long')
    for (const line of lines) if (line !== '') yield line
  }
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

interface RequestOptions {
  readonly query?: Readonly<Record<string, string | undefined>>
  readonly body?: object
  readonly contentType?: string
  readonly signal?: AbortSignal | undefined
  readonly maxBytes?: number | undefined
}

/** Server-side apply keys ownership by this name: it must never change. */
export const fieldManager = 'metalbar'

/** `/api/v1/namespaces/NS/services/NAME` and its relatives; no namespace = all of them. */
export function pathOf(resource: Resource, namespace?: string, name?: string): string {
  const root = resource.group === '' ? '/api/v1' : `/apis/${apiVersionOf(resource)}`
  const scope = namespace ? `/namespaces/${encodeURIComponent(namespace)}` : ''
  return `${root}${scope}/${resource.plural}${name === undefined ? '' : `/${encodeURIComponent(name)}`}`
}

const withType = (resource: Resource, body: object): object => ({
  apiVersion: apiVersionOf(resource),
  kind: resource.kind,
  ...body,
})
