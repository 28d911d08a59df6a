import { type AgentLink, LinkError, type Listener, type Unsubscribe } from '../../../src/contract/client.ts'
import type { CommandInput, CommandResult } from '../../../src/contract/commands.ts'
import type { AnswerPiece } from '../../../src/contract/ask.ts'
import type { LogChunk, LogPage, StreamInput, StreamItem, StreamName, StreamOf } from '../../../src/contract/log.ts'
import type { Answer, QueryInput, QueryName } from '../../../src/contract/queries.ts'
import type { AgentSnapshot } from '../../../src/contract/snapshot.ts'

export interface Asked {
  readonly command: CommandInput
  readonly requestId: string | undefined
}

type QueryOf<N extends QueryName> = Extract<QueryInput, { name: N }>

type Open<T> = Map<Listener<T>, true>

/** An agent as a window sees it, that says what a test tells it to. */
export class FakeAgent implements AgentLink {
  /** Every command in order. */
  readonly asked: Asked[] = []
  /** Every query in order. */
  readonly queried: QueryInput[] = []
  /** Names of the queries whose asker left before they were answered. */
  readonly withdrawn: QueryName[] = []
  /** Where each log stream that is open began. */
  readonly logStreams: Pick<StreamOf<'log'>, 'from'>[] = []
  /** Answers the next commands, in this order; without one a command stays unanswered. */
  readonly answers: (CommandResult | LinkError)[] = []
  readonly logs: { current: LogPage | LinkError; previous: LogPage | LinkError } = {
    current: new LinkError('refused', 'It has printed nothing yet.'),
    previous: new LinkError('refused', 'There is no previous run.'),
  }

  /** What is answered to each other query. */
  readonly known: { [N in QueryName]?: Answer<N> } = {
    server: { crashLines: [] },
    conditions: { conditions: [] },
    events: { events: [], hasMore: false },
  }
  /** Takes the place of `known` where the answer depends on what exactly is asked. */
  readonly replies: { [N in QueryName]?: (query: QueryOf<N>) => Answer<N> } = {}
  /** Queries of these names stay unanswered until they are released. */
  readonly held = new Set<QueryName>()

  readonly #followers: Open<AgentSnapshot> = new Map()
  readonly #readers: Open<StreamItem> = new Map()
  readonly questions: string[] = []
  #answering: Listener<StreamItem> | undefined
  readonly #unanswered: ((result: CommandResult) => void)[] = []
  readonly #waiting: { readonly query: QueryInput; readonly answer: () => void }[] = []
  #snapshot: AgentSnapshot | undefined
  #absence: LinkError | undefined

  constructor(snapshot?: AgentSnapshot) {
    this.#snapshot = snapshot
  }

