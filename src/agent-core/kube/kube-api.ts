import { z } from 'zod'
import { answerTooLarge, ApiError, isApiError, listTooLong } from './api-error.ts'
import {
  fieldManager,
  KubeTransport,
  type OnAnswer,
  type RequestOptions,
  type StreamOptions,
} from './kube-transport.ts'
import type { AnswerKind } from './large-answer.ts'
import type { PinnedContext } from './pinned-context.ts'
import { apiVersionOf, type Resource } from './resources.ts'

/** So few that a page of ordinary objects is read here: one above 512 KiB takes a thread of its own, 0.3 s and 20 MiB at a start. */
const objectsPerPage = 250
/** A page whose answer is too large is asked for again with so many objects less, and after it pages grow again as they fit. */
const factor = 8

/** JSON is read in one go: so much of it, made to be slow, holds the event loop for a tenth of a second. */
const maxPageBytes = 1024 * 1024

/**
 * A list that takes more than one of these is given up: its server may be broken or hostile and never name the last page. They are several
 * times what the largest clusters have; a page without objects counts as one of them.
 */
export const listBounds = { objects: 20_000, bytes: 256 * 1024 * 1024, ms: 300_000 } as const

interface PageQuery {
  readonly limit: number
  readonly continueToken: string | undefined
  /** Absent where there is nothing smaller to ask for: then the bound of every answer counts. */
  readonly maxBytes?: number
}

interface Page {
  readonly items: readonly unknown[]
  /** Length of the answer. */
  readonly bytes: number
  readonly continueToken: string | undefined
}

/**
 * Every page of a list. What others put into their objects is not ours to trust, so that an answer is bounded in bytes as well: pages
 * shrink until each fits, or has one object. Throws ApiError where the whole exceeds {@link listBounds}.
 */
export async function* pagesOf<P extends Page>(
  list: (page: PageQuery) => Promise<P>,
  now: () => number = () => performance.now(),
): AsyncGenerator<P, void> {
  const startedAt = now()
  const taken = { objects: 0, bytes: 0 }
  let limit = objectsPerPage
  let continueToken: string | undefined
  for (;;) {
    const bound = limit > 1 && { maxBytes: maxPageBytes }
    const page = await list({ limit, continueToken, ...bound }).catch((error: unknown) => {
      if (!isApiError(error) || error.reason !== answerTooLarge || limit === 1) throw error
      return undefined
    })
    if (!page) {
      limit = Math.max(1, Math.floor(limit / factor))
      continue
    }
    taken.objects += Math.max(1, page.items.length)
    taken.bytes += page.bytes
    requireBounded({ ...taken, ms: now() - startedAt })
    yield page
    if (page.continueToken === undefined) return
    continueToken = page.continueToken
    limit = Math.min(objectsPerPage, limit * factor)
  }
}

function requireBounded({ objects, bytes, ms }: Readonly<Record<keyof typeof listBounds, number>>): void {
  if (objects > listBounds.objects) throw tooLong(`has more than ${listBounds.objects} objects, or no end`)
  if (bytes > listBounds.bytes) throw tooLong(`has more than ${listBounds.bytes / 1024 / 1024} MiB, or no end`)
  if (ms > listBounds.ms) throw tooLong(`did not end within ${listBounds.ms / 60_000} minutes`)
}

const tooLong = (how: string): ApiError => new ApiError(`the list ${how}`, { reason: listTooLong })

const listBody = z.object({
  metadata: z.object({ resourceVersion: z.string(), continue: z.string().optional() }),
  items: z.array(z.unknown()),
})

const groupList = z.object({ groups: z.array(z.object({ name: z.string() })) })

const serverVersion = z.object({ gitVersion: z.string().max(200) })

const openApi = z.object({ paths: z.record(z.string(), z.object({ serverRelativeURL: z.string().max(2_048) })) })

interface ListPage {
  readonly items: readonly unknown[]
  /** Length of the answer. */
  readonly bytes: number
  readonly resourceVersion: string
  readonly continueToken: string | undefined
}

