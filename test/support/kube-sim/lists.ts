import { isObject, parseJson, textOf, without, type JsonObject, type KubeObject } from './json.ts'
import { apiVersionOf, type Kind } from './kinds.ts'
import { parseFieldSelector, parseLabelSelector, type Selects } from './selectors.ts'
import { badRequest, gone, StatusError } from './status-error.ts'
import type { Store } from './store.ts'

export interface Scope {
  readonly kind: Kind
  /** Absent = all of them. */
  readonly namespace: string | undefined
  readonly selects: Selects
}

/** What a list or watch is about, from its address and query. Throws a 400 StatusError. */
export function scopeOf(kind: Kind, namespace: string | undefined, query: URLSearchParams): Scope {
  const labels = parseLabelSelector(query.get('labelSelector') ?? '')
  const fields = parseFieldSelector(query.get('fieldSelector') ?? '', kind)
  return { kind, namespace, selects: (object) => labels(object) && fields(object) }
}

interface Position {
  /** -1 = go on in the list as it is now. */
  readonly revision: number
  readonly after: string
}

/** One page of a list; all pages of one list show the same revision. Throws StatusError. */
export function listPage(store: Store, scope: Scope, query: URLSearchParams): JsonObject {
  const position = positionOf(query.get('continue'))
  const revision = revisionToRead(store, query, position)
  const isPast = revision < store.revision
  const all = isPast ? store.listAt(revision, scope.kind, scope.namespace) : store.list(scope.kind, scope.namespace)
  const remaining = all.filter((object) => scope.selects(object) && idOf(object) > (position?.after ?? ''))
  const limit = Number(query.get('limit') ?? 0)
  const page = limit > 0 ? remaining.slice(0, limit) : remaining
  const last = page.at(-1)
  const isCut = last !== undefined && page.length < remaining.length
  const isSelected = query.has('labelSelector') || query.has('fieldSelector')
  return {
    kind: `${scope.kind.kind}List`,
    apiVersion: apiVersionOf(scope.kind),
    metadata: {
      resourceVersion: String(revision),
      ...(isCut ? { continue: encode({ revision, after: idOf(last) }) } : {}),
      ...(isCut && !isSelected ? { remainingItemCount: remaining.length - page.length } : {}),
    },
    // Items of a built-in list say neither kind nor apiVersion.
    items: page.map((object) => (scope.kind.custom ? object : without(object, 'apiVersion', 'kind'))),
  }
}

/** The revision a read or watch names; undefined where it names none. Throws a StatusError. */
export function namedRevision(query: URLSearchParams): number | undefined {
  const text = query.get('resourceVersion') ?? ''
  if (text === '') return undefined
  if (!/^\d+$/.test(text)) {
    const value = JSON.stringify(text)
    throw badRequest(
      `invalid resource version: resourceVersion: Invalid value: ${value}: strconv.ParseUint: parsing ${value}: invalid syntax`,
    )
  }
  return Number(text)
}

function revisionToRead(store: Store, query: URLSearchParams, position: Position | undefined): number {
  const named = namedRevision(query)
  if (position) {
    if (named !== undefined && named !== 0) {
      throw badRequest('specifying resource version is not allowed when using continue')
    }
    if (position.revision < 0) return store.revision
    if (position.revision < store.compacted) throw expired(position)
    return position.revision
  }
  if (named === undefined || named === 0) return store.revision
  if (named > store.revision) {
    throw new StatusError(504, 'Timeout', `Timeout: Too large resource version: ${named}, current: ${store.revision}`, {
      headers: { 'retry-after': '1' },
      details: {
        causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
        retryAfterSeconds: 1,
      },
    })
  }
  if (query.get('resourceVersionMatch') !== 'Exact') return store.revision
  if (named < store.compacted) throw gone('The resourceVersion for the provided list is too old.')
  return named
}

const expired = ({ after }: Position): StatusError =>
  gone(
    'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.',
    encode({ revision: -1, after }),
  )

const idOf = ({ metadata }: KubeObject): string => `${metadata.namespace ?? ''}/${metadata.name}`

const encode = ({ revision, after }: Position): string =>
  Buffer.from(JSON.stringify({ v: 'meta.k8s.io/v1', rv: revision, start: after })).toString('base64url')

function positionOf(token: string | null): Position | undefined {
  if (!token) return undefined
  try {
    const value = parseJson(Buffer.from(token, 'base64url').toString())
    const start = textOf(value, 'start')
    const revision = isObject(value) ? value['rv'] : undefined
    if (start !== undefined && typeof revision === 'number') return { revision, after: start }
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause
  }
  throw badRequest('invalid continue token: continue key is not valid')
}
