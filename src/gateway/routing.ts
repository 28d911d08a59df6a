import type { GatewayRoute } from '../contract/gateway.ts'
import { isPathOfEngines, type Target } from './paths.ts'
import { Refusal } from './refusal.ts'

/** What a path says by itself of where a request goes. */
export type Direction =
  | { readonly kind: 'service'; readonly route: GatewayRoute; readonly target: Target }
  /** The request's `model` decides. */
  | { readonly kind: 'model'; readonly target: Target }

/**
 * `/NAMESPACE/NAME/…` names a service, and the engine sees the rest; a path that engines have names none, whatever services are called.
 * Throws Refusal.
 */
export function directionOf(routes: readonly GatewayRoute[], target: Target): Direction {
  if (isPathOfEngines(target.path)) return { kind: 'model', target }
  const [, namespace = '', name = '', ...rest] = target.path.split('/')
  const path = `/${rest.join('/')}`
  if (rest.length === 0 || !isPathOfEngines(path)) throw forbiddenPath(target.path)
  const route = routes.find((one) => one.namespace === namespace && one.name === name)
  if (!route) throw notFound(`There is no service ${namespace}/${name} on this machine`, routes)
  // The escaped path loses the same two segments: an escaped slash was refused before, so they are the same ones.
  return { kind: 'service', route, target: { ...target, path, sent: `/${target.sent.split('/').slice(3).join('/')}` } }
}

/** The one service that a request means by its `model`. Throws Refusal. */
export function routeOf(routes: readonly GatewayRoute[], model: string | undefined): GatewayRoute {
  if (routes.length === 0) {
    throw new Refusal('no_backend', 503, 'no_backend', 'No model serves on this machine: metal-agent status says why.')
  }
  if (model === undefined || model === '') {
    const [only, another] = routes
    if (only && !another) return only
    throw new Refusal(
      '4xx',
      400,
      'model_missing',
      `The request names no model, or not in its first 256 kB, and several are here: put "model" first, or the service in the path, such as /${routes[0]?.namespace}/${routes[0]?.name}/v1/chat/completions. ${offered(routes)}`,
    )
  }
  for (const isMeant of waysToName) {
    const [found, another] = routes.filter((route) => isMeant(route, model))
    if (found && !another) return found
    if (another) {
      throw new Refusal(
        '4xx',
        400,
        'model_ambiguous',
        `Several services here answer to the model ${shown(model)}: say which by namespace/name. ${offered(routes)}`,
      )
    }
  }
  throw notFound(`No service here answers to the model ${shown(model)}`, routes)
}

/** The first way in which a model names a service decides. */
const waysToName: readonly ((route: GatewayRoute, model: string) => boolean)[] = [
  (route, model) => `${route.namespace}/${route.name}` === model,
  (route, model) => route.name === model,
  (route, model) => route.names.includes(model),
]

/** The shortest name by which a request reaches it. */
export const idOf = (route: GatewayRoute, routes: readonly GatewayRoute[]): string =>
  routes.filter(({ name }) => name === route.name).length === 1 ? route.name : `${route.namespace}/${route.name}`

export const forbiddenPath = (path: string): Refusal =>
  new Refusal(
    'path_forbidden',
    403,
    'path_forbidden',
    `${shown(path)} is not among what may be asked here: GET / lists what is, and POST /v1/chat/completions is the usual one.`,
  )

const notFound = (what: string, routes: readonly GatewayRoute[]): Refusal =>
  new Refusal('4xx', 404, 'model_not_found', `${what}. ${offered(routes)}`)

function offered(routes: readonly GatewayRoute[]): string {
  if (routes.length === 0) return 'No model serves at the moment.'
  const ids = routes.map((route) => idOf(route, routes))
  const more = ids.length > mostListed ? ` and ${ids.length - mostListed} more (GET /v1/models)` : ''
  return `Here are: ${ids.slice(0, mostListed).join(', ')}${more}.`
}

const mostListed = 20

/** What a client sent, in a sentence. */
const shown = (text: string): string => JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text)
