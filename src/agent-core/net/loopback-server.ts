import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'

/** What a client may take; a person's browser or Prometheus needs a thousandth of it. */
interface LoopbackLimits {
  readonly headersMs: number
  readonly requestMs: number
  /** From the end of the request's headers to the end of the answer; absent = as long as the handler likes. */
  readonly answerMs: number | undefined
  readonly idleMs: number
  readonly headerBytes: number
  readonly connections: number
  /** How long a closing server lets answers finish. */
  readonly closeMs: number
}

/** The Go agent's limits; the number of connections is ours. */
const defaultLoopbackLimits: LoopbackLimits = {
  headersMs: 5_000,
  requestMs: 10_000,
  answerMs: 10_000,
  idleMs: 60_000,
  headerBytes: 32 * 1_024,
  connections: 64,
  closeMs: 5_000,
}

export interface LoopbackServerOptions {
  /** 0 = any free one. */
  readonly port: number
  readonly handle: (request: IncomingMessage, response: ServerResponse) => void | Promise<void>
  /** A handler that failed; its client got a 500 without details. */
  readonly onError: (error: unknown) => void
  readonly limits?: Partial<LoopbackLimits>
}

export interface LoopbackServer extends AsyncDisposable {
  readonly port: number
  /** Takes no more requests, lets answers finish for a while, then closes every connection. */
  close(): Promise<void>
}

export type LoopbackServerResult =
  | { readonly ok: true; readonly server: LoopbackServer }
  | { readonly ok: false; readonly code: string; readonly message: string }

/**
 * Listens on 127.0.0.1 and answers only requests whose Host is this machine under a name that no DNS record can point here (a web page
 * would otherwise reach us through a name of its own). Any port in it is accepted, since people use tunnels.
 */
export async function listenOnLoopback(options: LoopbackServerOptions): Promise<LoopbackServerResult> {
  const limits = { ...defaultLoopbackLimits, ...options.limits }
  const server = createServer(
    {
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      keepAliveTimeout: limits.idleMs,
      maxHeaderSize: limits.headerBytes,
      connectionsCheckingInterval: Math.min(limits.headersMs, limits.requestMs),
    },
    (request, response) => void answer(options, limits, request, response),
  )
  server.maxConnections = limits.connections
  const failure = await listen(server, options.port)
  if (failure !== undefined) return { ok: false, code: failure.code, message: listenFailure(failure, options.port) }
  server.on('error', options.onError)
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : options.port
  const close = () => closeGracefully(server, limits.closeMs)
  return { ok: true, server: { port, close, [Symbol.asyncDispose]: close } }
}

/** 127.0.0.1, localhost or [::1], with any port or none. */
export function isLoopbackHost(host: string | undefined): boolean {
  return host !== undefined && /^(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?$/i.test(host)
}

/**
 * Whether another page made a browser ask. Host was looked at before; a program that is no browser sends neither of the two headers.
 */
export function isFromAnotherPage({ host = '', origin, 'sec-fetch-site': site }: IncomingHttpHeaders): boolean {
  const isOurs = origin === undefined || origin.toLowerCase() === `http://${host}`.toLowerCase()
  return !isOurs || (site !== undefined && site !== 'same-origin' && site !== 'none')
}

async function answer(
  { handle, onError }: LoopbackServerOptions,
  limits: LoopbackLimits,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (limits.answerMs !== undefined) {
    const timer = setTimeout(() => response.destroy(), limits.answerMs).unref()
    response.once('close', () => clearTimeout(timer))
  }
  if (!isLoopbackHost(request.headers.host)) {
    refuse(response, 421, 'This server answers to 127.0.0.1, localhost and [::1] only.')
    return
  }
  try {
    await handle(request, response)
  } catch (error) {
    onError(error)
    if (response.headersSent) response.destroy()
    else refuse(response, 500, 'The agent failed to answer; its log says why.')
  }
}

function refuse(response: ServerResponse, status: number, error: string): void {
  response.writeHead(status, { 'content-type': 'application/json', connection: 'close' })
  response.end(`${JSON.stringify({ error })}\n`)
}

interface ListenFailure {
  readonly code: string
  readonly text: string
}

function listen(server: Server, port: number): Promise<ListenFailure | undefined> {
  return new Promise((resolve) => {
    const onError = (error: NodeJS.ErrnoException) => resolve({ code: error.code ?? 'UNKNOWN', text: error.message })
    server.once('error', onError)
    server.listen({ host: '127.0.0.1', port, exclusive: true }, () => {
      server.off('error', onError)
      resolve(undefined)
    })
  })
}

function listenFailure({ code, text }: ListenFailure, port: number): string {
  switch (code) {
    case 'EADDRINUSE':
      return `Port ${port} on 127.0.0.1 is taken by another program: stop it or choose another port.`
    case 'EACCES':
      return `Port ${port} on 127.0.0.1 may not be used by this user: choose one above 1023.`
    default:
      return `Port ${port} on 127.0.0.1 cannot be used: ${text}.`
  }
}

function closeGracefully(server: Server, closeMs: number): Promise<void> {
  return new Promise((resolve) => {
    if (!server.listening) {
      resolve()
      return
    }
    const timer = setTimeout(() => server.closeAllConnections(), closeMs).unref()
    server.close(() => {
      clearTimeout(timer)
      resolve()
    })
  })
}
