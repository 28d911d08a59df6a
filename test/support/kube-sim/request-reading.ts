import type { IncomingMessage } from 'node:http'
import { text as readText } from 'node:stream/consumers'
import type { Attempt, User } from './access.ts'
import type { RequestFault, SeenRequest } from './faults.ts'
import { parseJson, type Json } from './json.ts'
import type { PatchType, Subresource, WriteOptions } from './operations.ts'
import type { Reply } from './replies.ts'
import type { Route } from './routes.ts'
import { badRequest, fieldUnsupported, invalid, StatusError } from './status-error.ts'
import { parseYaml } from './yaml.ts'

export function seenRequest(route: Route, url: URL, user: User): SeenRequest {
  const path = `${url.pathname}${url.search}`
  const common = { verb: route.verb, path, user: user.name }
  if (route.type !== 'resource')
    return { ...common, resource: route.type === 'unknown' ? route.resource : '', namespace: '', name: '' }
  const resource = route.subresource === '' ? route.kind.plural : `${route.kind.plural}/${route.subresource}`
  return { ...common, resource, namespace: route.namespace ?? '', name: route.name }
}

export function attemptOf(route: Exclude<Route, { type: 'other' }>): Attempt {
  if (route.type === 'unknown') return { ...route, namespace: '', name: '' }
  const { kind, subresource, namespace = '', name, verb } = route
  return {
    verb,
    group: kind.group,
    resource: subresource === '' ? kind.plural : `${kind.plural}/${subresource}`,
    namespace,
    name,
  }
}

export async function readBody(request: IncomingMessage): Promise<Json | undefined> {
  const content = await readText(request)
  if (content === '') return undefined
  try {
    return content.trimStart().startsWith('{') || !request.headers['content-type']?.includes('yaml')
      ? parseJson(content)
      : parseYaml(content)
  } catch (error) {
    throw badRequest(`the object provided cannot be read: ${error instanceof Error ? error.message : ''}`)
  }
}

export function writeOptions(request: IncomingMessage, url: URL, subresource: Subresource): WriteOptions {
  const query = url.searchParams
  const dryRun = query.get('dryRun') ?? ''
  if (dryRun !== '' && dryRun !== 'All') {
    const refused = fieldUnsupported('dryRun', JSON.stringify([dryRun]), ['All'])
    throw invalid({ group: 'meta.k8s.io', kind: 'WriteOptions' }, '', [refused])
  }
  const isApply = request.headers['content-type']?.startsWith('application/apply-patch') === true
  const agent = (request.headers['user-agent'] ?? '').split('/')[0] ?? ''
  const fallback = isApply ? '' : agent === '' ? 'unknown' : agent
  return {
    manager: query.get('fieldManager') ?? fallback,
    dryRun: dryRun === 'All',
    subresource,
  }
}

export function patchType(contentType: string): PatchType {
  const [type = ''] = contentType.split(';')
  switch (type.trim()) {
    case 'application/merge-patch+json':
      return 'merge'
    case 'application/apply-patch+yaml':
      return 'apply'
    default:
      throw new StatusError(
        415,
        'UnsupportedMediaType',
        'the body of the request was in an unknown format - accepted media types include: application/merge-patch+json, application/apply-patch+yaml',
      )
  }
}

export function statusFault({
  code,
  reason,
  message,
  retryAfterSeconds,
}: Extract<RequestFault, { kind: 'status' }>): StatusError {
  return new StatusError(code, reason ?? reasons[code] ?? 'Unknown', message ?? `kube-sim answers ${code} on demand`, {
    ...(retryAfterSeconds === undefined
      ? {}
      : { details: { retryAfterSeconds }, headers: { 'retry-after': String(retryAfterSeconds) } }),
  })
}

const reasons: Record<number, string> = {
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  409: 'Conflict',
  410: 'Expired',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
  504: 'Timeout',
}

export function failure(error: unknown): Reply {
  if (error instanceof StatusError) return { code: error.code, body: error.toBody(), headers: error.headers }
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
  const internal = new StatusError(500, 'InternalError', `Internal error occurred: ${message}`)
  return { code: 500, body: internal.toBody() }
}
