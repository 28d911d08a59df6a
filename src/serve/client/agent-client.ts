import { randomUUID } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { requireOwnSocket, StrangeSocketError } from '../../agent-core/state/socket-path.ts'
import { hasCode, parseJson } from '../../agent-core/util/files.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import {
  type AgentLink,
  asLinkError,
  LinkError,
  type Listener,
  type Looker,
  type Unsubscribe,
  withdrawn,
} from '../../contract/client.ts'
import type { CommandInput, CommandResult } from '../../contract/commands.ts'
import { answers, type Answer, type QueryInput, type QueryName } from '../../contract/queries.ts'
import { protocolVersion, type AgentSnapshot } from '../../contract/snapshot.ts'
import type { StreamInput, StreamItem, StreamName, StreamOf } from '../../contract/log.ts'
import { requestTooLong } from '../agent-door.ts'
import {
  answerFrame,
  type AnswerFrame,
  helloFrame,
  isNobodyThere,
  LineReader,
  maxAnswerBytes,
  maxRequestBytes,
  type RequestInput,
} from '../frames.ts'

export interface ConnectOptions {
  readonly socketPath: string
  /** For the sentence a person reads. */
  readonly stateDir: string
  readonly timeoutMs?: number
}

/** The agent answers within a millisecond; an agent that takes this long is stopped in a debugger or swapped out. */
const answerMs = 5_000
/** What asks the cluster, reads a long file, or looks for a minute at a model elsewhere. */
const queryMs = 70_000
/** What the cluster is slow to take is tried for a while. */
const commandMs = 120_000

/** Throws LinkError. */
export async function connectToAgent(options: ConnectOptions): Promise<AgentClient> {
  const { socketPath, stateDir, timeoutMs = answerMs } = options
  let client: AgentClient | undefined
  try {
    await requireOwnSocket(socketPath, stateDir)
    client = new AgentClient(connect(socketPath), timeoutMs)
    await client.ready
    return client
  } catch (error) {
    await client?.close()
    if (error instanceof LinkError) throw error
    if (isNobodyThere(error)) {
      throw new LinkError(
        'gone',
        `No agent is running on the state folder ${stateDir} (nothing is listening on ${socketPath}): start one with metal-agent, or name another folder with --state-dir.`,
        { cause: error },
      )
    }
    const why = messageOf(error)
    const isRefused = error instanceof StrangeSocketError || hasCode(error, 'EACCES') || hasCode(error, 'EPERM')
    const code = isRefused ? 'refused' : 'gone'
    throw new LinkError(code, `The agent's socket ${socketPath} cannot be reached: ${why}.`, { cause: error })
  }
}

type WithoutId<T> = T extends { id: string } ? Omit<T, 'id'> : never

interface Waiting {
  readonly receive: (frame: AnswerFrame) => void
  readonly fail: (error: unknown) => void
}

/** One connection to a running agent. */
export class AgentClient implements AgentLink, AsyncDisposable {
  /** Resolves once the agent has said hello in a protocol we know. */
  readonly ready: Promise<void>
  readonly #socket: Socket
  readonly #timeoutMs: number
  readonly #lines: LineReader
  readonly #waiting = new Map<string, Waiting>()
  readonly #hello = Promise.withResolvers<undefined>()
  #greeted = false
  #failure: unknown
  #requests = 0

  constructor(socket: Socket, timeoutMs: number) {
    this.#socket = socket
    this.#timeoutMs = timeoutMs
    this.ready = within(timeoutMs, 'say hello', this.#hello.promise)
    this.#lines = new LineReader({
      maxBytes: maxAnswerBytes,
      onLine: (line) => this.#receive(line),
      onTooLong: () => this.#fail(new LinkError('misunderstood', 'The answer of the agent is too large.')),
    })
    socket.on('data', (chunk: Buffer) => this.#lines.push(chunk))
    socket.on('error', (error) => this.#fail(error))
    socket.on('close', () => this.#fail(new LinkError('gone', 'The agent closed the connection: it may have stopped.')))
  }

  /** False as soon as it is known to be broken. */
  get isOpen(): boolean {
    return this.#failure === undefined
  }

  follow(listener: Listener<AgentSnapshot>, looker?: Looker): Unsubscribe {
    return this.#listen({ verb: 'snapshot', follow: true, looker }, listener, (frame) =>
      frame.type === 'snapshot' ? frame.snapshot : undefined,
    )
  }

  snapshot(): Promise<AgentSnapshot> {
    return this.#ask({ verb: 'snapshot' }, this.#timeoutMs, 'send its snapshot', (frame) =>
      frame.type === 'snapshot' ? frame.snapshot : undefined,
    )
  }

