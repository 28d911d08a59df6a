import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { SecureContext } from 'node:tls'
import { ingressHost, type GatewayRoute, type RelayIngressTold, type RelayToken } from '../contract/gateway.ts'
import { Door, type Asked } from './door.ts'
import type { Figures } from './figures.ts'
import { answerNoFigures, forward } from './forward.ts'
import { askedKey, earlierKeyOf, isShown, keyHeaders, requireKey, type AskedKey } from './keys.ts'
import type { Listener } from './listeners.ts'
import { isAllowed, isKnownRuntime, targetOf } from './paths.ts'
import { refuse, Refusal } from './refusal.ts'
import { forbiddenPath, notServing, serviceOf } from './routing.ts'

/** As namespace/name. */
const targetHeader = 'x-llmkube-target'
const tokenHeader = 'x-llmkube-relay-token'
const relayHeaders = [targetHeader, tokenHeader]
const readyPath = '/_llmkube/ready'

export interface RelayDoorOptions {
  readonly log: (text: string) => void
  readonly figures?: Figures
  /** The API key that a service asks clients for, who come through the relay; undefined while it is not known. */
  readonly keyOf: (service: string) => AskedKey | undefined
  /** Whether an agent was heard lately: it would know of a token that was taken away. */
  readonly isAgentThere: () => boolean
  /** On the monotonic clock; for tests. */
  readonly now?: () => number
}

/**
 * The ingress for relays, the Pods by which LLMKube 0.10 has clients reach a Mac: TLS with a key that they know, a token for each namespace, and
 * the runtime's list of paths. Of HTTP it speaks 1.1, which every relay does.
 */
export class RelayDoor extends Door {
  /** Their requests are shown as those of others from the network are. */
  protected readonly name = 'published'
  readonly #options: RelayDoorOptions
  #told: Omit<RelayIngressTold, 'tokens'> | undefined
  #context: SecureContext | undefined
  /** Those that relays reach, by namespace/name. */
  #services: ReadonlyMap<string, GatewayRoute> = new Map()
  /** By namespace, of those that have such a service. */
  #tokens: ReadonlyMap<string, AskedKey> = new Map()

  constructor(options: RelayDoorOptions) {
    super(options.log, options.figures)
    this.#options = options
  }

