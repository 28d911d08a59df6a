import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { GatewayRoute, PublishedAccess, ServiceKey } from '../contract/gateway.ts'
import { Door, hostOf, isOfPage, type Asked } from './door.ts'
import type { Figures } from './figures.ts'
import { forward } from './forward.ts'
import { askedKey, earlierKeyOf, isDigest, keyHeaders, requireKey, type AskedKey } from './keys.ts'
import type { Listener } from './listeners.ts'
import { isAllowed, targetOf } from './paths.ts'
import { Refusal } from './refusal.ts'
import { forbiddenPath, serviceOf } from './routing.ts'
import { addressAndPort, inUrl } from '../contract/addresses.ts'

/** A service at the published address, as the agent described it last. */
interface Service {
  readonly route: GatewayRoute
  readonly address: string | undefined
  readonly access: PublishedAccess | undefined
  /** Undefined until an agent has told it. */
  readonly asked: AskedKey | undefined
}

/** An address at which requests for one service come. */
interface Entrance {
  readonly service: Service
  readonly port: number
  /** The runtime of the engine at this port. */
  readonly runtime: string
  /** The engine's own port; absent = the same. */
  readonly at?: number | undefined
  /** What the engine calls the model; absent = by the first name of the service. */
  readonly model?: string | undefined
  readonly engineKey?: string | undefined
}

/**
 * The published address: Pods and other machines reach each service that listens on this machine alone at the engine's port of it. A request
 * must name the service in its `Host`, show the API key where the service asks for one, and ask what the runtime's list of paths allows.
 */
export class PublishedDoor extends Door {
  protected readonly name = 'published'
  readonly #now: () => number
  #services: ReadonlyMap<string, Service> = new Map()
  #entrances: ReadonlyMap<string, Entrance> = new Map()

  /** `now`: on the monotonic clock. */
  constructor(log: (text: string) => void, figures?: Figures, now: () => number = () => performance.now()) {
    super(log, figures)
    this.#now = now
  }

  /** What an agent does not say of a service stays as it was. Without `isOpen` nobody gets in. Returns where there is to be listened. */
  told(routes: readonly GatewayRoute[], { isOpen = true } = {}): Listener[] {
    const services = routes.map((route) => {
      const key = `${route.namespace}/${route.name}`
      return [key, serviceNow(route, this.#services.get(key), this.#now())] as const
    })
    this.#services = new Map(services)
    const entrances = isOpen ? services.flatMap(([, service]) => entranceOf(service) ?? []) : []
    this.#entrances = new Map(entrances.map((one) => [keyOf(one.service.address, one.port), one]))
    return entrances.flatMap(({ service: { address: host }, port }) =>
      host === undefined ? [] : [{ host, port, onConnection: (socket: Socket) => this.connect(socket) }],
    )
  }

  /** These routes, with what an agent has not said of them again since. */
  completed(routes: readonly GatewayRoute[]): GatewayRoute[] {
    return routes.map((route) => {
      const service = this.#services.get(`${route.namespace}/${route.name}`)
      if (!route.published || !service) return route
      const { address, access } = service
      return {
        ...route,
        published: {
          ...route.published,
          ...(address !== undefined && { address }),
          ...(access && { access: { ...access, ...earlierKeyOf(service.asked, this.#now()) } }),
        },
      }
    })
  }

  /** The keys that services ask for. */
  get keys(): ServiceKey[] {
    return [...this.#services.values()].flatMap(({ asked, route: { namespace, name } }) => {
      if (!asked || !isDigest(asked.key)) return []
      return [{ namespace, name, sha256: asked.key, ...earlierKeyOf(asked, this.#now()) }]
    })
  }

  /** What a service (namespace/name) asks clients for, by whatever way they come; undefined while no agent has told it. */
  askedOf(service: string): AskedKey | undefined {
    return this.#services.get(service)?.asked
  }

  protected async serve(request: IncomingMessage, response: ServerResponse, asked: Asked): Promise<void> {
    const { localAddress, localPort } = request.socket
    const entrance = this.#entrances.get(keyOf(localAddress, localPort))
    const { access, route } = entrance?.service ?? {}
    if (!entrance || !access || !route) throw nothingHere
    if (entrance.model !== undefined && route.cut?.includes(entrance.model) === true) throw nothingHere
    requireOwnHost(request, entrance, access)
    if (isOfPage(request) || request.headers['sec-fetch-site'] !== undefined) throw noPages
    this.requireRoom(request)
    requireKey(request, entrance.service.asked, this.#now())
    const { method = '', url = '' } = request
    const target = targetOf(url)
    const exchange = this.begin(asked, route)
    if (!target || !isAllowed(entrance.runtime, method, target.path)) throw forbiddenPath(`${method} ${url}`)
    await forward({
      ...{ request, response, exchange, target, service: serviceOf(route), inFlight: this.inFlight },
      hidden: access.key === 'none' ? [] : keyHeaders,
      engine: {
        ...{ port: entrance.at ?? entrance.port, title: route.name, runtime: entrance.runtime },
        ...{ model: entrance.model ?? route.names[0], engineKey: entrance.engineKey },
      },
    })
  }
}

const keyOf = (address: string | undefined, port: number | undefined): string => `${address} ${port}`

function serviceNow(route: GatewayRoute, before: Service | undefined, now: number): Service {
  const { published } = route
  const access = published?.access ?? before?.access
  const asked = access && askedKey(access, before?.asked, now)
  return { route, access, address: published?.address ?? before?.address, asked }
}

function entranceOf(service: Service): Entrance | undefined {
  const { address, route } = service
  const engine = route.relay?.is === 'alone' ? undefined : route.published?.engine
  return address !== undefined && engine ? { service, ...engine } : undefined
}

/**
 * A page that has its own name lead to this machine sends that name with the port that it connects to. So a name that could be somebody's in
 * the DNS counts only with a port of the Service, by which Pods ask; `….svc` and `….svc.cluster.local` are nobody's.
 */
function requireOwnHost(
  request: IncomingMessage,
  { service, port }: Entrance,
  { servicePorts }: PublishedAccess,
): void {
  const { route, address } = service
  const host = hostOf(request)
  const name = route.name.replaceAll('.', '-')
  const [short, long] = [`${name}.${route.namespace}`, `${name}.${route.namespace}.svc`]
  const isOwn = (): boolean => {
    if (!host) return false
    const asked = host.name.replace(/\.$/, '')
    if (asked === (address && inUrl(address))) return host.port === port
    if (asked === long || asked === `${long}.cluster.local`) return true
    const isServicePort = servicePorts.includes(host.port)
    if (asked === name) return isServicePort
    return isServicePort && host.port !== port && (asked === short || asked.startsWith(`${long}.`))
  }
  if (isOwn()) return
  const message = `This server answers to ${addressAndPort(address ?? '', port)} and to its Service: ${name}:${servicePorts[0]}, ${short}:${servicePorts[0]} and ${long}. Have an Ingress send ${long} as the Host.`
  throw new Refusal('bad_host', 421, 'bad_host', message)
}

const nothingHere = new Refusal(
  ...(['no_backend', 503, 'not_serving'] as const),
  'No model is serving here at the moment: metal-agent status on that machine says why.',
)

const noPages = new Refusal(
  ...(['4xx', 403, 'foreign_page'] as const),
  "Web pages may not use this model: send requests from a program, such as the page's own server.",
)