  command(command: CommandInput, requestId: string = randomUUID()): Promise<CommandResult> {
    const what = `report the result of the command "${command.name}", which may still be carried out,`
    return this.#ask({ verb: 'command', request: { requestId, command } }, commandMs, what, (frame) =>
      frame.type === 'result' ? frame.result : undefined,
    )
  }

  query<N extends QueryName>(query: Extract<QueryInput, { name: N }>, signal?: AbortSignal): Promise<Answer<N>>
  query(query: QueryInput, signal?: AbortSignal): Promise<Answer> {
    const what = `answer the question "${query.name}"`
    const pick = (frame: AnswerFrame) =>
      frame.type === 'answer' ? answers[query.name].safeParse(frame.answer).data : undefined
    return this.#ask({ verb: 'query', query }, queryMs, what, pick, signal)
  }

  stream<N extends StreamName>(request: StreamOf<N>, listener: Listener<StreamItem<N>>): Unsubscribe
  stream(request: StreamInput, listener: Listener<StreamItem>): Unsubscribe {
    return this.#listen({ verb: 'stream', stream: request }, listener, (frame) =>
      frame.type === 'item' ? frame.item : undefined,
    )
  }

  /** A URL of the window that works once, in a browser of this machine. */
  openWindow(port?: number): Promise<string> {
    const request = { verb: 'openWindow', ...(port !== undefined && { port }) } as const
    return this.#ask(request, this.#timeoutMs, 'open its window', (frame) =>
      frame.type === 'window' ? frame.url : undefined,
    )
  }

  /** Ends the connection; what waits for an answer fails. */
  async close(): Promise<void> {
    this.#fail(new LinkError('gone', 'The connection to the agent was closed here.'))
    if (this.#socket.closed) return
    const { promise, resolve } = Promise.withResolvers<undefined>()
    this.#socket.once('close', () => resolve(undefined))
    await promise
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** `pick` finds the answer in the frame that carries it. */
  async #ask<T>(
    request: WithoutId<RequestInput>,
    limitMs: number,
    what: string,
    pick: (frame: AnswerFrame) => T | undefined,
    signal?: AbortSignal,
  ): Promise<T> {
    if (signal?.aborted === true) throw withdrawn()
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    const id = this.#send(request, {
      receive: (frame) => {
        const answer = pick(frame)
        this.#waiting.delete(id)
        if (answer === undefined) this.#fail(noAnswer())
        else resolve(answer)
      },
      fail: (error) => reject(toLinkError(error)),
    })
    const withdraw = () => reject(withdrawn())
    signal?.addEventListener('abort', withdraw, { once: true })
    try {
      return await within(limitMs, what, promise)
    } finally {
      signal?.removeEventListener('abort', withdraw)
      // Nobody waits now: it was withdrawn, or took longer than the limit.
      if (this.#waiting.delete(id)) this.#write({ id, verb: 'cancel' })
    }
  }

  #listen<T>(
    request: WithoutId<RequestInput>,
    { next, end }: Listener<T>,
    pick: (frame: AnswerFrame) => T | undefined,
  ): Unsubscribe {
    let hasLeft = false
    const id = this.#send(request, {
      receive: (frame) => {
        const item = pick(frame)
        if (item === undefined) this.#fail(noAnswer())
        else next(item)
      },
      fail: (error) => {
        if (!hasLeft) end(toLinkError(error))
      },
    })
    return () => {
      hasLeft = true
      if (this.#waiting.delete(id)) this.#write({ id, verb: 'cancel' })
    }
  }

  #send(request: WithoutId<RequestInput>, waiting: Waiting): string {
    const id = String(++this.#requests)
    const failure = this.#failure ?? this.#write({ ...request, id })
    if (failure === undefined) this.#waiting.set(id, waiting)
    // Never before the caller knows how to leave.
    else queueMicrotask(() => waiting.fail(failure))
    return id
  }

  /** Answers with why it cannot be sent. */
  #write(frame: RequestInput): LinkError | undefined {
    const line = JSON.stringify(frame)
    if (Buffer.byteLength(line) > maxRequestBytes) return requestTooLong(maxRequestBytes)
    this.#socket.write(`${line}\n`)
    return undefined
  }

  #receive(line: string): void {
    const value = parseJson(line)
    if (!this.#greeted) {
      this.#greet(value)
      return
    }
    const { data: frame, error } = answerFrame.safeParse(value)
    if (!frame) {
      this.#fail(noAnswer(error))
      return
    }
    if (frame.type === 'error') {
      if (frame.id === undefined) this.#fail(asLinkError(frame))
      else {
        this.#waiting.get(frame.id)?.fail(asLinkError(frame))
        this.#waiting.delete(frame.id)
      }
    } else this.#waiting.get(frame.id)?.receive(frame)
  }

  #greet(value: unknown): void {
    const hello = helloFrame.safeParse(value)
    if (!hello.success) this.#fail(new LinkError('misunderstood', 'What is listening there is not a Metalbar agent.'))
    else if (hello.data.protocol !== protocolVersion) {
      const { version, protocol } = hello.data
      this.#fail(
        new LinkError(
          'misunderstood',
          `The running agent (version ${version}) speaks protocol ${protocol}, but this command speaks ${protocolVersion}: use the metal-agent of the same version.`,
        ),
      )
    } else {
      this.#greeted = true
      this.#hello.resolve(undefined)
    }
  }

  #fail(error: unknown): void {
    if (this.#failure !== undefined) return
    this.#failure = error
    this.#lines.stop()
    this.#hello.reject(error)
    const waiting = [...this.#waiting.values()]
    this.#waiting.clear()
    for (const { fail } of waiting) fail(error)
    this.#socket.destroy()
  }
}

const noAnswer = (cause?: unknown) =>
  new LinkError('misunderstood', 'The agent sent something that is not a valid answer.', { cause })

const toLinkError = (error: unknown): LinkError => {
  if (error instanceof LinkError) return error
  const why = messageOf(error)
  return new LinkError('gone', `The connection to the agent broke: ${why}.`, { cause: error })
}

async function within<T>(limitMs: number, what: string, answer: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => reject(new LinkError('gone', `The agent did not ${what} within ${limitMs / 1_000} s.`)),
    limitMs,
  )
  try {
    return await Promise.race([answer, promise])
  } finally {
    clearTimeout(timer)
  }
}
