import type { Looker, Unsubscribe } from './client.ts'
import type { CommandInput, CommandResult, ServiceRef } from './commands.ts'
import type { LinkFailure } from './link-failure.ts'
import type { LogRun } from './log.ts'
import type { Answer, QueryInput, QueryName } from './queries.ts'
import type { AgentSnapshot } from './snapshot.ts'
import type { StreamInput, StreamItem } from './streams.ts'

/** The output of one run of a service's server. */
export interface RunLog {
  readonly service: ServiceRef
  readonly run: LogRun
}

/**
 * What the app's preload puts on `window.metalbar`: an AgentLink, as far as it can be copied between two JavaScript worlds, where
 * an error loses its class and everything but its message.
 */
export interface Bridge {
  follow(next: (snapshot: AgentSnapshot) => void, end: (failure: LinkFailure) => void, looker?: Looker): Unsubscribe
  snapshot(): Promise<BridgeReply<AgentSnapshot>>
  command(command: CommandInput, requestId: string): Promise<BridgeReply<CommandResult>>
  query<N extends QueryName>(query: Extract<QueryInput, { name: N }>): Promise<BridgeReply<Answer<N>>>
  stream(request: StreamInput, next: (item: StreamItem) => void, end: (failure: LinkFailure) => void): Unsubscribe
  /** Whether something that a person wrote is in the page alone, which is then kept while it is hidden. */
  keep(isKept: boolean): Promise<BridgeReply<null>>
  /** Shows the file in the folder that it is in, as only the app can. */
  revealLog(log: RunLog): Promise<BridgeReply<null>>
}

export type BridgeReply<T> =
  { readonly ok: true; readonly value: T } | { readonly ok: false; readonly failure: LinkFailure }

export type { LinkFailure }
