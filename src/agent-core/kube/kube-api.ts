import { HttpMethod, IsomorphicFetchHttpLibrary, RequestContext } from '@kubernetes/client-node'
import PQueue from 'p-queue'
import { z } from 'zod'
import { ApiError, isApiError, rootMessage } from './api-error.ts'
import type { PinnedContext } from './pinned-context.ts'
import { apiVersionOf, type Resource } from './resources.ts'

/** A list page must fit well inside this; an API server that takes longer is treated as not answering. */
export const requestTimeoutMs = 15_000

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
}

export interface Preconditions {
  readonly uid: string
  readonly resourceVersion?: string
}

/**
 * The handful of requests the agent makes, as raw JSON over client-node's transport and authentication: its typed
 * calls turn timestamps into dates, drop the nulls of a merge patch, and so disagree with what a watch delivers.
 * Every method throws {@link ApiError}.
 */
export class KubeApi {
  readonly context: PinnedContext
  readonly #transport = new IsomorphicFetchHttpLibrary()
  readonly #turns = new PQueue({ concurrency: maxRequestsAtOnce })
  #serverOffsetMs = 0

  constructor(context: PinnedContext) {
    this.context = context
  }

  /** The API server's time in milliseconds: our clock, corrected by the `Date` header of its last answer (1 s resolution). */
  serverNow(): number {
    return Date.now() + this.#serverOffsetMs
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
    })
    const { metadata, items } = listBody.parse(body)
    return { items, resourceVersion: metadata.resourceVersion, continueToken: metadata.continue || undefined }
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
    const url = new URL(`${this.context.server.replace(/\/$/, '')}${path}`)
    for (const [key, value] of Object.entries(options.query ?? {})) {
      if (value !== undefined) url.searchParams.set(key, value)
    }
    const request = new RequestContext(url.toString(), method)
    request.setHeaderParam('Accept', 'application/json')
    if (options.body) {
      request.setBody(JSON.stringify(options.body))
      request.setHeaderParam('Content-Type', options.contentType ?? 'application/json')
    }
    const timeout = AbortSignal.timeout(requestTimeoutMs)
    request.setSignal(options.signal ? AbortSignal.any([options.signal, timeout]) : timeout)
    try {
      await this.context.config.applySecurityAuthentication(request)
      const response = await this.#transport.send(request).toPromise()
      this.#learnServerTime(response.headers['date'])
      const text = await response.body.text()
      if (response.httpStatusCode >= 200 && response.httpStatusCode < 300) return JSON.parse(text) as unknown
      throw ApiError.fromResponse(what, response.httpStatusCode, text, response.headers)
    } catch (error) {
      if (error instanceof ApiError) throw error
      throw new ApiError(`${what}: ${rootMessage(error)}`, { cause: error })
    }
  }

  #learnServerTime(date: string | undefined): void {
    const server = date === undefined ? Number.NaN : Date.parse(date)
    if (Number.isNaN(server)) return
    const offset = server - Date.now()
    // The header has whole seconds: a difference below that is noise.
    this.#serverOffsetMs = Math.abs(offset) < 1_500 ? 0 : offset
  }
}

interface RequestOptions {
  readonly query?: Readonly<Record<string, string | undefined>>
  readonly body?: object
  readonly contentType?: string
  readonly signal?: AbortSignal | undefined
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
