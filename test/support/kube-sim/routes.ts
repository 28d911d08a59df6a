import type { Kind } from './kinds.ts'
import type { Operations, Subresource } from './operations.ts'

/** What a request is about. */
export type Route =
  | {
      readonly type: 'resource'
      readonly kind: Kind
      /** Absent where the address names none: all namespaces, or the cluster scope. */
      readonly namespace: string | undefined
      readonly name: string
      readonly subresource: Subresource
      readonly verb: string
    }
  | { readonly type: 'other'; readonly path: string; readonly verb: string }
  | { readonly type: 'unknown'; readonly group: string; readonly resource: string; readonly verb: string }

const apiPath =
  /^\/(?:api|apis\/(?<group>[^/]+))\/(?<version>[^/]+)(?:\/namespaces\/(?<namespace>[^/]+)(?=\/[^/]))?\/(?<plural>[^/]+)(?:\/(?<name>[^/]+)(?:\/(?<subresource>[^/]+))?)?$/

/** Finds the resource of a request among those that are served now. */
export function routeOf(method: string, url: URL, operations: Operations): Route {
  const match = apiPath.exec(url.pathname)
  const isNamespaceStatus = /^\/api\/v1\/namespaces\/[^/]+\/(status|finalize)$/.test(url.pathname)
  const groups = isNamespaceStatus ? namespaceParts(url.pathname) : match?.groups
  if (!groups) return { type: 'other', path: url.pathname, verb: method.toLowerCase() }
  const { group = '', version = '', plural = '', namespace, name = '', subresource = '' } = groups
  const verb = verbOf(method, name !== '', url.searchParams)
  const kind = operations.findKind({ group, version, plural })
  const isReview = plural === 'selfsubjectaccessreviews'
  if (isReview) return { type: 'other', path: url.pathname, verb }
  if (!kind || !isServed(kind, subresource)) {
    return { type: 'unknown', group, resource: subresource === '' ? plural : `${plural}/${subresource}`, verb }
  }
  return {
    type: 'resource',
    kind,
    namespace: namespace === undefined ? undefined : decodeURIComponent(namespace),
    name: decodeURIComponent(name),
    subresource,
    verb,
  }
}

function namespaceParts(path: string): Record<string, string> {
  const [, , version = '', plural = '', name = '', subresource = ''] = path.split('/')
  return { version, plural, name, subresource }
}

const isServed = (kind: Kind, subresource: string): subresource is Subresource =>
  subresource === '' || (subresource === 'status' && kind.hasStatus)

function verbOf(method: string, isNamed: boolean, query: URLSearchParams): string {
  switch (method) {
    case 'GET':
    case 'HEAD':
      if (query.get('watch') === 'true' || query.get('watch') === '1') return 'watch'
      return isNamed ? 'get' : 'list'
    case 'POST':
      return 'create'
    case 'PUT':
      return 'update'
    case 'DELETE':
      return isNamed ? 'delete' : 'deletecollection'
    default:
      return method.toLowerCase()
  }
}
