import { childOf, textOf, type Json, type JsonObject } from './json.ts'
import { StatusError, unauthorized } from './status-error.ts'

/** As in a ClusterRole; `*` is every one. A subresource is written `inferenceservices/status`. */
export interface Rule {
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  readonly verbs: readonly string[]
  readonly resourceNames?: readonly string[]
  /** As if bound by RoleBindings in these; absent = by a ClusterRoleBinding. */
  readonly namespaces?: readonly string[]
}

export interface User {
  readonly name: string
  readonly token: string
  readonly rules: readonly Rule[]
}

export const everything: readonly Rule[] = [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }]

/** What a request wants to do; the resource includes its subresource. */
export interface Attempt {
  readonly verb: string
  readonly group: string
  readonly resource: string
  /** Empty at the cluster scope. */
  readonly namespace: string
  readonly name: string
}

/** The user that sends the request. Without a token the anonymous user; throws a 401 StatusError for an unknown token. */
export function authenticate(authorization: string | undefined, users: readonly User[]): User {
  const token = /^Bearer (.+)$/.exec(authorization ?? '')?.[1]
  if (token === undefined) return { name: 'system:anonymous', token: '', rules: [] }
  const user = users.find((candidate) => candidate.token === token)
  if (!user) throw unauthorized()
  return user
}

export function isAllowed(user: User, attempt: Attempt): boolean {
  const has = (list: readonly string[], value: string) => list.includes('*') || list.includes(value)
  return user.rules.some(
    (rule) =>
      has(rule.verbs, attempt.verb) &&
      has(rule.apiGroups, attempt.group) &&
      has(rule.resources, attempt.resource) &&
      (rule.resourceNames === undefined || rule.resourceNames.includes(attempt.name)) &&
      (rule.namespaces === undefined || has(rule.namespaces, attempt.namespace)),
  )
}

/** Throws a 403 StatusError in the words of the real server. */
export function authorize(user: User, attempt: Attempt): void {
  if (isAllowed(user, attempt)) return
  const { verb, group, resource, namespace, name } = attempt
  const [plural = ''] = resource.split('/')
  const where = namespace === '' ? 'at the cluster scope' : `in the namespace "${namespace}"`
  const what = `${group === '' ? plural : `${plural}.${group}`}${name === '' ? '' : ` "${name}"`}`
  throw new StatusError(
    403,
    'Forbidden',
    `${what} is forbidden: User "${user.name}" cannot ${verb} resource "${resource}" in API group "${group}" ${where}`,
    { details: { ...(name === '' ? {} : { name }), ...(group === '' ? {} : { group }), kind: plural } },
  )
}

/** Answers a SelfSubjectAccessReview about the rules of `user`. */
export function reviewAccess(user: User, body: Json): JsonObject {
  const spec = childOf(body, 'spec')
  const asked = childOf(spec, 'resourceAttributes')
  const text = (key: string) => textOf(asked, key) ?? ''
  const subresource = text('subresource')
  const allowed = isAllowed(user, {
    verb: text('verb'),
    group: text('group'),
    resource: subresource === '' ? text('resource') : `${text('resource')}/${subresource}`,
    namespace: text('namespace'),
    name: text('name'),
  })
  return {
    kind: 'SelfSubjectAccessReview',
    apiVersion: 'authorization.k8s.io/v1',
    metadata: {},
    spec,
    status: { allowed, ...(allowed ? { reason: 'RBAC: allowed by kube-sim' } : {}) },
  }
}