  get shown(): AgentSnapshot {
    if (this.#snapshot === undefined) throw new Error('This agent shows nothing yet.')
    return this.#snapshot
  }

  /** What a window may hear of it, but for the answers of `replies`. */
  get told(): unknown {
    return [this.#snapshot, this.#absence?.message, this.known, Object.values(this.logs).map(textOfLog)]
  }

  /** What it shows from now on. */
  show(snapshot: AgentSnapshot): void {
    this.#snapshot = snapshot
    for (const { next } of this.#followers.keys()) next(snapshot)
  }

  /** How many follow it, and how many its logs. */
  get listeners(): { readonly snapshots: number; readonly logs: number } {
    return { snapshots: this.#followers.size, logs: this.#readers.size }
  }

  /** All clients lose the agent and cannot reach it any more. */
  leave(error = new LinkError('gone', 'The agent ended.')): void {
    this.#absence = error
    for (const open of [this.#followers, this.#readers]) {
      for (const { end } of open.keys()) end(error)
      open.clear()
    }
  }

  /** Only the logs are lost. */
  breakLogs(): void {
    const open = [...this.#readers.keys()]
    this.#readers.clear()
    for (const { end } of open) end(new LinkError('gone', 'The stream broke.'))
  }

  comeBack(snapshot: AgentSnapshot): void {
    this.#absence = undefined
    this.#snapshot = snapshot
  }

  /** To every open log. */
  /** What the model says next, to who asked it last. */
  say(piece: AnswerPiece): void {
    this.#answering?.next(piece)
  }

  failAnswer(error: LinkError): void {
    this.#answering?.end(error)
  }

  /** Somebody waits for an answer. */
  get isAnswering(): boolean {
    return this.#answering !== undefined
  }

  print(chunk: LogChunk): void {
    for (const { next } of this.#readers.keys()) next(chunk)
  }

  /** The oldest command that has none. */
  answer(result: CommandResult): void {
    const respond = this.#unanswered.shift()
    if (respond === undefined) throw new Error('No command waits for an answer.')
    respond(result)
  }

  follow(listener: Listener<AgentSnapshot>): Unsubscribe {
    if (this.#absence !== undefined) {
      listener.end(this.#absence)
      return () => undefined
    }
    this.#followers.set(listener, true)
    if (this.#snapshot !== undefined) listener.next(this.#snapshot)
    return () => this.#followers.delete(listener)
  }

  snapshot(): Promise<AgentSnapshot> {
    return this.#snapshot === undefined
      ? Promise.reject(new LinkError('gone', 'No agent runs.'))
      : Promise.resolve(this.#snapshot)
  }

  command(command: CommandInput, requestId?: string): Promise<CommandResult> {
    this.asked.push({ command, requestId })
    const answer = this.answers.shift()
    if (answer instanceof LinkError) return Promise.reject(answer)
    return answer === undefined ? new Promise((resolve) => this.#unanswered.push(resolve)) : Promise.resolve(answer)
  }

  /** Every query of one name, in order. */
  queriesOf<N extends QueryName>(name: N): QueryOf<N>[] {
    return this.queried.filter((query): query is QueryOf<N> => query.name === name)
  }

  /** Answers the oldest query of this name that is held, with what is known by now. */
  release(name: QueryName): void {
    const index = this.#waiting.findIndex(({ query }) => query.name === name)
    const [oldest] = index < 0 ? [] : this.#waiting.splice(index, 1)
    if (oldest === undefined) throw new Error(`No query ${name} waits for an answer.`)
    oldest.answer()
  }

  query<N extends QueryName>(query: QueryOf<N>, signal?: AbortSignal): Promise<Answer<N>>
  async query(query: QueryInput, signal?: AbortSignal): Promise<Answer> {
    this.queried.push(query)
    signal?.addEventListener('abort', () => this.withdrawn.push(query.name))
    if (this.held.has(query.name)) {
      await new Promise<void>((resolve) => this.#waiting.push({ query, answer: resolve }))
    }
    return this.#answerTo(query)
  }

  #answerTo(query: QueryInput): Promise<Answer> {
    const reply = this.replies[query.name] as ((query: QueryInput) => Answer) | undefined
    if (reply !== undefined) return Promise.resolve(reply(query))
    if (query.name !== 'log') {
      const known = this.known[query.name]
      if (known !== undefined) return Promise.resolve(known)
      return Promise.reject(new LinkError('refused', `Nobody asks for ${query.name} here.`))
    }
    const answer = this.logs[query.run ?? 'current']
    return answer instanceof LinkError ? Promise.reject(answer) : Promise.resolve(answer)
  }

  stream<N extends StreamName>(request: StreamOf<N>, listener: Listener<StreamItem<N>>): Unsubscribe
  stream(request: StreamInput, listener: Listener<StreamItem>): Unsubscribe {
    if (request.name === 'log') {
      this.logStreams.push(request)
      this.#readers.set(listener, true)
      return () => this.#readers.delete(listener)
    }
    this.questions.push(request.question)
    this.#answering = listener
    return () => (this.#answering = undefined)
  }
}

const textOfLog = (log: LogPage | LinkError) => (log instanceof LinkError ? log.message : log)
