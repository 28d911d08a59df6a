import type { AppBridge } from './app-bridge.ts'
import type { BridgeReply } from './bridge-reply.ts'
import type { Looker, Unsubscribe } from './client.ts'
import type { CommandInput, CommandResult } from './commands.ts'
import type { LinkFailure } from './link-failure.ts'
import type { Answer, QueryInput, QueryName } from './queries.ts'
import type { AgentSnapshot } from './snapshot.ts'
import type { StreamInput, StreamItem } from './streams.ts'

/**
 * What the app's preload puts on `window.metalbar`: an AgentLink, as far as it can be copied between two JavaScript worlds, where
 * an error loses its class and everything but its message; and beside it what the app alone can do.
 */
export interface Bridge extends AppBridge {
  follow(next: (snapshot: AgentSnapshot) => void, end: (failure: LinkFailure) => void, looker?: Looker): Unsubscribe
  snapshot(): Promise<BridgeReply<AgentSnapshot>>
  command(command: CommandInput, requestId: string): Promise<BridgeReply<CommandResult>>
  /** `id`: chosen by the page, for {@link withdraw}. */
  query<N extends QueryName>(query: Extract<QueryInput, { name: N }>, id: string): Promise<BridgeReply<Answer<N>>>
  /** Nobody waits for the answer any more. */
  withdraw(id: string): Promise<BridgeReply<null>>
  stream(request: StreamInput, next: (item: StreamItem) => void, end: (failure: LinkFailure) => void): Unsubscribe
}

export type { BridgeReply, LinkFailure }