interface ListQuery {
  readonly namespace?: string | undefined
  readonly labelSelector?: string | undefined
  readonly fieldSelector?: string | undefined
  readonly limit?: number
  readonly continueToken?: string | undefined
  /** Caps the answer where the usual limit is too generous. */
  readonly maxBytes?: number
}

interface WatchQuery {
  readonly namespace: string | undefined
  readonly labelSelector: string | undefined
  readonly resourceVersion: string
  /** The server ends the watch by itself after so long. */
  readonly timeoutSeconds: number
}

interface WatchEvent {
  readonly type: string
  readonly object: unknown
}

const watchEvent = z.object({ type: z.string(), object: z.unknown() })

interface Patch {
  readonly subresource?: 'status'
  readonly signal?: AbortSignal | undefined
}

const mergePatch = { contentType: 'application/merge-patch+json', query: { fieldManager } }
const forcedApply = { contentType: 'application/apply-patch+yaml', query: { fieldManager, force: 'true' } }

export interface Preconditions {
  readonly uid: string
  readonly resourceVersion?: string
}

/**
 * The handful of requests the agent makes, as raw JSON: typed clients turn timestamps into dates and drop the nulls of a
 * merge patch, and so disagree with what a watch delivers. Every method throws {@link ApiError}.
 */
export class KubeApi {
  readonly context: PinnedContext
  readonly #transport: KubeTransport

  constructor(context: PinnedContext, onAnswer?: OnAnswer) {
    this.context = context
    this.#transport = new KubeTransport(context, onAnswer)
  }

  /** See {@link KubeTransport.serverNow}. */
  serverNow(): number {
    return this.#transport.serverNow()
  }

  async list(resource: Resource, query: ListQuery, signal?: AbortSignal): Promise<ListPage> {
    let bytes = 0
    const body = await this.#transport.request('GET', pathOf(resource, query.namespace), {
      answer: { form: 'list', kind: resource.kind },
      onRead: (length) => (bytes = length),
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
    return { items, bytes, resourceVersion: metadata.resourceVersion, continueToken: metadata.continue || undefined }
  }

  /** All of a list, in pages that are bounded each and together, see `listBounds`. Throws ApiError. */
  pages(
    resource: Resource,
    query: Omit<ListQuery, 'limit' | 'continueToken' | 'maxBytes'>,
    signal?: AbortSignal,
  ): AsyncGenerator<ListPage, void> {
    return pagesOf((page) => this.list(resource, { ...query, ...page }, signal))
  }

