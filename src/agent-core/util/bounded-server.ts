import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { PortHolder } from '../platform/platform.ts'
import { holdersText } from './port-holders.ts'

/** What a client may take; a person's browser or Prometheus needs a thousandth of it. */
interface ServerLimits {
  readonly headersMs: number
  readonly requestMs: number
  /** From the end of the request's headers to the end of the answer; absent = as long as the handler likes. */
  readonly answerMs: number | undefined
  readonly idleMs: number
  readonly headerBytes: number
  /** Where there are more, one without a request makes room: who only holds connections keeps nobody out. */
  readonly connections: number
  /** How long a closing server lets answers finish. */
  readonly closeMs: number
}

/** The Go agent's limits; the number of connections is ours. */
const defaultLimits: ServerLimits = {
  headersMs: 5_000,
  requestMs: 10_000,
  answerMs: 10_000,
  idleMs: 60_000,
  headerBytes: 32 * 1_024,
  connections: 64,
  closeMs: 5_000,
}

export interface BoundedServerOptions {
  /** An address of this machine. */
  readonly host: string
  /** 0 = any free one. */
  readonly port: number
  readonly handle: (request: IncomingMessage, response: ServerResponse) => void | Promise<void>
  /** A handler that failed; its client got a 500 without details. */
  readonly onError: (error: unknown) => void
  /** Who has a port that is taken. Must not reject. */
  readonly holders?: ((port: number) => Promise<readonly PortHolder[]>) | undefined
  readonly limits?: Partial<ServerLimits> | undefined
}

export interface BoundedServer extends AsyncDisposable {
  readonly port: number
  /** Takes no more requests, lets answers finish for a while, then closes every connection. */
  close(): Promise<void>
}

export type BoundedServerResult =
  | { readonly ok: true; readonly server: BoundedServer }
  | { readonly ok: false; readonly code: string; readonly message: string }

/** Answers HTTP at one address, with bounds on what a client may take. Who may ask is up to `handle`. */
export async function listenWithin(options: BoundedServerOptions): Promise<BoundedServerResult> {
  const limits = { ...defaultLimits, ...options.limits }
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
  boundConnections(server, limits.connections)
  const failure = await listen(server, options)
  if (failure !== undefined) return { ok: false, code: failure.code, message: await failureText(failure, options) }
  server.on('error', options.onError)
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : options.port
  const close = () => closeGracefully(server, limits.closeMs)
  return { ok: true, server: { port, close, [Symbol.asyncDispose]: close } }
}

function boundConnections(server: Server, most: number): void {
  const connections = new Set<Socket>()
  /** Without a request, those that are quiet for longest first. */
  const waiting = new Set<Socket>()
  server.on('connection', (socket) => {
    connections.add(socket)
    waiting.add(socket)
    socket.once('close', () => {
      connections.delete(socket)
      waiting.delete(socket)
    })
    if (connections.size > most) waiting.values().next().value?.destroy()
  })
  server.on('request', ({ socket }, response) => {
    waiting.delete(socket)
    response.once('close', () => {
      if (!socket.destroyed) waiting.add(socket)
    })
  })
}

/** Refuses with a sentence, and closes the connection. */
export function refuse(response: ServerResponse, status: number, error: string): void {
  response.writeHead(status, { 'content-type': 'application/json', connection: 'close' })
  response.end(`${JSON.stringify({ error })}\n`)
}

async function answer(
  { handle, onError }: BoundedServerOptions,
  limits: ServerLimits,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (limits.answerMs !== undefined) {
    const timer = setTimeout(() => response.destroy(), limits.answerMs).unref()
    response.once('close', () => clearTimeout(timer))
  }
  try {
    await handle(request, response)
  } catch (error) {
    onError(error)
    if (response.headersSent) response.destroy()
    else refuse(response, 500, 'The agent failed to answer; its log says why.')
  }
}

interface ListenFailure {
  readonly code: string
  readonly text: string
}

function listen(server: Server, { host, port }: BoundedServerOptions): Promise<ListenFailure | undefined> {
  return new Promise((resolve) => {
    const onError = (error: NodeJS.ErrnoException) => resolve({ code: error.code ?? 'UNKNOWN', text: error.message })
    server.once('error', onError)
    server.listen({ host, port, exclusive: true }, () => {
      server.off('error', onError)
      resolve(undefined)
    })
  })
}

async function failureText({ code, text }: ListenFailure, options: BoundedServerOptions): Promise<string> {
  const { host, port, holders = () => Promise.resolve([]) } = options
  switch (code) {
    case 'EADDRINUSE': {
      const whom = holdersText(await holders(port), 'another program')
      return `Port ${port} on ${host} is taken by ${whom}: stop it or choose another port.`
    }
    case 'EACCES':
      return `Port ${port} on ${host} may not be used by this user: choose one above 1023.`
    case 'EADDRNOTAVAIL':
      return `Port ${port} on ${host} cannot be used: that is no address of this machine, so choose one that it has.`
    default:
      return `Port ${port} on ${host} cannot be used: ${text}.`
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
