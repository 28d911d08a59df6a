import { Agent as HttpAgent, request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { text as readText } from 'node:stream/consumers'

/** What it takes to reach an API server, without a kubeconfig. */
export interface Connection {
  readonly server: string
  /** PEM; empty over plain HTTP. */
  readonly ca: string
  readonly token: string
}

export interface KubeRequest {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** From the leading slash, with the query. */
  readonly path: string
  readonly body?: unknown
  readonly contentType?: string
  readonly signal?: AbortSignal
}

export interface KubeAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** Parsed where it is JSON, else the text. */
  readonly body: unknown
}

/** Requests as they are and answers as they come: a client without opinions. */
export class KubeHttp {
  readonly #connection: Connection
  readonly #agent: HttpAgent

  constructor(connection: Connection) {
    this.#connection = connection
    const isSecure = connection.server.startsWith('https:')
    this.#agent = isSecure ? new HttpsAgent({ keepAlive: true, ca: connection.ca }) : new HttpAgent({ keepAlive: true })
  }

  async request(request: KubeRequest): Promise<KubeAnswer> {
    const incoming = await this.#open(request)
    const content = await readText(incoming)
    const isJson = incoming.headers['content-type']?.includes('json') === true
    const body: unknown = isJson ? JSON.parse(content) : content
    return { status: incoming.statusCode ?? 0, headers: incoming.headers, body }
  }

  /** The events of a watch until the server ends it. Throws where the answer is not 200, the stream breaks, or `signal` aborts. */
  async *watch(path: string, signal: AbortSignal): AsyncGenerator {
    const incoming = await this.#open({ path, signal })
    if (incoming.statusCode !== 200) {
      throw new Error(`GET ${path}: ${incoming.statusCode ?? 0} ${await readText(incoming)}`)
    }
    // The iteration throws; a connection that breaks after the last event does not matter.
    incoming.on('error', () => undefined)
    let rest = ''
    for await (const chunk of incoming.setEncoding('utf8')) {
      const lines = (rest + String(chunk)).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        const event: unknown = JSON.parse(line)
        yield event
      }
    }
  }

  close(): void {
    this.#agent.destroy()
  }

  #open({
    method = 'GET',
    path,
    body,
    contentType = 'application/json',
    signal,
  }: KubeRequest): Promise<IncomingMessage> {
    const url = new URL(path, this.#connection.server)
    const content = body === undefined ? '' : JSON.stringify(body)
    const headers: Record<string, string> = {
      authorization: `Bearer ${this.#connection.token}`,
      accept: 'application/json',
      // Node sends a DELETE's body without its length unless told.
      ...(content === '' ? {} : { 'content-type': contentType, 'content-length': String(Buffer.byteLength(content)) }),
    }
    const options = { method, headers, agent: this.#agent, ...(signal ? { signal } : {}) }
    return new Promise((resolve, reject) => {
      const outgoing = (url.protocol === 'https:' ? httpsRequest : httpRequest)(url, options, resolve)
      outgoing.on('error', reject)
      outgoing.end(content)
    })
  }
}
