import type { Listener, Looker } from '../../../src/contract/client.ts'
import { LinkError } from '../../../src/contract/client.ts'
import type { CommandRequest, CommandResult } from '../../../src/contract/commands.ts'
import type { Answer, Query } from '../../../src/contract/queries.ts'
import type { AgentSnapshot } from '../../../src/contract/snapshot.ts'
import type { StreamItem, StreamRequest } from '../../../src/contract/log.ts'
import type { AgentDoor } from '../../../src/serve/agent-door.ts'
import { sampleSnapshot } from '../sample-snapshot.ts'

/** The agent behind a carrier, which notes what it is asked and answers what a test says. */
export class RecordingDoor implements AgentDoor {
  readonly commands: CommandRequest[] = []
  readonly queries: Query[] = []
  /** Of each query, with which it may be withdrawn. */
  readonly signals: (AbortSignal | undefined)[] = []
  readonly streams: StreamRequest[] = []
  /** Of all that ever followed. */
  readonly lookers: (Looker | undefined)[] = []
  /** The present listeners of a stream. */
  readonly readers = new Set<Listener<StreamItem>>()
  /** How often the present state was asked for. */
  composed = 0
  /** What each is answered. */
  onCommand: (request: CommandRequest) => Promise<CommandResult> = ({ command }) =>
    Promise.resolve({ outcome: 'done', message: `Did ${command.name}.` })
  onQuery: (query: Query) => Promise<Answer> = ({ name }) =>
    Promise.reject(new LinkError('refused', `Nobody knows about ${name}.`))
  readonly #listeners = new Set<() => void>()
  #snapshot: AgentSnapshot

  constructor(snapshot = sampleSnapshot()) {
    this.#snapshot = snapshot
  }

  get followers(): number {
    return this.#listeners.size
  }

  show(changes: Partial<AgentSnapshot>): void {
    this.#snapshot = { ...this.#snapshot, ...changes }
    for (const listener of this.#listeners) listener()
  }

  print(item: StreamItem): void {
    for (const { next } of [...this.readers]) next(item)
  }

  get(): AgentSnapshot {
    this.composed += 1
    return { ...this.#snapshot, now: new Date().toISOString() }
  }

  look(): Promise<AgentSnapshot> {
    return Promise.resolve(this.get())
  }

  subscribe(listener: () => void, looker?: Looker): () => void {
    this.lookers.push(looker)
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  command(request: CommandRequest): Promise<CommandResult> {
    this.commands.push(request)
    return this.onCommand(request)
  }

  query(query: Query, signal?: AbortSignal): Promise<Answer> {
    this.queries.push(query)
    this.signals.push(signal)
    return this.onQuery(query)
  }

  stream(request: StreamRequest, listener: Listener<StreamItem>): () => void {
    this.streams.push(request)
    this.readers.add(listener)
    return () => this.readers.delete(listener)
  }
}