  /** Without `ingress`, that is as it was told last. Returns where there is to be listened. */
  told(routes: readonly GatewayRoute[], ingress?: RelayIngressTold): Listener[] {
    if (ingress) this.#identify(ingress)
    const relayed = routes.filter(({ relay }) => relay)
    this.#services = new Map(relayed.map((route) => [serviceOf(route), route]))
    const now = this.#now()
    const news = new Map(ingress?.tokens.map((one) => [one.namespace, one]))
    const namespaces = [...new Set(relayed.map(({ namespace }) => namespace))]
    this.#tokens = new Map(
      namespaces.flatMap((namespace) => {
        const token = tokenNow(news.get(namespace), this.#tokens.get(namespace), now)
        return token ? [[namespace, token] as const] : []
      }),
    )
    if (!this.#told || !this.#context || relayed.length === 0) return []
    const { host = ingressHost, port } = this.#told
    return [{ host, port, onConnection: (socket) => this.#accept(socket) }]
  }

  /** For the gateway that takes this one's place; undefined where nothing was told. */
  get estate(): RelayIngressTold | undefined {
    const tokens = [...this.#tokens].map(([namespace, asked]) => ({
      ...{ namespace, token: asked.key },
      ...earlierKeyOf(asked, this.#now()),
    }))
    return this.#told && { ...this.#told, tokens }
  }

  /** Those of an agent that is gone: nobody said meanwhile which of them count no longer. */
  forgetTokens(): void {
    this.#tokens = new Map()
  }

  #now(): number {
    return (this.#options.now ?? (() => performance.now()))()
  }

  #identify({ host, port, certificate, key }: RelayIngressTold): void {
    const isSame = this.#told?.certificate === certificate && this.#told.key === key
    this.#told = { ...(host && { host }), port, certificate, key }
    if (isSame && this.#context) return
    try {
      // Loaded when there is a relay: most gateways need none, and it takes memory.
      const { createSecureContext } = process.getBuiltinModule('node:tls')
      this.#context = createSecureContext({ cert: certificate, key, minVersion: 'TLSv1.3' })
    } catch (error) {
      this.#options.log(`The identity of the relay ingress cannot be used: ${String(error)}`)
    }
  }

  /** The handshake counts to the time for headers, and an unfinished one among connections without a request. */
  #accept(raw: Socket): void {
    if (!this.#context) {
      raw.destroy()
      return
    }
    const { TLSSocket } = process.getBuiltinModule('node:tls')
    const options = { isServer: true, secureContext: this.#context, requestCert: false, ALPNProtocols: ['http/1.1'] }
    this.connect(new TLSSocket(raw, options))
  }

  protected override refuse(response: ServerResponse, refusal: Refusal): void {
    refuse(response, refusal, ({ message }) => ({ error: message }))
  }

  protected async serve(request: IncomingMessage, response: ServerResponse, asked: Asked): Promise<void> {
    const { namespace, service } = targetIn(request)
    this.#requireToken(request, namespace)
    const route = this.#services.get(service)
    if (!route) throw notHere
    const { method = '', url = '' } = request
    const target = targetOf(url)
    const isServing = route.port !== undefined && route.relay?.isHealthy === true
    if (method === 'GET' && target?.path === readyPath) {
      if (!isServing) throw notServing(route)
      const body = '{"status":"ready"}\n'
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body)
      return
    }
    const key = this.#options.keyOf(service)
    const { port, host, runtime, names, engineKey } = route
    if (!isServing || port === undefined || !key) throw notServing(route)
    this.requireRoom(request)
    requireKey(request, key, this.#now())
    const isScrape = method === 'GET' && target?.path === '/metrics'
    if (isScrape && isKnownRuntime(runtime) && !isAllowed(runtime, method, '/metrics')) {
      answerNoFigures(response)
      return
    }
    const exchange = this.begin(asked, route)
    if (!target || !isAllowed(runtime, method, target.path)) throw forbiddenPath(`${method} ${url}`)
    await forward({
      ...{ request, response, exchange, target, service, inFlight: this.inFlight, isScrape },
      hidden: [...relayHeaders, ...(key.key === 'none' ? [] : keyHeaders)],
      engine: { host, port, title: route.name, runtime, model: names[0], engineKey },
    })
  }

  /** The same answer, by the same way, whether it is the namespace that is not here or the token that is wrong. */
  #requireToken({ headers }: IncomingMessage, namespace: string): void {
    const [shown = ''] = [headers[tokenHeader]].flat()
    const token = this.#options.isAgentThere() ? this.#tokens.get(namespace) : undefined
    if (!isShown(shown, token, this.#now())) throw notLetIn
  }
}

/** Throws Refusal. */
function targetIn({ headers }: IncomingMessage): { readonly namespace: string; readonly service: string } {
  const [service = ''] = [headers[targetHeader]].flat()
  const [, namespace] = /^([^/]+)\/[^/]+$/.exec(service) ?? []
  if (namespace === undefined) throw noTarget
  return { namespace, service }
}

function tokenNow(told: RelayToken | undefined, before: AskedKey | undefined, now: number): AskedKey | undefined {
  if (told?.token === undefined) return before
  return askedKey({ key: told.token, earlierKey: told.earlierKey }, before, now)
}

const noTarget = new Refusal(
  ...(['4xx', 400, 'target_missing'] as const),
  `Requests come here through a relay of LLMKube, which says in ${targetHeader} which service they are for, as namespace/name.`,
)

const notLetIn = new Refusal(
  ...(['4xx', 401, 'relay_refused'] as const),
  'The token of this relay is not valid for the service that it asks for.',
)

const notHere = new Refusal(
  ...(['4xx', 404, 'service_not_found'] as const),
  'This service is not on this machine, or is not published for relays here.',
)
