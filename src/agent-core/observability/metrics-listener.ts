import type { IncomingMessage, ServerResponse } from 'node:http'
import { listenWithin, refuse, type BoundedServerOptions } from '../util/bounded-server.ts'
import type { AddressAndPort } from '../util/address-and-port.ts'
import type { Logger } from './logger.ts'
import { isToken, readMetricsToken } from './metrics-token.ts'

export interface MetricsListenerOptions extends Pick<BoundedServerOptions, 'holders' | 'limits'> {
  /** Any of this machine, which others may reach. */
  readonly address: AddressAndPort
  readonly tokenFile: string
  readonly metrics: { render(): Promise<{ contentType: string; body: string }> }
  readonly log: Logger
}

export interface MetricsListener {
  /** Undefined where it does not listen; the agent works without it. */
  readonly port: number | undefined
  /** What to tell a person, where something is wrong. */
  readonly problem: string | undefined
  stop(): Promise<void>
}

/** `/metrics` and nothing else, for a Prometheus elsewhere that has the token. Never throws. */
export async function startMetricsListener(options: MetricsListenerOptions): Promise<MetricsListener> {
  const { address, tokenFile, log, holders, limits } = options
  const told = { problem: await tokenProblem(tokenFile) }
  const result = await listenWithin({
    ...address,
    holders,
    limits,
    handle: (request, response) => answer(options, told, request, response),
    onError: (error) => log.error('metrics request failed', { error }),
  })
  if (!result.ok) {
    const problem = `Prometheus is not answered at --metrics-address: ${lowerFirst(result.message)}`
    return { port: undefined, problem, stop: () => Promise.resolve() }
  }
  const { server } = result
  return { port: server.port, problem: told.problem, stop: () => server.close() }
}

async function answer(
  { tokenFile, metrics, log }: MetricsListenerOptions,
  told: { problem: string | undefined },
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if ((request.url ?? '').split('?', 1)[0] !== '/metrics') {
    refuse(response, 404, 'There is only /metrics.')
    return
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.setHeader('allow', 'GET, HEAD')
    refuse(response, 405, 'Only GET and HEAD are answered here.')
    return
  }
  const token = await readMetricsToken(tokenFile)
  const problem = token.ok ? undefined : problemText(tokenFile, token.why)
  // Once for each new reason: everybody on the network can ask.
  if (problem !== undefined && problem !== told.problem) log.warn('no metrics token', { text: problem })
  told.problem = problem
  const given = /^Bearer +([\x21-\x7e]{1,1024})$/i.exec(request.headers.authorization ?? '')?.[1]
  if (!token.ok || given === undefined || !isToken(given, token)) {
    response.setHeader('www-authenticate', 'Bearer')
    refuse(response, 401, 'This needs the token of --metrics-token-file.')
    return
  }
  const { contentType, body } = await metrics.render()
  response.writeHead(200, {
    'content-type': contentType,
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  })
  response.end(request.method === 'HEAD' ? undefined : body)
}

async function tokenProblem(file: string): Promise<string | undefined> {
  const token = await readMetricsToken(file)
  return token.ok ? undefined : problemText(file, token.why)
}

const problemText = (file: string, why: string): string =>
  `Every scrape at --metrics-address is refused until the token file ${file} can be used: ${why}.`

const lowerFirst = (sentence: string) => sentence.charAt(0).toLowerCase() + sentence.slice(1)
