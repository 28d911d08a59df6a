import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import type { z } from 'zod'
import type { LinkError, LinkErrorCode, Listener, Looker } from '../../contract/client.ts'
import { trustOf, type CommandRequest, type CommandResult } from '../../contract/commands.ts'
import { followLooker, httpBodies, httpPaths, lookerParameter } from '../../contract/http.ts'
import { trustOfQuery } from '../../contract/queries.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'
import type { AgentDoor } from '../agent-door.ts'
import { failuresTo, notUnderstood } from '../failures.ts'
import { feedSnapshots, feedStream } from '../feeds.ts'
import { snapshotJson } from '../snapshot-json.ts'
import { strictHeaders } from './headers.ts'
import { HttpRefusal } from './http-refusal.ts'
import { OpenStreams } from './open-streams.ts'
import { readJson } from './request-body.ts'
import { bearerIn, checkContentType, checkMethod } from './request-checks.ts'
import type { WindowKeys } from './window-keys.ts'
import { WrongKeys } from './wrong-keys.ts'

/** Leaves no more guesses a second than there can be connections. */
const wrongKeyDelayMs = 1_000

export interface WindowApiOptions {
  readonly door: AgentDoor
  readonly keys: WindowKeys
  /** A defect of ours, not of the client. */
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
    message: 'This window is not connected, or not any more: metal-agent ui prints a new address for it.',
    headers: { 'www-authenticate': 'Bearer' },
  })

const usedToken = () =>
  new HttpRefusal({
    status: 401,
    code: 'refused',
    message: 'This address of the window was used before or is too old: metal-agent ui prints a new one.',
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
