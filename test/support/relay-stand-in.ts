import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFile, stat } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { Agent, request as requestTo } from 'node:https'
import type { AddressInfo } from 'node:net'
import { pipeline, type Duplex } from 'node:stream'
import { connect, type TLSSocket } from 'node:tls'

export interface RelayOptions {
  /** `RELAY_TARGET`: namespace/name. */
  readonly target: string
  /** `RELAY_UPSTREAM`: where the agent's ingress is, asked for at each dial; undefined: its Service has no endpoint. */
  readonly upstream: () => { readonly host: string; readonly port: number } | undefined
  /** `RELAY_SPKI_PIN`. */
  readonly pin: string
  /** `RELAY_TOKEN_FILE`: read again when it has changed. */
  readonly tokenFile: string
}

const dialMs = 10_000
const idleMs = 90_000
const readyMs = 5_000
const targetHeader = 'x-llmkube-target'
const tokenHeader = 'x-llmkube-relay-token'
const ofOneConnection = [
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'proxy-connection',
]

/** A relay Pod of LLMKube 0.10, written from the contract: clients on one port, its probes on another. */
export class RelayStandIn implements AsyncDisposable {
  readonly #options: RelayOptions
  readonly #agent: PinnedAgent
  readonly #clients: Server
  readonly #probes: Server
  #token: { readonly mtimeMs: number; readonly text: string } | undefined
  /** As `llmkube_relay_requests_total`, by code. */
  readonly requests: Record<number, number> = {}

  private constructor(options: RelayOptions) {
    this.#options = options
    this.#agent = new PinnedAgent(options)
    this.#clients = createServer((request, response) => void this.#relay(request, response))
    this.#probes = createServer((request, response) => void this.#probe(request, response))
  }

  static async start(options: RelayOptions): Promise<RelayStandIn> {
    const relay = new RelayStandIn(options)
    for (const server of [relay.#clients, relay.#probes]) await once(server.listen(0, '127.0.0.1'), 'listening')
    return relay
  }

  /** Where clients ask, as at port 8080 of the Pod. */
  get url(): string {
    return urlOf(this.#clients)
  }

  /** `/readyz` and `/livez`, as at port 9090 of the Pod. */
  get probeUrl(): string {
    return urlOf(this.#probes)
  }

  /** As `llmkube_relay_pin_mismatch_total`. */
  get pinMismatches(): number {
    return this.#agent.mismatches
  }

  /** Whether its readiness probe passes now. */
  async isReady(): Promise<boolean> {
    const { status } = await fetch(`${this.probeUrl}/readyz`)
    return status === 200
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#agent.destroy()
    for (const server of [this.#clients, this.#probes]) {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    }
  }

  async #relay(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.once('close', () => {
      this.requests[response.statusCode] = (this.requests[response.statusCode] ?? 0) + 1
    })
    const token = await this.#tokenNow()
    if (token === undefined) {
      response.writeHead(503).end('no token')
      return
    }
    const kept = Object.entries(request.headers).filter(
      ([name]) => !ofOneConnection.includes(name) && name !== targetHeader && name !== tokenHeader,
    )
    const sent = requestTo({
      ...{ agent: this.#agent, host: 'agent', method: request.method, path: request.url },
      headers: { ...Object.fromEntries(kept), [targetHeader]: this.#options.target, [tokenHeader]: token },
    })
    sent.once('error', () => {
      if (response.headersSent) response.destroy()
      else response.writeHead(502).end('the agent is not reached')
    })
    sent.once('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      response.flushHeaders()
      pipeline(answer, response, () => undefined)
    })
    response.once('close', () => sent.destroy())
    pipeline(request, sent, () => undefined)
  }

  async #probe({ url }: IncomingMessage, response: ServerResponse): Promise<void> {
    const isOk = url === '/livez' || (url === '/readyz' && (await this.#asksReady()))
    response.writeHead(isOk ? 200 : 503).end()
  }

  async #asksReady(): Promise<boolean> {
    const token = await this.#tokenNow()
    if (token === undefined) return false
    const sent = requestTo({
      ...{ agent: this.#agent, host: 'agent', path: '/_llmkube/ready', signal: AbortSignal.timeout(readyMs) },
      headers: { [targetHeader]: this.#options.target, [tokenHeader]: token },
    })
    sent.end()
    try {
      const [answer] = (await once(sent, 'response')) as [IncomingMessage]
      answer.resume()
      return answer.statusCode === 200
    } catch {
      return false
    }
  }

  async #tokenNow(): Promise<string | undefined> {
    const { tokenFile } = this.#options
    try {
      const { mtimeMs } = await stat(tokenFile)
      if (this.#token?.mtimeMs !== mtimeMs) {
        this.#token = { mtimeMs, text: (await readFile(tokenFile, 'utf8')).trim() }
      }
      return this.#token.text === '' ? undefined : this.#token.text
    } catch {
      return undefined
    }
  }
}

const urlOf = (server: Server): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`

/** Trusts one key and looks at nothing else of a certificate. */
class PinnedAgent extends Agent {
  readonly #relay: RelayOptions
  mismatches = 0

  constructor(relay: RelayOptions) {
    super({ keepAlive: true, timeout: idleMs })
    this.#relay = relay
  }

  override createConnection(_options: object, done?: (error: Error | null, socket: Duplex) => void): undefined {
    const where = this.#relay.upstream() ?? { host: '127.0.0.1', port: 1 }
    const socket = connect({ ...where, rejectUnauthorized: false, ALPNProtocols: ['h2', 'http/1.1'] })
    const fail = (error: Error): void => {
      socket.destroy()
      done?.(error, socket)
    }
    const limit = setTimeout(() => fail(new Error('The agent was not reached in time')), dialMs)
    socket.once('close', () => clearTimeout(limit)).once('error', fail)
    socket.once('secureConnect', () => {
      clearTimeout(limit)
      socket.off('error', fail)
      if (pinOf(socket) === this.#relay.pin) {
        done?.(null, socket)
        return
      }
      this.mismatches += 1
      fail(new Error('The agent has another key'))
    })
    return undefined
  }
}

/** Of the server at the other end. */
export function pinOf(socket: TLSSocket): string {
  const spki = socket.getPeerX509Certificate()?.publicKey.export({ type: 'spki', format: 'der' })
  return createHash('sha256')
    .update(spki ?? '')
    .digest('base64')
}
