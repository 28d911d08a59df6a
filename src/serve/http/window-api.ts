import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import type { z } from 'zod'
import { LinkError, type LinkErrorCode, type Listener, type Looker, type Unsubscribe } from '../../contract/client.ts'
import { type CommandRequest, type CommandResult, trustOf } from '../../contract/commands.ts'
import {
  type FollowLine,
  followLooker,
  heartbeatMs,
  httpBodies,
  httpPaths,
  lookerParameter,
  type StreamLine,
} from '../../contract/http.ts'
import { trustOfQuery } from '../../contract/queries.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'
import { type AgentDoor, failuresTo, notUnderstood } from '../agent-door.ts'
import { feedSnapshots, feedStream, snapshotJson } from '../feeds.ts'
import { bearerIn, checkContentType, checkMethod, HttpRefusal, readJson, strictHeaders } from './requests.ts'

const windowMs = 60_000
/** More attempts than a person needs who pastes an old URL. */
const freeOfCharge = 10

/** Counts wrong tokens and bearers, so that guessing is slowed down; a right one is taken however many were wrong before. */
class WrongKeys {
  readonly #now: () => number
  #times: number[] = []

  /** `now`: monotonic milliseconds. */
  constructor(now: () => number) {
    this.#now = now
  }

  /** Whether there were too many of late. */
  add(): boolean {
    const now = this.#now()
    this.#times = [...this.#times.filter((at) => at > now - windowMs), now].slice(-freeOfCharge - 1)
    return this.#times.length > freeOfCharge
  }
}

/** From printing a URL to opening it: an old URL in a terminal's scrollback is worth nothing. */
const tokenMs = 2 * 60_000
/** A page that was unused for so long asks for a new URL. */
const bearerIdleMs = 12 * 3_600_000
/** More windows than a person has; the window unused for longest gives way. */
const maxKeys = 64

interface Key {
  readonly digest: Buffer
  expiresAt: number
}

/** The keys to the window's carrier: tokens that a URL carries once, and the bearers they are exchanged for. */
export class WindowKeys {
  readonly #now: () => number
  #tokens: Key[] = []
  #bearers: Key[] = []

  /** `now`: monotonic milliseconds. */
  constructor(now: () => number) {
    this.#now = now
  }

  mintToken(): string {
    const token = newSecret()
    this.#tokens = [...this.#tokens, { digest: digestOf(token), expiresAt: this.#now() + tokenMs }].slice(-maxKeys)
    return token
  }

  /** A bearer for a token, which is worth nothing after it. */
  exchange(token: string): string | undefined {
    const key = this.#find(this.#tokens, token)
    if (!key) return undefined
    this.#tokens = this.#tokens.filter((other) => other !== key)
    const bearer = newSecret()
    this.#bearers = [...this.#bearers, this.#fresh(digestOf(bearer))].slice(-maxKeys)
    return bearer
  }

  /** Also notes that it is in use. */
  accepts(bearer: string): boolean {
    const key = this.#find(this.#bearers, bearer)
    if (!key) return false
    this.#bearers = [...this.#bearers.filter((other) => other !== key), this.#fresh(key.digest)]
    return true
  }

  #fresh(digest: Buffer): Key {
    return { digest, expiresAt: this.#now() + bearerIdleMs }
  }

  /** Looks at every key in full, so that the time it takes tells nothing. */
  #find(keys: readonly Key[], secret: string): Key | undefined {
    const digest = digestOf(secret)
    const now = this.#now()
    return keys.reduce<Key | undefined>(
      (found, key) => (timingSafeEqual(key.digest, digest) && key.expiresAt > now ? key : found),
      undefined,
    )
  }
}

const newSecret = () => randomBytes(32).toString('base64url')

const digestOf = (secret: string) => createHash('sha256').update(secret).digest()

/** A window has two. */
const maxStreams = 16

type NextLine = (FollowLine | StreamLine) & { type: 'next' }

interface StreamOptions<T> {
  readonly response: ServerResponse
  readonly begin: (listener: Listener<T>) => Unsubscribe
  readonly jsonOf?: (item: T) => string
  /** Called regularly while the stream is open. */
  readonly onHeartbeat: () => void
}

