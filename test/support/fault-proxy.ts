import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { Agent, request } from 'node:https'
import { pipeline } from 'node:stream'
import type { ClusterConnection } from './control-plane/admin-client.ts'

/** Which writes are refused, and how. */
export interface Refusal {
  /** The plural, with its subresource where there is one: `endpointslices`, `inferenceservices/status`. */
  readonly resource: string
  /** Of one object; absent = every one. */
  readonly name?: string | undefined
  /** A status, or `lost`: it is done, and the connection is reset instead of the answer. */
  readonly answer: number | 'lost'
}

export interface FaultProxyOptions {
  readonly connection: ClusterConnection
  /** How long the next watch may live before it is cut. */
  readonly watchLifeMs: () => number
  /** Called for each write before it is sent or refused. */
  readonly onWrite?: (write: Write) => void
}

export interface Write {
  readonly method: string
  readonly resource: string
  /** Empty for one that is made. */
  readonly name: string
}

const reasons: Readonly<Record<number, string>> = {
  403: 'Forbidden',
  409: 'Conflict',
  422: 'Invalid',
  429: 'TooManyRequests',
}

/** Between agents and a real API server: passes everything on but what it is told to refuse, and cuts watches as load balancers do. */
export class FaultProxy implements AsyncDisposable {
  /** How agents reach it: plain HTTP on loopback. */
  readonly connection: ClusterConnection
  readonly #options: FaultProxyOptions
  readonly #server: Server
  readonly #upstream: Agent
  readonly #refusals = new Set<Refusal>()
  readonly #watches = new Set<ServerResponse>()

  private constructor(options: FaultProxyOptions, server: Server, port: number) {
    this.#options = options
    this.#server = server
    this.#upstream = new Agent({ keepAlive: true, ca: options.connection.ca })
    this.connection = { server: `http://127.0.0.1:${port}`, ca: '', token: options.connection.token }
    server.on('request', (incoming, answer) => this.#answer(incoming, answer))
  }

  static async start(options: FaultProxyOptions): Promise<FaultProxy> {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    if (address === null || typeof address === 'string') throw new Error('The proxy listens on no port.')
    return new FaultProxy(options, server, address.port)
  }

  /** Until the returned function is called. */
  refuse(refusal: Refusal): () => void {
    this.#refusals.add(refusal)
    return () => this.#refusals.delete(refusal)
  }

  cutWatches(): void {
    for (const answer of this.#watches) answer.destroy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
    this.#upstream.destroy()
  }

  #answer(incoming: IncomingMessage, answer: ServerResponse): void {
    const { method = 'GET', url: path = '/' } = incoming
    const url = new URL(path, this.#options.connection.server)
    const write = method === 'GET' ? undefined : { method, ...targetOf(url.pathname) }
    if (write) this.#options.onWrite?.(write)
    const refusal = write && [...this.#refusals].find((one) => isMeant(one, write))
    if (refusal && refusal.answer !== 'lost') {
      this.#refuse(incoming, answer, refusal.answer)
      return
    }
    const isWatch = url.searchParams.has('watch')
    this.#pass({ incoming, answer, url, isWatch, isLost: refusal?.answer === 'lost' })
  }

  #refuse(incoming: IncomingMessage, answer: ServerResponse, code: number): void {
    incoming.resume()
    const reason = reasons[code] ?? 'InternalError'
    const message = `The soak answers ${code} to this write.`
    answer.writeHead(code, { 'content-type': 'application/json', ...(code === 429 && { 'retry-after': '1' }) })
    answer.end(JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', reason, message, code }))
  }

  #pass({ incoming, answer, url, isWatch, isLost }: Passing): void {
    const { host: _host, ...headers } = incoming.headers
    const outgoing = request(url, { method: incoming.method, headers, agent: this.#upstream })
    // As without a proxy: a connection that breaks there breaks here.
    outgoing.on('error', () => answer.destroy())
    answer.on('close', () => outgoing.destroy())
    outgoing.on('response', (response) => {
      if (isLost) return void response.resume().on('close', () => answer.destroy())
      answer.writeHead(response.statusCode ?? 502, response.headers)
      answer.flushHeaders()
      if (isWatch) this.#limit(answer)
      pipeline(response, answer, () => answer.destroy())
    })
    pipeline(incoming, outgoing, () => undefined)
  }

  #limit(answer: ServerResponse): void {
    this.#watches.add(answer)
    const timer = setTimeout(() => answer.destroy(), this.#options.watchLifeMs())
    answer.on('close', () => {
      clearTimeout(timer)
      this.#watches.delete(answer)
    })
  }
}

interface Passing {
  readonly incoming: IncomingMessage
  readonly answer: ServerResponse
  readonly url: URL
  readonly isWatch: boolean
  readonly isLost: boolean
}

/** The group's and the core's paths differ in their beginning alone. */
function targetOf(path: string): Omit<Write, 'method'> {
  const [, plural = '', name = '', subresource] =
    /^\/apis?\/.*?namespaces\/[^/]+\/([^/]+)(?:\/([^/]+))?(?:\/([^/]+))?$/.exec(path) ?? []
  return { resource: subresource === undefined ? plural : `${plural}/${subresource}`, name }
}

/** One that makes an object names it in its body, which the proxy does not read: it is meant wherever its kind is. */
const isMeant = ({ resource, name }: Refusal, write: Write): boolean =>
  resource === write.resource && (name === undefined || write.name === '' || name === write.name)
