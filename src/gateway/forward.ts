import {
  Agent,
  request as requestTo,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from 'node:http'
import { pipeline, Readable } from 'node:stream'
import { encodingRefused, rulesOf } from './body-rules.ts'
import type { Exchange } from './figures.ts'
import { bodyTooLarge, HeldPieces, maxBodyBytes } from './held-pieces.ts'
import { JsonBody } from './json-body.ts'
import { keyHeaders } from './keys.ts'
import { enginePath, isStatusAlone, type Target } from './paths.ts'
import { closeIfUnread, hasBody, Refusal } from './refusal.ts'

/** A small one, as most are, is read as a whole: a stream of its own would take longer than all the rest of forwarding it. */
const maxReadFirstBytes = 64 * 1_024

const maxEngineHeaderBytes = 64 * 1_024
const connectMs = 10_000

/** llama-server gives up an idle connection after five seconds: one is taken again only well before that. */
const idleMs = 3_000

interface Flight {
  /** What the engine calls the model. */
  readonly model: string | undefined
  cut: () => void
}

/** Requests in flight by service. Those that a daemon's model answers end with no process, so that they are cut here. */
export class InFlight {
  /** To engines, kept alive. An answer may take as long as it likes, as its headers may. */
  readonly connections = new Agent({ keepAlive: true, timeout: idleMs })
  readonly #byService = new Map<string, Set<Flight>>()

  /** Until it is disposed of. */
  add(service: string, flight: Flight): Disposable {
    const flights = this.#byService.get(service) ?? new Set()
    this.#byService.set(service, flights.add(flight))
    return {
      [Symbol.dispose]: () => {
        flights.delete(flight)
        if (flights.size === 0) this.#byService.delete(service)
      },
    }
  }

  cut(service: string, models: readonly string[]): void {
    for (const { model, cut } of [...(this.#byService.get(service) ?? [])])
      if (model !== undefined && models.includes(model)) cut()
  }
}

export interface Forwarded {
  /** As namespace/name. */
  readonly service: string
  readonly inFlight: InFlight
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** What was read of the body so far; the rest follows from the request. */
  readonly read?: HeldPieces
  readonly engine: {
    /** Absent = 127.0.0.1. */
    readonly host?: string | undefined
    readonly port: number
    readonly title: string
    readonly runtime: string
    /** What the engine calls the model that it serves. */
    readonly model: string | undefined
    /** What it asks for. */
    readonly engineKey: string | undefined
  }
  /** Headers that are not for the engine. */
  readonly hidden?: readonly string[]
  readonly target: Target
  /** An engine that has no figures (404) is answered for with none, so that nobody takes the service for down. */
  readonly isScrape?: boolean
  readonly exchange: Exchange
}

/**
 * Sends a request to an engine and its answer to the client, piece by piece as each comes, and neither faster than the other side takes it. A
 * client that goes away is gone for the engine at once. Throws Refusal where there is no answer; an answer that breaks off is cut.
 */
export async function forward(forwarded: Forwarded): Promise<void> {
  const { service, inFlight, response, engine } = forwarded
  const flight = { model: engine.model, cut: () => void response.destroy() }
  using _ = inFlight.add(service, flight)
  await send(forwarded, flight)
}

async function send(forwarded: Forwarded, flight: Flight): Promise<void> {
  const { request, response, engine, target, inFlight } = forwarded
  const { headers, body } = await messageFor(forwarded)
  if (response.destroyed) return
  const asked = requestTo({
    ...{ agent: inFlight.connections, host: engine.host ?? '127.0.0.1', port: engine.port },
    ...{ method: request.method, path: enginePath(engine.runtime, target) },
    ...{ headers, maxHeaderSize: maxEngineHeaderBytes },
  })
  limitConnecting(asked)
  const { promise, resolve, reject } = Promise.withResolvers<undefined>()
  const fail = (error: unknown): void => {
    // Nobody is there to be told.
    if (response.destroyed) resolve(undefined)
    else reject(error instanceof Refusal ? error : engineFailure(engine.title, error))
  }
  flight.cut = () => fail(wasCut(engine.title))
  asked.once('response', (answer) => {
    answer.once('error', fail)
    try {
      passOn(answer, forwarded, () => resolve(undefined))
    } catch (error) {
      // Node sends no status below 100, which its own parser takes.
      fail(error)
    }
  })
  asked.once('upgrade', (_answer, socket) => {
    socket.destroy()
    fail(new Error('The engine changed the protocol'))
  })
  asked.on('error', fail)
  const onClose = (): void => resolve(undefined)
  response.once('close', onClose)
  if (body instanceof Readable) pipeline(body, asked, (error) => error && fail(error))
  else asked.end(body)
  try {
    await promise
  } finally {
    response.off('close', onClose)
    // An answer that came to its end leaves the connection to the next request; one that came before the body did ends it.
    if (!response.writableEnded || !asked.writableFinished) asked.destroy()
  }
}

/** The answer of an engine, to the client. Throws where its head cannot be sent. */
function passOn(
  answer: IncomingMessage,
  { request, response, exchange, engine, target, isScrape }: Forwarded,
  done: () => void,
): void {
  if (isScrape === true && answer.statusCode === 404) {
    answerNoFigures(response)
    answer.resume().once('end', done)
    return
  }
  if (isStatusAlone(engine.runtime, target)) {
    response.writeHead(answer.statusCode ?? 502, closeIfUnread(request)).end()
    answer.resume().once('end', done)
    return
  }
  response.writeHead(answer.statusCode ?? 502, { ...passedOn(answer.headers), ...closeIfUnread(request) })
  answer.on('data', (piece: Buffer) => {
    exchange.streams()
    if (response.write(piece)) return
    answer.pause()
    response.once('drain', () => answer.resume())
  })
  answer.once('end', () => {
    response.end()
    done()
  })
  // What came together with the headers is sent together with them; the headers wait for nothing that comes later.
  process.nextTick(() => response.flushHeaders())
}

export const answerNoFigures = (response: ServerResponse): void =>
  void response
    .writeHead(200, {
      'content-type': 'text/plain; version=0.0.4',
      'content-length': 0,
      ...closeIfUnread(response.req),
    })
    .end()

function limitConnecting(asked: ClientRequest): void {
  asked.once('socket', (socket) => {
    if (!socket.connecting) return
    const limit = setTimeout(() => asked.destroy(new ConnectTimeout()), connectMs)
    for (const event of ['connect', 'close']) socket.once(event, () => clearTimeout(limit))
  })
}

class ConnectTimeout extends Error {
  override readonly name = 'ConnectTimeout'
  readonly code = 'ETIMEDOUT'
}

/** What the engine is sent. Throws Refusal. */
async function messageFor(forwarded: Forwarded) {
  const { request, engine, hidden = [] } = forwarded
  const headers = requestHeaders(request.headers, hidden, engine)
  if (!hasBody(request)) return { headers, body: undefined }
  const encoding = request.headers['content-encoding'] ?? 'identity'
  if (encoding.toLowerCase() !== 'identity') throw encodingRefused
  const rules = rulesOf(engine.runtime)
  const json = new JsonBody(rules, engine.model)
  const length = Number(headers['content-length'] ?? Infinity)
  if (length > maxReadFirstBytes && !(length === Infinity && rules.needsLength)) {
    // Without a length Node would send the body of a GET as if it were the next request.
    if (length === Infinity) headers['transfer-encoding'] = 'chunked'
    else headers['content-length'] = length + json.addedBytes
    return { headers, body: Readable.from(pieces(forwarded, json), { objectMode: false }) }
  }
  const body = await wholeBody(forwarded, json)
  headers['content-length'] = body.length
  return { headers, body }
}

/** What there is of it where the client has left. Throws Refusal. */
async function wholeBody({ request, response, ...forwarded }: Forwarded, json: JsonBody): Promise<Buffer> {
  using read = forwarded.read ?? new HeldPieces()
  for (let piece = await nextPiece(request); piece; piece = await nextPiece(request)) read.add(piece)
  const whole: Buffer[] = []
  for (let piece = read.next(); piece; piece = read.next()) whole.push(json.push(piece))
  // A part of a body is not judged: its client has left.
  if (!response.destroyed) json.end()
  return Buffer.concat(whole)
}

/** What has come of a body since it was asked for last, or comes next; undefined at its end, and when the client leaves. */
export async function nextPiece(request: IncomingMessage): Promise<Buffer | undefined> {
  while (!request.destroyed) {
    const piece = request.read() as Buffer | null
    if (piece !== null) return piece
    if (request.complete && request.readableLength === 0) return undefined
    await somethingOf(request)
  }
  return undefined
}

function somethingOf(request: IncomingMessage): Promise<void> {
  const events = ['readable', 'end', 'close'] as const
  return new Promise((resolve) => {
    const done = (): void => {
      for (const event of events) request.off(event, done)
      resolve()
    }
    for (const event of events) request.once(event, done)
  })
}

/** The body as it comes, as the engine may have it. Throws Refusal. */
async function* pieces({ request, response, read }: Forwarded, json: JsonBody): AsyncGenerator<Buffer> {
  let bytes = 0
  for (;;) {
    const piece = read?.next() ?? (await nextPiece(request))
    if (!piece) break
    bytes += piece.length
    if (bytes > maxBodyBytes) throw bodyTooLarge
    const changed = json.push(piece)
    if (changed.length > 0) yield changed
  }
  if (!response.destroyed) json.end()
}

function engineFailure(title: string, cause: unknown): Refusal {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  const why = failures[code] ?? `its engine broke off or gave no answer that can be passed on (${code || 'no code'})`
  const message = `${title} did not answer: ${why}. metal-agent status and metal-agent logs say more; ask again once it serves.`
  return new Refusal('5xx', 502, 'engine_failed', message, { cause })
}

const wasCut = (title: string): Refusal =>
  new Refusal(
    ...(['5xx', 503, 'not_serving'] as const),
    `${title} is no longer serving: it was stopped, and this request was cut off. metal-agent status says why.`,
  )

const failures: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'its engine has ended',
  ECONNRESET: 'its engine ended while it worked',
  ETIMEDOUT: 'its engine accepts no connection',
  HPE_HEADER_OVERFLOW: `its engine answered with more than ${maxEngineHeaderBytes / 1_024} KiB of headers`,
}

/** Each concerns one connection and not the message. */
const hopByHop = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade', 'http2-settings'],
])

/** Who asked by which way is nothing for an engine, and a client could say anything of it. */
const isOfTheWay = (name: string): boolean =>
  name === 'host' || name === 'forwarded' || name === 'expect' || name.startsWith('x-forwarded-')

function requestHeaders(
  headers: IncomingHttpHeaders,
  hidden: readonly string[],
  { runtime, engineKey }: Forwarded['engine'],
): OutgoingHttpHeaders {
  // It has a key of its own, or may get one: what a client sends for a key is not for it.
  const own = runtime === 'omlx' ? keyHeaders : []
  const kept = passedOn(headers, (name) => !isOfTheWay(name) && !hidden.includes(name) && !own.includes(name))
  return engineKey === undefined ? kept : { ...kept, authorization: `Bearer ${engineKey}` }
}

function passedOn(headers: IncomingHttpHeaders, isPassed: (name: string) => boolean = () => true): OutgoingHttpHeaders {
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
