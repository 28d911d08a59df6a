import { randomUUID } from 'node:crypto'
import {
  type AgentLink,
  LinkError,
  type Listener,
  type Looker,
  retryDelayMs,
  type Unsubscribe,
} from '../../contract/client.ts'
import { type CommandInput, commandRequest, type CommandResult } from '../../contract/commands.ts'
import { type StreamInput, type StreamItem, type StreamName, type StreamOf, streamRequest } from '../../contract/log.ts'
import { type Answer, answers, type QueryInput, type QueryName, query as querySchema } from '../../contract/queries.ts'
import { type AgentSnapshot, mirrored } from '../../contract/snapshot.ts'
import type { AgentDoor } from '../agent-door.ts'
import type { AgentClient } from './agent-client.ts'
import { paced } from '../feeds.ts'

/** At most four snapshots a second, as on every carrier. */
const followIntervalMs = 250

/** A link to an agent of this process: nothing but the contract crosses it, so that the agent could move out tomorrow. */
export function inProcessLink(door: AgentDoor): AgentLink {
  return {
    follow({ next }, looker) {
      const pace = paced(followIntervalMs, () => next(door.get(looker)))
      const unsubscribe = door.subscribe(() => pace.due(), looker)
      pace.due()
      return () => {
        unsubscribe()
        pace.stop()
      }
    },
    snapshot: () => door.look(),
    command: async (command, requestId = randomUUID()) => door.command(commandRequest.parse({ requestId, command })),
    query: async (query, signal) => answerTo(query.name, await door.query(querySchema.parse(query), signal)),
    // The door answers a request with its own items.
    stream: (request, listener) => door.stream(streamRequest.parse(request), listener as Listener<StreamItem>),
  }
}

/** By name, so that the compiler sees which answer belongs to which query. */
const parsers: { readonly [N in QueryName]: { parse(answer: unknown): Answer<N> } } = answers

const answerTo = <N extends QueryName>(name: N, answer: Answer): Answer<N> => parsers[name].parse(answer)

export interface LastingLinkOptions {
  /** Throws LinkError. */
  readonly connect: () => Promise<AgentClient>
  /** How long {@link LastingLink.watch} waits after so many failures in a row, from 1 on. */
  readonly retryDelayMs?: (failures: number) => number
}

/** The state of the connection to an agent that comes and goes; times are milliseconds of this computer's clock. */
export type AgentMirror =
  | { readonly state: 'connecting' }
  | { readonly state: 'live'; readonly snapshot: AgentSnapshot }
  /** Since `since`; `snapshot` is how it was before, if it was ever seen. */
  | {
      readonly state: 'away'
      readonly snapshot: AgentSnapshot | undefined
      readonly since: number
      readonly retryAt: number
      readonly message: string
    }
  /** Not tried again: only a person can fix it. */
  | { readonly state: 'refused'; readonly message: string }

interface Opened {
  readonly client: AgentClient
  readonly bootId: string
}

/** A link that outlives its connection: connects on the first request, and again after the connection broke. */
export class LastingLink implements AgentLink, AsyncDisposable {
  readonly #connect: () => Promise<AgentClient>
  readonly #retryDelayMs: (failures: number) => number
  #opened: Promise<Opened> | undefined
  #isClosed = false

  constructor({ connect, retryDelayMs: delayMs = retryDelayMs }: LastingLinkOptions) {
    this.#connect = connect
    this.#retryDelayMs = delayMs
  }

  /** The agent through its restarts: while it is away it is never shown as if it were there. */
  watch(listener: (mirror: AgentMirror) => void): Unsubscribe {
    let snapshot: AgentSnapshot | undefined
    let since: number | undefined
    let failures = 0
    let timer: NodeJS.Timeout | undefined
    let unfollow: Unsubscribe = () => undefined
    const follow = () => {
      unfollow = this.follow({
        next: (next) => {
          snapshot = mirrored(snapshot, next)
          since = undefined
          failures = 0
          listener({ state: 'live', snapshot })
        },
        end: ({ code, message }) => {
          if (code !== 'gone') {
            listener({ state: 'refused', message })
            return
          }
          failures += 1
          since ??= Date.now()
          const delay = this.#retryDelayMs(failures)
          timer = setTimeout(follow, delay)
          listener({ state: 'away', snapshot, since, retryAt: Date.now() + delay, message })
        },
      })
    }
    listener({ state: 'connecting' })
    follow()
    return () => {
      clearTimeout(timer)
      unfollow()
    }
  }

  follow(listener: Listener<AgentSnapshot>, looker?: Looker): Unsubscribe {
    return this.#listen(listener, (client) => client.follow(listener, looker))
  }

  async snapshot(): Promise<AgentSnapshot> {
    const { client } = await this.#current()
    return await client.snapshot()
  }

  /**
   * Where the connection breaks the same agent is asked again under the same id, which it carries out once; another one would not
   * know about it, and may not be asked to do it again.
   */
  async command(command: CommandInput, requestId: string = randomUUID()): Promise<CommandResult> {
    const { client, bootId } = await this.#current()
    try {
      return await client.command(command, requestId)
    } catch (error) {
      if (client.isOpen || !(error instanceof LinkError) || error.code !== 'gone') throw error
      const again = await this.#current().catch(() => undefined)
      if (again?.bootId === bootId) return await again.client.command(command, requestId)
      const message = `The agent went away during the command ${command.name}: check whether it was carried out before you repeat it.`
      throw new LinkError('gone', message, { cause: error })
    }
  }

  query<N extends QueryName>(query: Extract<QueryInput, { name: N }>, signal?: AbortSignal): Promise<Answer<N>>
  async query(query: QueryInput, signal?: AbortSignal): Promise<Answer> {
    const { client } = await this.#current()
    return await client.query(query, signal)
  }

  stream<N extends StreamName>(request: StreamOf<N>, listener: Listener<StreamItem<N>>): Unsubscribe
  stream(request: StreamInput, listener: Listener<StreamItem>): Unsubscribe {
    return this.#listen(listener, (client) => client.stream(request, listener))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    // The request that opened the connection reports where that failed.
    const opened = await this.#opened?.catch(() => undefined)
    await opened?.client.close()
  }

  #listen<T>({ end }: Listener<T>, begin: (client: AgentClient) => Unsubscribe): Unsubscribe {
    let hasLeft = false
    let stop: Unsubscribe = () => undefined
    this.#current().then(
      ({ client }) => {
        if (!hasLeft) stop = begin(client)
      },
      (error: unknown) => {
        if (!(error instanceof LinkError)) throw error
        if (!hasLeft) end(error)
      },
    )
    return () => {
      hasLeft = true
      stop()
    }
  }

  async #current(): Promise<Opened> {
    const before = this.#opened
    const known = await before?.catch(() => undefined)
    if (this.#isClosed) throw new LinkError('gone', 'The connection to the agent was closed here.')
    if (known?.client.isOpen === true) return known
    // Unless another call did so meanwhile.
    if (this.#opened === before || this.#opened === undefined) this.#opened = this.#open()
    return await this.#opened
  }

  async #open(): Promise<Opened> {
    const client = await this.#connect()
    try {
      const { bootId } = await client.snapshot()
      return { client, bootId }
    } catch (error) {
      await client.close()
      throw error
    }
  }
}
