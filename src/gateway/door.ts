import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import {
  ingressCodes,
  requestReasons,
  type CodeClass,
  type DoorName,
  type GatewayCounts,
  type GatewayRoute,
  type IngressCode,
  type ProxyOutcome,
  type RequestReason,
} from '../contract/gateway.ts'
import { Figures, type Exchange } from './figures.ts'
import { InFlight } from './forward.ts'
import { refuse, Refusal } from './refusal.ts'

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

/** One request, with what is known about it so far. */
export interface Asked {
  readonly at: number
  /** The client's address; empty if the client has disconnected. */
  readonly address: string
  exchange?: Exchange
}

/** Takes connections and answers what comes over them, within bounds of connections, headers, time and requests. It does not listen itself. */
export abstract class Door {
  readonly #outcomes = new Map<ProxyOutcome, number>()
  readonly #codes = new Map<IngressCode, number>()
  readonly #figures: Figures
  readonly #log: (text: string) => void
  readonly #http: Server
  readonly #connections = new Set<Socket>()
  /** Without a request, those that wait longest first. */
  readonly #waiting = new Set<Socket>()
  readonly #empty = Promise.withResolvers<undefined>()
  #isClosed = false
  #inFlight = 0
  #defects = 0

  /** `figures`: several doors may share them. */
  constructor(log: (text: string) => void, figures = new Figures()) {
    this.#log = log
    this.#figures = figures
    this.#http = createServer(
      {
        ...{ headersTimeout: headersMs, connectionsCheckingInterval: lookEveryMs, keepAliveTimeout: idleMs },
        // A missing or doubled Host is for us to refuse, in the shape of all refusals.
        ...{ maxHeaderSize: maxHeaderBytes, requireHostHeader: false },
      },
      (request, response) => void this.#answer(request, response),
    )
    // Node starts its check for slow connections at this event, which a server that does not listen itself would never emit.
    this.#http.emit('listening')
  }

  protected abstract readonly name: DoorName
  /** What `serve` forwards. */
  protected readonly inFlight = new InFlight()

  /** Throws Refusal. */
  protected abstract serve(request: IncomingMessage, response: ServerResponse, asked: Asked): Promise<void>

  protected refuse(response: ServerResponse, refusal: Refusal): void {
    refuse(response, refusal)
  }

  /** `serve` calls it once it knows which service the request is for. */
  protected begin(asked: Asked, route: GatewayRoute): Exchange {
    const exchange = this.#figures.begin(route, { ...asked, door: this.name })
    asked.exchange = exchange
    return exchange
  }

  /** Requests in flight for the service that one of these models of a daemon answers. */
  cut(service: string, models: readonly string[]): void {
    this.inFlight.cut(service, models)
  }

  get counts(): GatewayCounts {
    return { requests: Object.fromEntries(this.#outcomes), services: this.#figures.counts() }
  }

  /** All requests by the status of their answer. */
  get codes(): Partial<Record<IngressCode, number>> {
    return Object.fromEntries(this.#codes)
  }

  /** `serve` calls it before any costly work. Throws Refusal. */
  protected requireRoom(): void {
    if (this.#inFlight > maxInFlight) throw tooMany
  }

  /** Takes a connection, unless too many have come that ask nothing. */
  connect(socket: Socket): void {
    this.#connections.add(socket)
    this.#waiting.add(socket)
    socket.once('close', () => {
      this.#connections.delete(socket)
      this.#waiting.delete(socket)
      if (this.#isClosed && this.#connections.size === 0) this.#ended()
    })
    this.#http.emit('connection', socket)
    if (this.#waiting.size <= maxConnections) return
    for (const oldest of this.#waiting) {
      oldest.destroy()
      return
    }
  }

  /** Resolves when requests in flight have ended, and with them all connections. Those without a request end at once. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const socket of this.#waiting) socket.destroy()
    if (this.#connections.size === 0) this.#ended()
    await this.#empty.promise
  }

  #ended(): void {
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
      if (this.#isClosed) socket.end()
      else this.#waiting.add(socket)
    })
    if (this.#isClosed) response.setHeader('connection', 'close')
    const asked: Asked = { at: performance.now(), address: socket.remoteAddress ?? '' }
    let refusal: Refusal | undefined
    this.#inFlight += 1
    try {
      await this.serve(request, response, asked)
    } catch (error) {
      refusal = error instanceof Refusal ? error : this.#defect(error)
      this.refuse(response, refusal)
    }
    this.#inFlight -= 1
    const outcome = refusal?.outcome ?? codeOf(response) ?? 'other'
    this.#outcomes.set(outcome, (this.#outcomes.get(outcome) ?? 0) + 1)
    const code = ingressCodeOf(response)
    this.#codes.set(code, (this.#codes.get(code) ?? 0) + 1)
    const reason = refusal ? reasonOf(refusal) : response.writableEnded ? 'answered' : 'client_left'
    asked.exchange?.ended(codeOf(response) ?? 'none', reason)
  }

  #defect(error: unknown): Refusal {
    this.#defects += 1
    if (this.#defects <= maxDefectsLogged)
      this.#log(`A request failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
    return new Refusal('5xx', 500, 'gateway_failed', 'The gateway failed to answer; gateway.log says why.')
  }
}

const tooMany = new Refusal(
  ...(['5xx', 503, 'too_many_requests'] as const),
  `More than ${maxInFlight} requests are in flight: ask again when some of them have been answered.`,
)

/** The name and port in the request's `Host` header; undefined if there is none, or more than one. */
export function hostOf({ rawHeaders, headers }: IncomingMessage): { name: string; port: number } | undefined {
  const hosts = rawHeaders.filter((text, index) => index % 2 === 0 && text.toLowerCase() === 'host')
  const [, name = '', port = '80'] = /^(\[[\da-f:]+\]|[^:@/\s]+)(?::(\d{1,5}))?$/i.exec(headers.host ?? '') ?? []
  return hosts.length === 1 && name !== '' ? { name: name.toLowerCase(), port: Number(port) } : undefined
}

/** Whether a page in a browser sent the request. */
export const isOfPage = ({ headers: { origin } }: IncomingMessage): boolean =>
  origin !== undefined && (origin === 'null' || /^https?:/i.test(origin))

/** Undefined before its head was sent. */
function codeOf({ headersSent, statusCode }: ServerResponse): Exclude<CodeClass, 'none'> | undefined {
  const codes = { 2: '2xx', 3: '3xx', 4: '4xx', 5: '5xx' } as const
  const digit = Math.floor(statusCode / 100)
  return headersSent && digit in codes ? codes[digit as keyof typeof codes] : undefined
}

const clientLeft = '499'

function ingressCodeOf({ headersSent, statusCode }: ServerResponse): IngressCode {
  const status = headersSent ? String(statusCode) : clientLeft
  return ingressCodes.find((code) => code === status) ?? 'other'
}

const reasonOf = ({ code }: Refusal): RequestReason => requestReasons.find((reason) => reason === code) ?? 'refused'
