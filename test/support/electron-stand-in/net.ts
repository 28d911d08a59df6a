import { EventEmitter } from 'node:events'
import { request as httpRequest, type ClientRequest as NodeRequest, type IncomingMessage } from 'node:http'
import { app } from './app.ts'
import { refuseUnknown } from './electron-types.ts'

interface Options {
  readonly method?: string
  readonly protocol?: string
  readonly hostname?: string
  readonly port?: string | number
  readonly path?: string
  readonly headers?: Record<string, string>
  readonly redirect?: 'follow' | 'error' | 'manual'
  readonly session?: NetSession
}

/** The requests of one session that are under way. */
export class NetSession {
  readonly requests = new Set<ClientRequest>()

  closeAllConnections(): Promise<void> {
    for (const request of [...this.requests]) request.fail('net::ERR_NETWORK_CHANGED')
    return Promise.resolve()
  }
}

/** What Chromium says for what Node.js does. */
const chromiumCodes: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'net::ERR_CONNECTION_REFUSED',
  ECONNRESET: 'net::ERR_CONNECTION_RESET',
  ENOTFOUND: 'net::ERR_NAME_NOT_RESOLVED',
  EAI_AGAIN: 'net::ERR_NAME_NOT_RESOLVED',
}

class ClientRequest extends EventEmitter {
  readonly #request: NodeRequest
  readonly #session: NetSession | undefined
  readonly #redirect: NonNullable<Options['redirect']>
  #response: IncomingMessage | undefined
  #isOver = false

  constructor({ session, redirect = 'follow', ...options }: Options) {
    super()
    this.#session = session
    this.#redirect = redirect
    session?.requests.add(this)
    this.#request = httpRequest(options, (response) => this.#answered(response))
    this.#request.on('error', (error: NodeJS.ErrnoException) =>
      this.fail(chromiumCodes[error.code ?? ''] ?? error.message),
    )
  }

  setHeader(name: string, value: string): void {
    this.#request.setHeader(name, value)
  }

  end(chunk?: Buffer): void {
    this.#request.end(chunk)
  }

  abort(): void {
    if (!this.#over()) return
    this.#request.destroy()
    this.emit('abort')
    this.emit('close')
  }

  /** As Chromium ends it. */
  fail(code: string): void {
    if (!this.#over()) return
    this.#request.destroy()
    const error = new Error(code)
    if (this.#response) this.#response.emit('error', error)
    else this.emit('error', error)
    this.emit('close')
  }

  #answered(response: IncomingMessage): void {
    const { statusCode = 0, headers } = response
    if (statusCode >= 300 && statusCode < 400 && headers.location !== undefined) {
      if (this.#redirect !== 'manual') throw new Error('The stand-in follows no redirects by itself.')
      const before = this.#isOver
      this.emit('redirect', statusCode, 'GET', new URL(headers.location, 'http://127.0.0.1').href, headers)
      // Nobody followed it while it was told.
      if (!before && !this.#isOver) this.fail('Redirect was cancelled')
      return
    }
    this.#response = response
    response.on('aborted', () => this.fail('net::ERR_CONTENT_LENGTH_MISMATCH'))
    response.on('end', () => this.#over())
    this.emit('response', response)
  }

  #over(): boolean {
    if (this.#isOver) return false
    this.#isOver = true
    this.#session?.requests.delete(this)
    return true
  }
}

export const net = {
  request(options: Options): ClientRequest {
    app.mustBeReady('net.request can not be used')
    refuseUnknown('ClientRequestConstructorOptions', options)
    return new ClientRequest(options)
  },
}
