import type { z } from 'zod'
import {
  type AgentLink,
  asLinkError,
  LinkError,
  linkFailure,
  type Listener,
  type Unsubscribe,
  withdrawn,
} from '../../contract/client.ts'
import {
  followLine,
  heartbeatMs,
  httpAnswers,
  httpPaths,
  lookerParameter,
  streamLine,
  tokenParameter,
} from '../../contract/http.ts'
import type { StreamInput, StreamItem, StreamName, StreamOf } from '../../contract/log.ts'
import { type Answer, answers, type QueryInput, type QueryName } from '../../contract/queries.ts'
import { linkWords } from '../words/window.ts'

/** No answer takes that long, a look at a model elsewhere a minute: without one by then, the agent or the way to it is gone. */
const answerLimitMs = 70_000

const silenceMs = 2 * heartbeatMs

interface HttpPage {
  /** Origin of the page, such as `http://127.0.0.1:1234`. */
  readonly origin: string
  /** Taken from the page's URL. */
  readonly token: string | undefined
  readonly storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>
}

/** The agent that serves this page. */
export function linkOverHttp({ origin, token, storage }: HttpPage): AgentLink {
  const access = new Access(token, storage, async (token) => {
    const response = await send(
      new URL(httpPaths.session, origin),
      { token },
      undefined,
      AbortSignal.timeout(answerLimitMs),
    )
    return (await answerOf(response, httpAnswers.session)).bearer
  })

  /** GET without a body, else POST. */
  const request = async (path: string, body: unknown, signal: AbortSignal): Promise<Response> => {
    const response = await send(new URL(path, origin), body, await access.bearer(), signal)
    if (response.status === 401) access.forget()
    return response
  }

  const ask = async <T>(path: string, body: unknown, schema: z.ZodType<T>, leaving?: AbortSignal): Promise<T> => {
    const late = AbortSignal.timeout(answerLimitMs)
    try {
      return await answerOf(await request(path, body, leaving ? AbortSignal.any([leaving, late]) : late), schema)
    } catch (error) {
      throw leaving?.aborted === true ? withdrawn(error) : error
    }
  }

  const subscribe = <T>(path: string, body: unknown, line: z.ZodType<Line<T>>, listener: Listener<T>): Unsubscribe => {
    const leaving = new AbortController()
    const { signal } = leaving
    readLines((until) => request(path, body, until), line, listener.next, signal).then(
      (error) => {
        if (!signal.aborted) listener.end(error)
      },
      (error: unknown) => {
        if (signal.aborted) return
        if (!(error instanceof LinkError)) throw error
        listener.end(error)
      },
    )
    return () => leaving.abort()
  }

  function query<N extends QueryName>(input: Extract<QueryInput, { name: N }>, signal?: AbortSignal): Promise<Answer<N>>
  function query(input: QueryInput, signal?: AbortSignal): Promise<Answer> {
    return ask<Answer>(httpPaths.query, input, answers[input.name], signal)
  }

  function stream<N extends StreamName>(input: StreamOf<N>, listener: Listener<StreamItem<N>>): Unsubscribe
  function stream(input: StreamInput, listener: Listener<StreamItem>): Unsubscribe {
    return subscribe(httpPaths.stream, input, streamLine, listener)
  }

  return {
    query,
    follow: (listener, looker) => {
      const query = looker === undefined ? '' : `?${lookerParameter}=${looker}`
      return subscribe(`${httpPaths.follow}${query}`, undefined, followLine, listener)
    },
    snapshot: () => ask(httpPaths.snapshot, undefined, httpAnswers.snapshot),
    command: (command, requestId = crypto.randomUUID()) =>
      ask(httpPaths.command, { requestId, command }, httpAnswers.command),
    stream,
  }
}

type Line<T> =
  | { readonly type: 'next'; readonly item: T }
  | { readonly type: 'heartbeat' }
  | ({ readonly type: 'end' } & z.infer<typeof linkFailure>)

/** @returns why it ended. */
async function readLines<T>(
  open: (signal: AbortSignal) => Promise<Response>,
  schema: z.ZodType<Line<T>>,
  next: (item: T) => void,
  leaving: AbortSignal,
): Promise<LinkError> {
  const silent = new AbortController()
  let alarm = setTimeout(() => silent.abort(), silenceMs)
  try {
    const response = await open(AbortSignal.any([leaving, silent.signal]))
    if (!response.ok || response.body === null) throw await failureOf(response)
    for await (const text of lines(response.body)) {
      clearTimeout(alarm)
      alarm = setTimeout(() => silent.abort(), silenceMs)
      const line = understood(schema, text)
      if (leaving.aborted) break
      if (line.type === 'end') return asLinkError(line)
      if (line.type === 'next') next(line.item)
    }
    return gone()
  } catch (error) {
    throw error instanceof LinkError ? error : gone(error)
  } finally {
    clearTimeout(alarm)
  }
}

async function send(url: URL, body: unknown, bearer: string | undefined, signal: AbortSignal): Promise<Response> {
  try {
    return await fetch(url, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal,
      cache: 'no-store',
      credentials: 'omit',
      redirect: 'error',
    })
  } catch (error) {
    throw gone(error)
  }
}

