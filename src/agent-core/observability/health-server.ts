import type { IncomingMessage, ServerResponse } from 'node:http'
import { isFromAnotherPage, listenOnLoopback, type LoopbackServerOptions } from '../util/loopback-server.ts'
import type { Logger } from './logger.ts'

export interface Readiness {
  readonly ready: boolean
  /** One sentence: why, or why not. */
  readonly message: string
}

export interface HealthServerOptions extends Pick<LoopbackServerOptions, 'holders'> {
  /** On 127.0.0.1; 0 = no server. */
  readonly port: number
  readonly readiness: () => Readiness
  readonly metrics: { render(): Promise<{ contentType: string; body: string }> }
  readonly log: Logger
}

export type HealthServer =
  | { readonly state: 'listening'; readonly port: number; stop(): Promise<void> }
  | { readonly state: 'disabled'; stop(): Promise<void> }
  /** The agent works without it; `message` is what to tell a person. */
  | { readonly state: 'failed'; readonly message: string; stop(): Promise<void> }

/** `/healthz` (alive), `/readyz` (useful) and `/metrics` for operators and Prometheus. Never throws. */
export async function startHealthServer(options: HealthServerOptions): Promise<HealthServer> {
  if (options.port === 0) return { state: 'disabled', stop: () => Promise.resolve() }
  return listenForHealth(options)
}

/** As {@link startHealthServer}, but port 0 means any free one. */
export async function listenForHealth(options: HealthServerOptions): Promise<HealthServer> {
  const { port, readiness, metrics, log, holders } = options
  const result = await listenOnLoopback({
    port,
    holders,
    handle: async (request, response) => {
      if (isFromAnotherPage(request.headers)) {
        sendJson(request, response, 403, { error: 'A web page asked for this; web pages may not.' })
        return
      }
      const answer = answers[(request.url ?? '').split('?', 1)[0] ?? '']
      if (answer === undefined)
        sendJson(request, response, 404, { error: 'This server answers /healthz, /readyz and /metrics only.' })
      else if (request.method !== 'GET' && request.method !== 'HEAD') {
        response.setHeader('allow', 'GET, HEAD')
        sendJson(request, response, 405, { error: 'Only GET and HEAD are answered here.' })
      } else await answer(request, response, { readiness, metrics })
    },
    onError: (error) => log.error('health server request failed', { error }),
  })
  if (!result.ok) {
    const message = `There is no /healthz, /readyz and /metrics: ${lowerFirst(result.message)}`
    return { state: 'failed', message, stop: () => Promise.resolve() }
  }
  const { server } = result
  return { state: 'listening', port: server.port, stop: () => server.close() }
}

type Answer = (
  request: IncomingMessage,
  response: ServerResponse,
  sources: Pick<HealthServerOptions, 'readiness' | 'metrics'>,
) => void | Promise<void>

const answers: Readonly<Record<string, Answer | undefined>> = {
  '/healthz': (request, response) => sendJson(request, response, 200, { status: 'ok' }),
  '/readyz': (request, response, { readiness }) => {
    const { ready, message } = readiness()
    sendJson(request, response, ready ? 200 : 503, { status: ready ? 'ready' : 'not ready', message })
  },
  '/metrics': async (request, response, { metrics }) => {
    const { contentType, body } = await metrics.render()
    send(request, response, 200, contentType, body)
  },
}

function sendJson(request: IncomingMessage, response: ServerResponse, status: number, body: object): void {
  send(request, response, status, 'application/json', JSON.stringify(body))
}

function send(request: IncomingMessage, response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, {
    'content-type': type,
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  })
  response.end(request.method === 'HEAD' ? undefined : body)
}

const lowerFirst = (sentence: string) => sentence.charAt(0).toLowerCase() + sentence.slice(1)
