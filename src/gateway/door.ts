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
import { bodyTooLarge, maxBodyBytes } from './held-pieces.ts'
import { hasBody, refuse, Refusal } from './refusal.ts'

const headersMs = 10_000
/** How soon after its time a connection without headers is ended, and how often it is looked at how bodies come. */
const lookEveryMs = 2_000
/** A body that comes more slowly, after its first seconds, is waited for no longer. */
const leastBytesPerSecond = 1_024
const bodyGraceMs = 10_000
const idleMs = 120_000
const maxHeaderBytes = 32 * 1_024
/** Where there are more without a whole request, the one that is quiet for longest makes room: who only holds connections keeps nobody out. */
const maxConnections = 1_024
/** Whole requests. Each takes a connection to an engine, which works at a few of them at a time. */
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
  /** Without a whole request, those that are quiet for longest first. */
  readonly #waiting = new Set<Socket>()
  readonly #arriving = new Set<Arrival>()
  /** How many requests of a connection are being answered: some clients send the next one before. */
  readonly #answering = new Map<Socket, number>()
  #look: NodeJS.Timeout | undefined
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
  protected requireRoom({ headers }: IncomingMessage): void {
    if (this.#inFlight > maxInFlight) throw tooMany
    if (Number(headers['content-length'] ?? 0) > maxBodyBytes) throw bodyTooLarge
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
    for (const quietest of this.#waiting) {
      quietest.destroy()
      return
    }
  }

  /** A request counts from when it is whole. */
  #arrives(request: IncomingMessage, response: ServerResponse): void {
    if (!hasBody(request)) {
      this.#isWhole(request, response)
      return
    }
    const arrival = new Arrival(request, response)
    this.#arriving.add(arrival)
    this.#look ??= setInterval(() => this.#lookAtArrivals(), lookEveryMs).unref()
    response.once('close', () => this.#arriving.delete(arrival))
    request.once('end', () => {
      this.#arriving.delete(arrival)
      this.#isWhole(request, response)
    })
  }

  #isWhole({ socket }: IncomingMessage, response: ServerResponse): void {
    if (response.destroyed) return
    this.#waiting.delete(socket)
    this.#inFlight += 1
    response.once('close', () => (this.#inFlight -= 1))
  }

  #lookAtArrivals(): void {
    for (const arrival of this.#arriving) {
      const { request, response } = arrival
      const pace = arrival.look()
      if (pace === 'slow') this.refuse(response, bodyIsSlow)
      // It goes behind all that are quieter.
      else if (pace === 'comes' && this.#waiting.delete(request.socket)) this.#waiting.add(request.socket)
    }
    if (this.#arriving.size > 0) return
    clearInterval(this.#look)
    this.#look = undefined
  }

  /** Resolves when requests in flight have ended, and with them all connections. Those without a request end at once. */
  async close(): Promise<void> {
    this.#isClosed = true
    const arriving = new Set([...this.#arriving].map(({ request }) => request.socket))
    for (const socket of this.#waiting) if (!arriving.has(socket)) socket.destroy()
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
    this.#arrives(request, response)
    this.#answering.set(socket, (this.#answering.get(socket) ?? 0) + 1)
    response.once('close', () => {
      const others = (this.#answering.get(socket) ?? 1) - 1
      if (others > 0) this.#answering.set(socket, others)
      else this.#answering.delete(socket)
      if (socket.destroyed || others > 0) return
      // A door that is closed waits for no further request.
      if (this.#isClosed) socket.end()
      else this.#waiting.add(socket)
    })
    if (this.#isClosed) response.setHeader('connection', 'close')
    const asked: Asked = { at: performance.now(), address: socket.remoteAddress ?? '' }
    let refusal: Refusal | undefined
    try {
      await this.serve(request, response, asked)
    } catch (error) {
      refusal = error instanceof Refusal ? error : this.#defect(error)
      this.refuse(response, refusal)
    }
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

/** A request whose body comes. */
export class Arrival {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  #bytes: number
  /** From when its pace counts, and what had come by then. */
  #since: number
  #bytesSince: number

  constructor(request: IncomingMessage, response: ServerResponse, now = performance.now()) {
    this.#since = now + bodyGraceMs
    this.request = request
    this.response = response
    this.#bytes = request.socket.bytesRead
    this.#bytesSince = this.#bytes
  }

  look(now = performance.now()): 'comes' | 'quiet' | 'slow' {
    const bytes = this.request.socket.bytesRead
    const isQuiet = bytes === this.#bytes
    this.#bytes = bytes
    // What has come and is not taken yet waits for an engine, and not for the client.
    if (this.request.readableLength > 0) {
      this.#since = now + bodyGraceMs
      this.#bytesSince = bytes
      return 'comes'
    }
    if (bytes - this.#bytesSince < ((now - this.#since) / 1_000) * leastBytesPerSecond) return 'slow'
    return isQuiet ? 'quiet' : 'comes'
  }
}

const bodyIsSlow = new Refusal(
  ...(['4xx', 408, 'body_slow'] as const),
  `The body came at less than ${leastBytesPerSecond / 1_024} KiB a second: send it faster.`,
)

const tooMany = new Refusal(
  ...(['5xx', 503, 'too_many_requests'] as const),
  `More than ${maxInFlight} requests are in flight: ask again when some of them have been answered.`,
  { retryAfterS: 5 },
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