  /** Ends when the server ends the watch; throws ApiError where the connection was lost. */
  watch(resource: Resource, query: WatchQuery, options: StreamOptions): AsyncGenerator<WatchEvent, void> {
    const { namespace, labelSelector, resourceVersion, timeoutSeconds } = query
    const asked = {
      ...{ watch: 'true', allowWatchBookmarks: 'true', resourceVersion, labelSelector },
      timeoutSeconds: timeoutSeconds.toString(),
    }
    const parse = (line: unknown): WatchEvent => watchEvent.parse(line)
    return this.#transport.stream(pathOf(resource, namespace), {
      ...options,
      what: 'watch',
      answer: { form: 'event', kind: resource.kind },
      query: asked,
      parse,
    })
  }

  /** Names of the API groups the server has, such as `discovery.k8s.io`. */
  async groups(signal?: AbortSignal): Promise<string[]> {
    const answer = { form: 'object', kind: 'APIGroupList' } as const
    const { groups } = groupList.parse(await this.#transport.request('GET', '/apis', { answer, signal }))
    return groups.map(({ name }) => name)
  }

  /** What the server says of one API group. */
  async group(name: string, signal?: AbortSignal): Promise<unknown> {
    const answer = { form: 'object', kind: 'APIGroup' } as const
    return this.#transport.request('GET', `/apis/${encodeURIComponent(name)}`, { answer, signal })
  }

  /** The version of the API server, such as `v1.36.3`. */
  async version(signal?: AbortSignal): Promise<string> {
    const answer = { form: 'object', kind: 'Info' } as const
    return serverVersion.parse(await this.#transport.request('GET', '/version', { answer, signal })).gitVersion
  }

  /** Says another text once the schema of any kind in `group`/`version` is another one; undefined where the server has no such group. */
  async schemaOf({ group, version }: Resource, signal?: AbortSignal): Promise<string | undefined> {
    const answer = { form: 'object', kind: 'OpenAPI' } as const
    const root = await this.#transport.request('GET', '/openapi/v3', { answer, signal })
    return openApi.parse(root).paths[`apis/${group}/${version}`]?.serverRelativeURL
  }

  /** The OpenAPI document at an address that {@link schemaOf} gave. */
  async schemaAt(address: string, signal?: AbortSignal): Promise<unknown> {
    const answer = { form: 'object', kind: 'OpenAPI' } as const
    const { pathname, searchParams } = new URL(address, 'http://api')
    const query = Object.fromEntries(searchParams)
    return this.#transport.request('GET', pathname, { answer, query, signal })
  }

  /** A quorum read: what the server holds now, not what a cache remembers. */
  async get(resource: Resource, namespace: string | undefined, name: string, signal?: AbortSignal): Promise<unknown> {
    return this.#transport.request('GET', pathOf(resource, namespace, name), {
      answer: objectOf(resource),
      signal,
    })
  }

  async create(
    resource: Resource,
    namespace: string,
    body: object,
    options: { dryRun?: boolean; signal?: AbortSignal } = {},
  ): Promise<unknown> {
    return this.#transport.request('POST', pathOf(resource, namespace), {
      answer: objectOf(resource),
      body: withType(resource, body),
      query: { dryRun: options.dryRun === true ? 'All' : undefined, fieldManager },
      signal: options.signal,
    })
  }

  /** JSON merge patch: null removes, lists are replaced whole. Preconditions travel in `metadata`. */
  async mergePatch(resource: Resource, namespace: string, name: string, body: object, how?: Patch): Promise<unknown> {
    return this.#patch(pathOf(resource, namespace, name), { ...mergePatch, answer: objectOf(resource), body }, how)
  }

  /** Server-side apply, by force: what is there no longer says what others wrote into the same fields. A uid in `metadata` is a precondition. */
  async apply(resource: Resource, namespace: string, name: string, given: object, how?: Patch): Promise<unknown> {
    const body = withType(resource, given)
    return this.#patch(pathOf(resource, namespace, name), { ...forcedApply, answer: objectOf(resource), body }, how)
  }

  #patch(path: string, options: RequestOptions, { subresource, signal }: Patch = {}): Promise<unknown> {
    const whole = subresource === undefined ? path : `${path}/${subresource}`
    return this.#transport.request('PATCH', whole, { ...options, signal })
  }

  async delete(
    resource: Resource,
    namespace: string,
    name: string,
    preconditions: Preconditions,
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#transport.request('DELETE', pathOf(resource, namespace, name), {
      answer: objectOf(resource),
      body: { apiVersion: 'v1', kind: 'DeleteOptions', preconditions },
      signal,
    })
  }
}

/** `/api/v1/namespaces/NS/services/NAME` and its relatives; no namespace = all of them. */
function pathOf(resource: Resource, namespace?: string, name?: string): string {
  const root = resource.group === '' ? '/api/v1' : `/apis/${apiVersionOf(resource)}`
  const scope = namespace ? `/namespaces/${encodeURIComponent(namespace)}` : ''
  return `${root}${scope}/${resource.plural}${name === undefined ? '' : `/${encodeURIComponent(name)}`}`
}

const objectOf = ({ kind }: Resource): AnswerKind => ({ form: 'object', kind })

const withType = (resource: Resource, body: object): object => ({
  apiVersion: apiVersionOf(resource),
  kind: resource.kind,
  ...body,
})
