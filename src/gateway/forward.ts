import { once } from 'node:events'
import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { Agent, type Dispatcher } from 'undici'
import { AddressScan, encodingRefused, rewritten, rulesOf } from './body-rules.ts'
import type { Exchange } from './figures.ts'
import { hasBody, Refusal } from './refusal.ts'

/** Pictures and long contexts fit many times. */
export const maxBodyBytes = 128 * 1_024 * 1_024
/** A body that is changed is read as a whole. */
const maxChangedBytes = 32 * 1_024 * 1_024

const maxEngineHeaderBytes = 64 * 1_024
const connectMs = 10_000

/** llama-server gives up an idle connection after five seconds: one is taken again only well before that. */
const idleMs = 3_000

/** Connections to engines, kept alive. An answer may take as long as it likes, as its headers may. */
export const connectionsToEngines = (): Agent =>
  new Agent({
    ...{ headersTimeout: 0, bodyTimeout: 0, keepAliveTimeout: idleMs, keepAliveMaxTimeout: idleMs },
    ...{ connect: { timeout: connectMs }, maxHeaderSize: maxEngineHeaderBytes },
  })

export interface Forwarded {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** What was read of the body so far; the rest follows from the request. */
  readonly read: readonly Buffer[]
  readonly engine: {
    /** Absent = 127.0.0.1. */
    readonly host?: string | undefined
    readonly port: number
    readonly title: string
    readonly runtime: string
    /** What the engine calls the model that it serves. */
    readonly model: string | undefined
  }
  /** Headers that are not for the engine. */
  readonly hidden?: readonly string[]
  /** Escaped, with the query. */
  readonly path: string
  readonly connections: Agent
  readonly exchange: Exchange
}

/**
 * Sends a request to an engine and its answer to the client, piece by piece as each comes, and neither faster than the other side takes it. A
 * client that goes away is gone for the engine at once. Throws Refusal where there is no answer; an answer that breaks off is cut.
 */
export async function forward(forwarded: Forwarded): Promise<void> {
  const { request, response, engine, path, connections, exchange } = forwarded
  const leaving = new AbortController()
  const onClose = (): void => {
    if (!response.writableFinished) leaving.abort()
  }
  response.once('close', onClose)
  if (response.destroyed) leaving.abort()
  try {
    const { headers, body } = await messageFor(forwarded)
    const answer = await connections.request({
      ...{
        origin: `http://${engine.host ?? '127.0.0.1'}:${engine.port}`,
        path,
        method: request.method as Dispatcher.HttpMethod,
      },
      ...{ headers, body, signal: leaving.signal },
    })
    response.writeHead(answer.statusCode, answerHeaders(answer.headers))
    exchange.answered(answer.statusCode, answer.headers)
    // The first byte must not wait for the second.
    response.flushHeaders()
    for await (const piece of answer.body as AsyncIterable<Buffer>) {
      exchange.sent(piece)
      if (!response.write(piece)) await once(response, 'drain', { signal: leaving.signal })
    }
    response.end()
  } catch (error) {
    // Nobody is there to be told.
    if (leaving.signal.aborted) return
    throw error instanceof Refusal ? error : engineFailure(engine.title, error)
  } finally {
    response.off('close', onClose)
  }
}

/** Nothing of its body is to come. */
export const isWhole = (request: IncomingMessage): boolean => request.complete && request.readableLength === 0

/** What the engine is sent. A body that is here already is sent in one piece. Throws Refusal. */
async function messageFor(forwarded: Forwarded) {
  const { request, read, engine, exchange, hidden = [] } = forwarded
  const headers = requestHeaders(request.headers, hidden)
  if (!hasBody(request)) return { headers, body: null }
  const encoding = request.headers['content-encoding'] ?? 'identity'
  if (encoding.toLowerCase() !== 'identity') throw encodingRefused
  const rules = rulesOf(engine.runtime)
  if (rules.model !== undefined) {
    const whole: Buffer[] = []
    for await (const piece of pieces(forwarded, maxChangedBytes)) whole.push(piece)
    const { 'content-length': _length, ...others } = headers
    return { headers: others, body: rewritten(Buffer.concat(whole), rules, engine.model) }
  }
  if (!isWhole(request)) return { headers, body: Readable.from(pieces(forwarded), { objectMode: false }) }
  const whole = Buffer.concat(read)
  exchange.received(whole.length)
  new AddressScan().push(whole)
  return { headers, body: whole }
}

/** The body as it comes, looked at. Throws Refusal. */
async function* pieces({ request, read, exchange }: Forwarded, maxBytes = maxBodyBytes): AsyncGenerator<Buffer> {
  const scan = new AddressScan()
  let bytes = 0
  for await (const piece of everyPiece(request, read)) {
    bytes += piece.length
    exchange.received(piece.length)
    if (bytes > maxBytes) throw bodyTooLarge(maxBytes)
    scan.push(piece)
    yield piece
  }
}

async function* everyPiece(request: IncomingMessage, read: readonly Buffer[]): AsyncGenerator<Buffer> {
  yield* read
  yield* request as AsyncIterable<Buffer>
}

export const bodyTooLarge = (maxBytes = maxBodyBytes): Refusal =>
  new Refusal(
    ...(['4xx', 413, 'body_too_large'] as const),
    `A request may have at most ${maxBytes / 1_024 / 1_024} MiB: send smaller pictures or less text.`,
  )

function engineFailure(title: string, cause: unknown): Refusal {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  const why = failures[code] ?? `its engine broke off or gave no answer that can be passed on (${code || 'no code'})`
  const message = `${title} did not answer: ${why}. metal-agent status and metal-agent log say more; ask again once it serves.`
  return new Refusal('5xx', 502, 'engine_failed', message, { cause })
}

const failures: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'its engine has ended',
  ECONNRESET: 'its engine ended while it worked',
  UND_ERR_CONNECT_TIMEOUT: 'its engine takes no connection',
  UND_ERR_HEADERS_OVERFLOW: `its engine answered with more than ${maxEngineHeaderBytes / 1_024} KiB of headers`,
}

/** Each concerns one connection and not the message. */
const hopByHop = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade', 'http2-settings'],
])

/** Who asked by which way is nothing for an engine, and a client could say anything of it. */
const isOfTheWay = (name: string): boolean =>
  name === 'host' || name === 'forwarded' || name === 'expect' || name.startsWith('x-forwarded-')

const requestHeaders = (headers: IncomingHttpHeaders, hidden: readonly string[]): OutgoingHttpHeaders =>
  passedOn(headers, (name) => !isOfTheWay(name) && !hidden.includes(name))

const answerHeaders = (headers: IncomingHttpHeaders): OutgoingHttpHeaders => passedOn(headers, () => true)

function passedOn(headers: IncomingHttpHeaders, isPassed: (name: string) => boolean): OutgoingHttpHeaders {
  const named = new Set(
    (headers.connection ?? '')
      .toLowerCase()
      .split(',')
      .map((name) => name.trim()),
  )
  const kept = Object.entries(headers).filter(
    ([name, value]) => value !== undefined && !hopByHop.has(name) && !named.has(name) && isPassed(name),
  )
  return Object.fromEntries(kept)
}
