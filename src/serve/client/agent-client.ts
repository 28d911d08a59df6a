import { connect, type Socket } from 'node:net'
import { parseJson } from '../../agent-core/state/files.ts'
import { protocolVersion, type AgentSnapshot } from '../../contract/snapshot.ts'
import { helloFrame, maxAnswerBytes, serverFrame, type SnapshotRequest } from '../frames.ts'
import { LineReader } from '../line-reader.ts'
import { isNobodyThere } from './probe-socket.ts'

/** Nobody listens: the agent does not run, or it uses another state folder. */
export class NoAgentError extends Error {
  override readonly name = 'NoAgentError'
}

/** The agent runs and cannot be understood: it is of another version, or the connection broke. */
export class AgentConnectionError extends Error {
  override readonly name = 'AgentConnectionError'
}

export interface ConnectOptions {
  readonly socketPath: string
  /** For the sentence a person reads. */
  readonly stateDir: string
  readonly timeoutMs?: number
}

/** The agent answers within a millisecond; one that takes this long is stopped in a debugger or swapped out. */
const answerMs = 5_000

/** Throws {@link NoAgentError} or {@link AgentConnectionError}. */
export async function connectToAgent(options: ConnectOptions): Promise<AgentClient> {
  const { socketPath, stateDir, timeoutMs = answerMs } = options
  const client = new AgentClient(connect(socketPath), timeoutMs)
  try {
    await client.ready
  } catch (error) {
    await client.close()
    if (isNobodyThere(error)) {
      throw new NoAgentError(
        `No agent runs on the state folder ${stateDir} (nobody listens on ${socketPath}): start one with metal-agent, or name another folder with --state-dir.`,
        { cause: error },
      )
    }
    if (error instanceof AgentConnectionError) throw error
    const why = error instanceof Error ? error.message : String(error)
    throw new AgentConnectionError(`The agent's socket ${socketPath} cannot be reached: ${why}.`, { cause: error })
  }
  return client
}

interface Waiting {
  readonly answer: (snapshot: AgentSnapshot) => void
  readonly fail: (error: unknown) => void
}

/** One connection to a running agent. */
export class AgentClient implements AsyncDisposable {
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
    this.ready = this.#within('say hello', this.#hello.promise)
    this.#lines = new LineReader({
      maxBytes: maxAnswerBytes,
      onLine: (line) => this.#receive(line),
      onTooLong: () => this.#fail(new AgentConnectionError('The agent sent more than a snapshot can be.')),
    })
    socket.on('data', (chunk: Buffer) => this.#lines.push(chunk))
    socket.on('error', (error) => this.#fail(error))
    socket.on('close', () =>
      this.#fail(new AgentConnectionError('The agent closed the connection: it may have stopped.')),
    )
  }

  /** Throws {@link AgentConnectionError}. */
  async snapshot(): Promise<AgentSnapshot> {
    const { promise, resolve, reject } = Promise.withResolvers<AgentSnapshot>()
    const id = this.#request({ follow: false }, { answer: resolve, fail: reject })
    try {
      return await this.#within('send its snapshot', promise)
    } finally {
      this.#waiting.delete(id)
    }
  }

  /**
   * The snapshot now and after each change; a reader slower than the agent gets only the latest. Closes the connection
   * when the loop is left, and throws {@link AgentConnectionError} when the agent goes.
   */
  async *follow(): AsyncGenerator<AgentSnapshot, void> {
    const box: { latest?: AgentSnapshot | undefined; failure?: { readonly error: unknown } } = {}
    let wake = Promise.withResolvers<undefined>()
    this.#request(
      { follow: true },
      {
        answer: (snapshot) => {
          box.latest = snapshot
          wake.resolve(undefined)
        },
        fail: (error) => {
          box.failure = { error }
          wake.resolve(undefined)
        },
      },
    )
    try {
      for (;;) {
        const { latest, failure } = box
        if (latest !== undefined) {
          box.latest = undefined
          yield latest
        } else if (failure !== undefined) throw failure.error
        else {
          await wake.promise
          wake = Promise.withResolvers<undefined>()
        }
      }
    } finally {
      await this.close()
    }
  }

  /** Ends the connection; what waits for an answer fails. */
  async close(): Promise<void> {
    if (this.#socket.closed) return
    const { promise, resolve } = Promise.withResolvers<undefined>()
    this.#socket.once('close', () => resolve(undefined))
    this.#socket.destroy()
    await promise
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #request(request: Pick<SnapshotRequest, 'follow'>, waiting: Waiting): string {
    const id = String(++this.#requests)
    if (this.#failure !== undefined) {
      waiting.fail(this.#failure)
      return id
    }
    this.#waiting.set(id, waiting)
    const frame: SnapshotRequest = { id, verb: 'snapshot', ...request }
    this.#socket.write(`${JSON.stringify(frame)}\n`)
    return id
  }

  #receive(line: string): void {
    const value = parseJson(line)
    if (!this.#greeted) {
      this.#greet(value)
      return
    }
    const frame = serverFrame.safeParse(value)
    if (!frame.success) {
      this.#fail(new AgentConnectionError('The agent sent something that is no answer.', { cause: frame.error }))
      return
    }
    switch (frame.data.type) {
      case 'hello':
        return
      case 'snapshot':
        this.#waiting.get(frame.data.id)?.answer(frame.data.snapshot)
        return
      case 'error': {
        const error = new AgentConnectionError(`The agent refused the request: ${frame.data.message}`)
        if (frame.data.id === undefined) this.#fail(error)
        else this.#waiting.get(frame.data.id)?.fail(error)
      }
    }
  }

  #greet(value: unknown): void {
    const hello = helloFrame.safeParse(value)
    if (!hello.success) this.#fail(new AgentConnectionError('What listens there is no agent of ours.'))
    else if (hello.data.protocol !== protocolVersion) {
      const { version, protocol } = hello.data
      this.#fail(
        new AgentConnectionError(
          `The running agent (version ${version}) speaks protocol ${protocol} and this command ${protocolVersion}: use the metal-agent of the same version.`,
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
    for (const waiting of this.#waiting.values()) waiting.fail(error)
    this.#waiting.clear()
    this.#socket.destroy()
  }

  async #within<T>(what: string, answer: Promise<T>): Promise<T> {
    const { promise, reject } = Promise.withResolvers<never>()
    const timer = setTimeout(
      () => reject(new AgentConnectionError(`The agent did not ${what} within ${this.#timeoutMs / 1_000} s.`)),
      this.#timeoutMs,
    )
    try {
      return await Promise.race([answer, promise])
    } finally {
      clearTimeout(timer)
    }
  }
}