async function answerOf<T>(response: Response, schema: z.ZodType<T>): Promise<T> {
  if (!response.ok) throw await failureOf(response)
  return understood(schema, await textOf(response))
}

async function failureOf(response: Response): Promise<LinkError> {
  return asLinkError(understood(linkFailure, await textOf(response)))
}

const textOf = (response: Response): Promise<string> =>
  response.text().catch((error: unknown) => {
    throw gone(error)
  })

/** Throws a LinkError where an agent of another version, or no agent at all, wrote the text. */
function understood<T>(schema: z.ZodType<T>, text: string): T {
  try {
    return schema.parse(JSON.parse(text))
  } catch (error) {
    throw new LinkError('misunderstood', linkWords.misunderstood, { cause: error })
  }
}

const gone = (cause?: unknown) => new LinkError('gone', linkWords.gone, { cause })

const storageKey = 'metalbar.bearer'

/** The right of this page to ask the agent: a token that is good once, then the bearer it is exchanged for. */
export class Access {
  readonly #storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>
  readonly #exchange: (token: string) => Promise<string>
  #token: string | undefined
  #underWay: Promise<string> | undefined

  /** @param token The page's own; without one the page uses the bearer it had before it was reloaded. */
  constructor(
    token: string | undefined,
    storage: Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>,
    exchange: (token: string) => Promise<string>,
  ) {
    this.#token = token
    this.#storage = storage
    this.#exchange = exchange
  }

  /** Throws LinkError. */
  async bearer(): Promise<string> {
    if (this.#token === undefined) {
      const bearer = this.#storage.getItem(storageKey)
      if (bearer === null) throw new LinkError('refused', linkWords.noAccess)
      return bearer
    }
    this.#underWay ??= this.#redeem(this.#token).finally(() => (this.#underWay = undefined))
    return this.#underWay
  }

  /** Drops a bearer that the agent no longer accepts. */
  forget(): void {
    this.#storage.removeItem(storageKey)
  }

  /** An agent that does not answer leaves the token good. */
  async #redeem(token: string): Promise<string> {
    try {
      const bearer = await this.#exchange(token)
      this.#storage.setItem(storageKey, bearer)
      this.#token = undefined
      return bearer
    } catch (error) {
      if (!(error instanceof LinkError && error.code === 'gone')) this.#token = undefined
      throw error
    }
  }
}

/** Takes the token out of the address bar, where it would be seen and kept in the history. */
export function takeToken({ location, history }: AddressBar): string | undefined {
  const token = new URLSearchParams(location.hash.slice(1)).get(tokenParameter)
  if (location.hash !== '') history.replaceState(null, '', location.pathname)
  return token ?? undefined
}

/** What of a Window it takes. */
interface AddressBar {
  readonly location: { readonly hash: string; readonly pathname: string }
  readonly history: { replaceState(data: null, unused: string, url: string): void }
}

/** The text of a body, line by line as it comes; what follows the last line break is not a line. */
export async function* lines(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string, void> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const parts = (rest + value).split('\n')
      rest = parts.pop() ?? ''
      yield* parts
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

/** What it takes of a Document. */
interface SeenDocument {
  readonly visibilityState: string
  addEventListener(type: 'visibilitychange', listener: () => void): void
  removeEventListener(type: 'visibilitychange', listener: () => void): void
}

/**
 * The link of a page whose tab may be hidden for hours: meanwhile nothing is sent to it, and nothing measured for it. What it follows goes
 * on where it was as soon as it is seen. The app does the same for its own window.
 */
export function whileSeen(link: AgentLink, page: SeenDocument): AgentLink {
  function stream<N extends StreamName>(request: StreamOf<N>, listener: Listener<StreamItem<N>>): Unsubscribe
  function stream(request: StreamInput, listener: Listener<StreamItem>): Unsubscribe {
    // An answer goes on in a hidden tab: begun again, it would ask the model a second time.
    if (request.name === 'ask') return link.stream(request, listener)
    let { from } = request
    const next = (item: StreamItem<'log'>) => {
      from = item.end
      listener.next(item)
    }
    return pausing(page, { ...listener, next }, (each) => link.stream({ ...request, ...(from && { from }) }, each))
  }
  return {
    ...link,
    follow: (listener, looker) => pausing(page, listener, (each) => link.follow(each, looker)),
    stream,
  }
}

function pausing<T>(page: SeenDocument, listener: Listener<T>, begin: (listener: Listener<T>) => Unsubscribe) {
  let stop: Unsubscribe | undefined
  const leave = () => {
    page.removeEventListener('visibilitychange', turn)
    stop?.()
    stop = undefined
  }
  const end: typeof listener.end = (error) => {
    leave()
    listener.end(error)
  }
  const turn = () => {
    if (page.visibilityState !== 'hidden') stop ??= begin({ ...listener, end })
    else {
      stop?.()
      stop = undefined
    }
  }
  page.addEventListener('visibilitychange', turn)
  turn()
  return leave
}
