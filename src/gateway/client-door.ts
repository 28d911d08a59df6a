import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import {
  requestReasons,
  type CodeClass,
  type GatewayCounts,
  type GatewayRoute,
  type ProxyOutcome,
  type RequestReason,
} from '../contract/gateway.ts'
import { Figures, type Exchange } from './figures.ts'
import { bodyTooLarge, connectionsToEngines, forward, isWhole, maxBodyBytes } from './forward.ts'
import { ModelField } from './model-field.ts'
import { isAllowed, modelInPath, targetOf, type Target } from './paths.ts'
import { refuse, Refusal } from './refusal.ts'
import { forbiddenPath, isServing, RouteTable, serviceOf } from './routing.ts'

const headersMs = 10_000
/** How soon after its time a connection without headers is ended. */
const lookEveryMs = 2_000
const idleMs = 120_000
const maxHeaderBytes = 32 * 1_024
/** Where there are more, one that has no request yet makes room: who only holds connections keeps nobody out. */
const maxConnections = 1_024
/** Each takes a connection to an engine, which works at a few of them at a time. */
const maxInFlight = 1_024

/** The log is not to grow with the requests. */
const maxDefectsLogged = 100

/**
 * The client proxy: one address on 127.0.0.1 for every model that serves on this machine. It goes to whoever the request names, and passes on
 * what the runtime's list of paths allows. It takes connections that come at the address, and does not listen itself.
 */
export class ClientDoor {
  readonly #outcomes = new Map<ProxyOutcome, number>()
  readonly #log: (text: string) => void
  readonly #engines = connectionsToEngines()
  readonly #http: Server
  readonly #connections = new Set<Socket>()
  /** Without a request, those that wait longest first. */
  readonly #waiting = new Set<Socket>()
  readonly #empty = Promise.withResolvers<undefined>()
  #table = new RouteTable([])
  #isClosing = false
  readonly #figures = new Figures()
  #inFlight = 0
  #defects = 0

