import type { GatewayRoute } from '../contract/gateway.ts'
import { isPathOfEngines, type Target } from './paths.ts'
import { Refusal } from './refusal.ts'

/** What a path says by itself of where a request goes. */
export type Direction =
  | { readonly kind: 'service'; readonly route: GatewayRoute; readonly target: Target }
  /** The request's `model` decides. */
  | { readonly kind: 'model'; readonly target: Target }

export const serviceOf = ({ namespace, name }: Pick<GatewayRoute, 'namespace' | 'name'>): string =>
  `${namespace}/${name}`

const unexplained = 'metal-agent status says why.'

export const whyNot = ({ message = unexplained }: GatewayRoute): string => message

export const notServing = (route: GatewayRoute, title = route.name): Refusal =>
  new Refusal('no_backend', 503, 'not_serving', `${title} is not serving at the moment: ${whyNot(route)}`, {
    retryAfterS: route.retryAfterS,
  })

export const isServing = ({ port }: GatewayRoute): boolean => port !== undefined

/**
 * The services that are known at a time, and by which names requests mean them. Each name, also an alias, belongs to the namespace of the first
 * service that has it: no other takes the requests for it, whether the first one serves or not.
 */
export class RouteTable {
  readonly all: readonly GatewayRoute[]
  readonly serving: readonly GatewayRoute[]
  readonly #byService: ReadonlyMap<string, GatewayRoute>
  readonly #byName: ReadonlyMap<string, readonly { readonly route: GatewayRoute }[]>

  constructor(routes: readonly GatewayRoute[]) {
    this.all = routes
    this.serving = routes.filter(isServing)
    this.#byService = new Map(routes.map((route) => [serviceOf(route), route]))
    const named = routes.flatMap((route) => [...new Set([route.name, ...route.names])].map((name) => ({ name, route })))
    this.#byName = Map.groupBy(named, ({ name }) => name)
  }

  /** The shortest name by which a request reaches it. */
  idOf(route: GatewayRoute): string {
    return onlyOne(this.#holders(route.name)) === route ? route.name : serviceOf(route)
  }

  /** Of one namespace, what serves comes before what waits, and the service of that name before one that has it for an alias. */
  #holders(name: string): readonly GatewayRoute[] {
    const all = (this.#byName.get(name) ?? []).map(({ route }) => route)
    const own = all.filter(({ namespace }) => namespace === all[0]?.namespace)
    const serving = own.filter(isServing)
    const holders = serving.length > 0 ? serving : own
    const named = holders.filter((route) => route.name === name)
    return named.length > 0 ? named : holders
  }

  /**
   * `/NAMESPACE/NAME/…` names a service, and the engine sees the rest; a path that engines have names none, whatever services are called.
   * Throws Refusal.
   */
  directionOf(target: Target): Direction {
    if (isPathOfEngines(target.path)) return { kind: 'model', target }
    const [, namespace = '', name = '', ...rest] = target.path.split('/')
    const path = `/${rest.join('/')}`
    if (rest.length === 0 || !isPathOfEngines(path)) throw forbiddenPath(target.path)
    const route = this.#byService.get(`${namespace}/${name}`)
    if (!route) throw this.#notFound(`There is no service ${namespace}/${name} on this machine`)
    // The escaped path loses the same two segments: an escaped slash was refused before, so they are the same ones.
    const sent = `/${target.sent.split('/').slice(3).join('/')}`
    return { kind: 'service', route, target: { ...target, path, sent } }
  }

  /** The one service that a request means by its `model`; without one, the only one that serves. Throws Refusal. */
  routeOf(model: string | undefined): GatewayRoute {
    if (this.all.length === 0) {
      throw new Refusal(
        'no_backend',
        503,
        'no_backend',
        'No model serves on this machine: metal-agent status says why.',
      )
    }
    if (model === undefined || model === '') return onlyOne(this.all) ?? this.#refuseWithoutModel()
    const exact = this.#byService.get(model)
    if (exact) return exact
    const named = this.#holders(model)
    if (named.length === 0) throw this.#notFound(`No service here answers to the model ${shown(model)}`)
    const route = onlyOne(named)
    if (route) return route
    const message = `Several services here answer to the model ${shown(model)}: name one as namespace/name. ${this.#offered()}`
    throw new Refusal('4xx', 400, 'model_ambiguous', message)
  }

  #refuseWithoutModel(): never {
    const [example] = [...this.serving, ...this.all]
    throw new Refusal(
      '4xx',
      400,
      'model_missing',
      `The request names no model, and several are here: give it a "model", or name the service in the path, such as /${example?.namespace}/${example?.name}/v1/chat/completions. ${this.#offered()}`,
    )
  }

  #notFound(what: string): Refusal {
    return new Refusal('4xx', 404, 'model_not_found', `${what}. ${this.#offered()}`)
  }

  #offered(): string {
    const { serving } = this
    if (serving.length === 0) return 'No model is serving at the moment: GET / says why.'
    const ids = serving.slice(0, mostListed).map((route) => this.idOf(route))
    const more = serving.length > mostListed ? ` and ${serving.length - mostListed} more (GET /v1/models)` : ''
    return `Available: ${ids.join(', ')}${more}.`
  }
}

/** What serves comes before what does not: a service that waits takes no name from one that answers. */
function onlyOne(routes: readonly GatewayRoute[]): GatewayRoute | undefined {
  const [serving, another] = routes.filter(isServing)
  if (serving) return another ? undefined : serving
  return routes.length === 1 ? routes[0] : undefined
}

export const forbiddenPath = (path: string): Refusal =>
  new Refusal(
    'path_forbidden',
    403,
    'path_forbidden',
    `${shown(path)} is not available here: GET / lists what is, and POST /v1/chat/completions is the usual one.`,
  )

const mostListed = 20

/** What a client sent, in a sentence. */
const shown = (text: string): string => JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text)
