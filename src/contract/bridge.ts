import { LinkError, type AgentLink, type LinkErrorCode, type Unsubscribe } from './client.ts'
import type { CommandInput, CommandResult } from './commands.ts'
import type { Answer, QueryInput, QueryName } from './queries.ts'
import type { AgentSnapshot } from './snapshot.ts'
import type { StreamInput, StreamItem } from './streams.ts'

/**
 * `window.metalbar` in the app's window (a browser's page has none): an {@link AgentLink} as the preload script hands it to the
 * page. On that way an Error loses its class and its code, so whatever goes wrong is a value; {@link linkOverBridge} undoes it.
 */
export interface AgentBridge {
  follow(listener: BridgeListener<AgentSnapshot>): Unsubscribe
  snapshot(): Promise<BridgeAnswer<AgentSnapshot>>
  command(requestId: string, command: CommandInput): Promise<BridgeAnswer<CommandResult>>
  query<N extends QueryName>(query: Extract<QueryInput, { name: N }>): Promise<BridgeAnswer<Answer<N>>>
  stream(request: StreamInput, listener: BridgeListener<StreamItem>): Unsubscribe
}

export interface BridgeFailure {
  readonly code: LinkErrorCode
  /** One sentence for a person. */
  readonly message: string
}

export type BridgeAnswer<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly failure: BridgeFailure }

export interface BridgeListener<T> {
  readonly next: (item: T) => void
  readonly end: (failure: BridgeFailure) => void
}

/** What the page works with; `newId` makes a UUID for a command that comes without one. */
export function linkOverBridge(bridge: AgentBridge, newId: () => string): AgentLink {
  return {
    follow: (listener) => bridge.follow({ next: listener.next, end: (failure) => listener.end(asError(failure)) }),
    snapshot: async () => valueOf(await bridge.snapshot()),
    command: async (command, requestId = newId()) => valueOf(await bridge.command(requestId, command)),
    query: async (query) => valueOf(await bridge.query(query)),
    stream: (request, listener) =>
      bridge.stream(request, { next: listener.next, end: (failure) => listener.end(asError(failure)) }),
  }
}

const asError = ({ code, message }: BridgeFailure) => new LinkError(code, message)

function valueOf<T>(answer: BridgeAnswer<T>): T {
  if (!answer.ok) throw asError(answer.failure)
  return answer.value
}