  constructor(log: (text: string) => void) {
    this.#log = log
    this.#http = createServer(
      {
        ...{ headersTimeout: headersMs, connectionsCheckingInterval: lookEveryMs, keepAliveTimeout: idleMs },
        // A missing or doubled Host is for us to refuse, in the shape of all refusals.
        ...{ maxHeaderSize: maxHeaderBytes, requireHostHeader: false },
      },
      (request, response) => void this.#answer(request, response),
    )
    // Node looks for slow connections from this event on, which a server has no other reason for that is given its connections.
    this.#http.emit('listening')
  }

  set routes(routes: readonly GatewayRoute[]) {
    this.#table = new RouteTable(routes)
  }

  get counts(): GatewayCounts {
    return { requests: Object.fromEntries(this.#outcomes), services: this.#figures.counts() }
  }

  /** Takes a connection, unless too many have come that ask nothing. */
  connect(socket: Socket): void {
    this.#connections.add(socket)
    this.#waiting.add(socket)
    socket.once('close', () => {
      this.#connections.delete(socket)
      this.#waiting.delete(socket)
      if (this.#isClosing && this.#connections.size === 0) this.#closed()
    })
    this.#http.emit('connection', socket)
    if (this.#waiting.size <= maxConnections) return
    for (const oldest of this.#waiting) {
      oldest.destroy()
      return
    }
  }

  /** Ends connections without a request; resolves when requests in flight have ended. */
  async close(): Promise<void> {
    this.#isClosing = true
    for (const socket of this.#waiting) socket.destroy()
    if (this.#connections.size === 0) this.#closed()
    await this.#empty.promise
  }

  #closed(): void {
    // Ends its look for slow connections.
    this.#http.close(() => undefined)
    this.#empty.resolve(undefined)
  }

  /** Never rejects. */
  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket } = request
    this.#waiting.delete(socket)
    response.once('close', () => {
      if (socket.destroyed) return
      // A door that is closed waits for no further request.
      if (this.#isClosing) socket.end()
      else this.#waiting.add(socket)
    })
    const asked: Asked = { at: performance.now() }
    let refusal: Refusal | undefined
    this.#inFlight += 1
    try {
      await this.#serve(request, response, asked)
    } catch (error) {
      refusal = error instanceof Refusal ? error : this.#defect(error)
      refuse(response, refusal)
    }
    this.#inFlight -= 1
    const outcome = refusal?.outcome ?? codeOf(response) ?? 'other'
    this.#outcomes.set(outcome, (this.#outcomes.get(outcome) ?? 0) + 1)
    const reason = refusal ? reasonOf(refusal) : response.writableEnded ? 'answered' : 'client_left'
    asked.exchange?.ended(codeOf(response) ?? 'none', reason)
  }

  #defect(error: unknown): Refusal {
    this.#defects += 1
    if (this.#defects <= maxDefectsLogged)
      this.#log(`A request failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
    return new Refusal('5xx', 500, 'gateway_failed', 'The client proxy failed to answer; gateway.log says why.')
  }

  async #serve(request: IncomingMessage, response: ServerResponse, asked: Asked): Promise<void> {
    requireOwnHost(request)
    requireNoForeignPage(request)
    if (this.#inFlight > maxInFlight) throw tooMany
    const { method = '', url = '' } = request
    const target = targetOf(url)
    if (!target) throw forbiddenPath(url)
    const table = this.#table
    const own = method === 'GET' ? ownAnswer(table, target, request.headers.accept) : undefined
    if (own) {
      response.writeHead(200, own.headers).end(own.body)
      return
    }
    const direction = table.directionOf(target)
    if (Number(request.headers['content-length'] ?? 0) > maxBodyBytes) throw bodyTooLarge()
    const { read, model } = direction.kind === 'service' ? { read: [], model: undefined } : await readModel(request)
    const route = direction.kind === 'service' ? direction.route : table.routeOf(model)
    const exchange = this.#figures.begin(route, direction.target.path, asked.at)
    asked.exchange = exchange
    if (!isAllowed(route.runtime, method, direction.target.path)) throw forbiddenPath(`${method} ${target.path}`)
    const title = table.idOf(route)
    if (route.port === undefined) {
      throw notServing(title, route)
    }
    const path = `${direction.target.sent}${direction.target.query}`
    const engine = { port: route.port, title }
    await forward({ request, response, read, engine, path, connections: this.#engines, exchange })
  }
}

const tooMany = new Refusal(
  ...(['5xx', 503, 'too_many_requests'] as const),
  `More than ${maxInFlight} requests are in flight: ask again when some of them have been answered.`,
)

const unexplained = 'metal-agent status says why.'

const notServing = (title: string, { message = unexplained }: GatewayRoute): Refusal =>
  new Refusal('no_backend', 503, 'not_serving', `${title} does not serve at the moment: ${message}`)

/** What can be said without an engine. */
function ownAnswer(
  table: RouteTable,
  { path }: Target,
  accept = '',
): { headers: Record<string, string>; body: string } | undefined {
  const modelOf = (route: GatewayRoute) => ({
    ...{ id: table.idOf(route), object: 'model', created: startedAt, owned_by: 'metalbar' },
  })
  if (path === '/v1/models') return json({ object: 'list', data: table.serving.map(modelOf) })
  const id = modelInPath(path)
  if (id !== undefined) {
    const route = table.routeOf(id)
    if (!isServing(route)) throw notServing(table.idOf(route), route)
    return json(modelOf(route))
  }
  if (path !== '/') return undefined
  if (accept.includes('text/html')) return { headers: pageHeaders, body: page(table) }
  const services = table.all.map((route) => ({
    id: table.idOf(route),
    service: serviceOf(route),
    path: pathOf(route),
    serves: isServing(route),
    ...(!isServing(route) && { message: route.message ?? unexplained }),
  }))
  return json({ what: `${about} ${howToAsk}`, models: '/v1/models', services })
}

const startedAt = Math.floor(Date.now() / 1_000)

const about = 'The client proxy of Metalbar: every model that serves on this machine, for its own programs.'
const howToAsk =
  'Send OpenAI requests to /v1 and name the model, or put a service before the path as /NAMESPACE/NAME/v1/chat/completions.'

const json = (value: unknown) => ({
  headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
  body: `${JSON.stringify(value)}\n`,
})

const pageHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
}

function page(table: RouteTable): string {
  const items = table.all.map((route) => {
    const state = isServing(route) ? 'serves' : (route.message ?? unexplained)
    return `<li><b>${escaped(table.idOf(route))}</b>: ${escaped(state)} (<code>${escaped(pathOf(route))}</code>)</li>`
  })
  const list = items.length === 0 ? '<p>No model serves at the moment.</p>' : `<ul>${items.join('')}</ul>`
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>Metalbar</title><h1>Metalbar</h1><p>${about}</p><p>${howToAsk}</p>${list}</html>\n`
}

const pathOf = (route: GatewayRoute): string => `/${serviceOf(route)}/v1`

const escaped = (text: string): string => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`)

/** As `Host` names this very door; a name of a stranger's DNS that points here is none of ours. */
function requireOwnHost({ rawHeaders, headers, socket: { localPort: port } }: IncomingMessage): void {
  const hosts = rawHeaders.filter((text, index) => index % 2 === 0 && text.toLowerCase() === 'host')
  const own = /^(?:127\.0\.0\.1|localhost|\[::1\])(?::(\d+))?$/i.exec(headers.host ?? '')
  if (own && hosts.length === 1 && (own[1] ?? '80') === String(port)) return
  const message = `This server answers to 127.0.0.1:${port}, localhost:${port} and [::1]:${port} only.`
  throw new Refusal('bad_host', 421, 'bad_host', message)
}

/** A page that a person visits could otherwise have models work for it, and llama-server lets every page read the answer. */
function requireNoForeignPage({ headers: { origin, 'sec-fetch-site': site } }: IncomingMessage): void {
  const isOfPage = origin === undefined ? site === 'cross-site' : origin === 'null' || /^https?:/i.test(origin)
  const isOfThisMachine = /^https?:\/\/(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?$/i.test(origin ?? '')
  if (!isOfPage || isOfThisMachine) return
  throw new Refusal('4xx', 403, 'foreign_page', 'Pages of other machines may not use the models of this one.')
}

/** What came of the body while the model was looked for. */
async function readModel(request: IncomingMessage): Promise<{ read: Buffer[]; model: string | undefined }> {
  const field = new ModelField()
  const read: Buffer[] = []
  while (!request.destroyed) {
    const piece = request.read() as Buffer | null
    if (piece !== null) {
      read.push(piece)
      field.push(piece)
    } else if (isWhole(request) || field.isOver) break
    else await somethingOf(request)
  }
  return { read, model: field.model }
}

function somethingOf(request: IncomingMessage): Promise<void> {
  const events = ['readable', 'end', 'close'] as const
  return new Promise((resolve) => {
    const done = (): void => {
      for (const event of events) request.off(event, done)
      resolve()
    }
    for (const event of events) request.once(event, done)
  })
}

/** Undefined before its head was sent. */
function codeOf({ headersSent, statusCode }: ServerResponse): Exclude<CodeClass, 'none'> | undefined {
  const codes = { 2: '2xx', 3: '3xx', 4: '4xx', 5: '5xx' } as const
  const digit = Math.floor(statusCode / 100)
  return headersSent && digit in codes ? codes[digit as keyof typeof codes] : undefined
}

const reasonOf = ({ code }: Refusal): RequestReason => requestReasons.find((reason) => reason === code) ?? 'refused'

/** One request, as far as it is understood. */
interface Asked {
  readonly at: number
  exchange?: Exchange
}