/** Streams that stay open until their page leaves or the agent ends. */
class OpenStreams {
  readonly #ends = new Set<(error: LinkError) => void>()

  /** Throws {@link HttpRefusal} where there are too many. */
  add<Item extends NextLine['item']>({
    response,
    begin,
    jsonOf = JSON.stringify,
    onHeartbeat,
  }: StreamOptions<Item>): void {
    if (this.#ends.size >= maxStreams) {
      throw new HttpRefusal({
        status: 503,
        code: 'refused',
        message: `${maxStreams} streams are open already: close another window of this agent.`,
        headers: { 'retry-after': '5' },
      })
    }
    response.writeHead(200, { ...strictHeaders, 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' })
    response.flushHeaders()
    const write = (line: object) => void response.write(`${JSON.stringify(line)}\n`)
    const heartbeat = setInterval(() => {
      onHeartbeat()
      if (!response.writableNeedDrain) write({ type: 'heartbeat' })
    }, heartbeatMs)
    let unsubscribe: Unsubscribe = () => undefined
    const stop = () => {
      clearInterval(heartbeat)
      unsubscribe()
      this.#ends.delete(end)
    }
    const end = ({ code, message }: LinkError) => {
      stop()
      write({ type: 'end', code, message })
      response.end()
    }
    this.#ends.add(end)
    response.once('close', stop)
    const next = (item: Item) => void response.write(`{"type":"next","item":${jsonOf(item)}}\n`)
    unsubscribe = begin({ next, end })
  }

  endAll(): void {
    for (const end of this.#ends) end(new LinkError('gone', 'The agent ended.'))
  }
}

/** Leaves no more guesses a second than there can be connections. */
const wrongKeyDelayMs = 1_000

interface WindowApiOptions {
  readonly door: AgentDoor
  readonly keys: WindowKeys
  /** Called for defects of the agent itself, not for errors of a client. */
  readonly onError: (error: unknown) => void
  /** Monotonic milliseconds. */
  readonly now: () => number
}

interface Call {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly bearer: string
}

/** The four verbs, each for clients with a bearer. */
export class WindowApi {
  readonly #door: AgentDoor
  readonly #keys: WindowKeys
  readonly #asLinkError: (error: unknown) => LinkError
  readonly #streams = new OpenStreams()
  readonly #wrongKeys: WrongKeys

  constructor({ door, keys, onError, now }: WindowApiOptions) {
    this.#door = door
    this.#keys = keys
    this.#wrongKeys = new WrongKeys(now)
    this.#asLinkError = failuresTo(onError)
  }

  /** Throws {@link HttpRefusal} and {@link ClientGoneError}. */
  async answer(path: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (path === httpPaths.session) {
      await this.#exchange(request, response)
      return
    }
    const bearer = bearerIn(request.headers)
    if (bearer === undefined) throw noSession()
    if (!this.#keys.accepts(bearer)) throw await this.#wrongKey(noSession())
    await this.#answerTo(path, { request, response, bearer })
  }

  endStreams(): void {
    this.#streams.endAll()
  }

  async #exchange(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { token } = await bodyOf('session', request)
    const bearer = this.#keys.exchange(token)
    if (bearer === undefined) throw await this.#wrongKey(usedToken())
    sendJson(response, { bearer })
  }

  async #answerTo(path: string, { request, response, bearer }: Call): Promise<void> {
    const feed = { door: this.#door, writable: response, asLinkError: this.#asLinkError }
    const onHeartbeat = () => void this.#keys.accepts(bearer)
    switch (path) {
      case httpPaths.snapshot:
        checkMethod(request.method, ['GET'])
        sendJson(response, await this.#ask(() => this.#door.look()))
        return
      case httpPaths.follow: {
        checkMethod(request.method, ['GET'])
        const looking = { ...feed, looker: lookerIn(request) }
        const begin = (listener: Listener<AgentSnapshot>) => feedSnapshots(looking, listener)
        this.#streams.add({ response, onHeartbeat, begin, jsonOf: snapshotJson })
        return
      }
      case httpPaths.command: {
        const asked = await bodyOf('command', request)
        sendJson(response, await this.#ask(() => this.#command(asked)))
        return
      }
      case httpPaths.query: {
        const asked = await bodyOf('query', request)
        if (trustOfQuery(asked) === 'shell') throw notForPages()
        const leaving = new AbortController()
        response.once('close', () => leaving.abort())
        // It may have left while its question was read.
        if (response.destroyed) leaving.abort()
        sendJson(response, await this.#ask(() => this.#door.query(asked, leaving.signal)))
        return
      }
      case httpPaths.stream: {
        const asked = await bodyOf('stream', request)
        this.#streams.add({ response, onHeartbeat, begin: (listener) => feedStream(feed, asked, listener) })
        return
      }
      default:
        throw new HttpRefusal({ status: 404, code: 'misunderstood', message: 'This agent does not know that path.' })
    }
  }

  #command(asked: CommandRequest): Promise<CommandResult> {
    if (trustOf(asked.command) === 'page') return this.#door.command(asked)
    const message =
      'A page in a browser may not choose what is run on this machine, or for which cluster: use the app, or metal-agent in a terminal.'
    return Promise.resolve({ outcome: 'refused', by: 'agent', message })
  }

  async #ask<T>(question: () => T | Promise<T>): Promise<T> {
    try {
      return await question()
    } catch (error) {
      const { code, message } = this.#asLinkError(error)
      throw new HttpRefusal({ status: statuses[code], code, message })
    }
  }

  /** A right key is taken at once, whatever others try. */
  async #wrongKey(refusal: HttpRefusal): Promise<HttpRefusal> {
    if (!this.#wrongKeys.add()) return refusal
    await delay(wrongKeyDelayMs)
    const { code, message } = refusal
    return new HttpRefusal({ status: 429, code, message, headers: { 'retry-after': '60' } })
  }
}

const statuses: Readonly<Record<LinkErrorCode, number>> = { gone: 503, refused: 422, misunderstood: 400 }

const notForPages = () =>
  new HttpRefusal({
    status: statuses.refused,
    code: 'refused',
    message: 'A page in a browser may not name files of this machine: use the app, or metal-agent in a terminal.',
  })

const noSession = () =>
  new HttpRefusal({
    status: 401,
    code: 'refused',
    message: 'This window has no access to the agent, or no longer has it: metal-agent ui prints a new address.',
    headers: { 'www-authenticate': 'Bearer' },
  })

const usedToken = () =>
  new HttpRefusal({
    status: 401,
    code: 'refused',
    message: 'This address of the window was already used or is too old: metal-agent ui prints a new one.',
    headers: { 'www-authenticate': 'Bearer' },
  })

/** Throws {@link HttpRefusal}. */
function lookerIn({ url = '' }: IncomingMessage): Looker {
  const looker = followLooker.safeParse(new URLSearchParams(url.split('?', 2)[1]).get(lookerParameter) ?? undefined)
  if (looker.success) return looker.data
  const { code, message } = notUnderstood('follow request', looker.error)
  throw new HttpRefusal({ status: 400, code, message })
}

/** Throws {@link HttpRefusal} and {@link ClientGoneError}. */
async function bodyOf<N extends keyof typeof httpBodies>(
  name: N,
  request: IncomingMessage,
): Promise<z.output<(typeof httpBodies)[N]>>
async function bodyOf(name: keyof typeof httpBodies, request: IncomingMessage): Promise<unknown> {
  checkMethod(request.method, ['POST'])
  checkContentType(request.headers)
  const body = httpBodies[name].safeParse(await readJson(request))
  if (body.success) return body.data
  const { code, message } = notUnderstood(`${name} request`, body.error)
  throw new HttpRefusal({ status: 400, code, message })
}

function sendJson(response: ServerResponse, body: object): void {
  const text = JSON.stringify(body)
  response.writeHead(200, {
    ...strictHeaders,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
  })
  response.end(text)
}
