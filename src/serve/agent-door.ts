import type { z } from 'zod'
import { cleanTexts } from '../contract/clean-text.ts'
import { LinkError, type Listener, type Looker, type Unsubscribe } from '../contract/client.ts'
import type { CommandRequest, CommandResult } from '../contract/commands.ts'
import type { StreamItem, StreamRequest } from '../contract/log.ts'
import type { Answer, Query } from '../contract/queries.ts'
import type { AgentSnapshot } from '../contract/snapshot.ts'

/** The failure as a client sees it; details of an internal defect go only to the log. */
export const failuresTo =
  (onError: (error: unknown) => void) =>
  (error: unknown): LinkError => {
    if (error instanceof LinkError) return error
    onError(error)
    return new LinkError('refused', 'The agent failed to answer; its log says why.', { cause: error })
  }

/** `what` has no article, such as "command". */
export function notUnderstood(what: string, { issues: [issue] }: z.ZodError): LinkError {
  const where = issue?.path.join('.') ?? ''
  const why = `${where}: ${issue?.message ?? ''}`.replace(/^: /, '')
  return new LinkError('misunderstood', `The agent did not understand this ${what}: ${why}.`)
}

export const requestTooLong = (bytes: number) =>
  new LinkError('refused', `A request must not be longer than ${bytes / 1_024} KiB.`)

/** What a carrier needs of the agent. */
export interface AgentDoor {
  /** The snapshot as of now; its `now` is the time of asking. */
  get(looker?: Looker): AgentSnapshot
  /** The same after what is only measured while somebody looks was brought up to date, which takes a second at most. */
  look(): Promise<AgentSnapshot>
  /** Calls back after each change; the answer ends it. */
  subscribe(listener: () => void, looker?: Looker): Unsubscribe
  command(request: CommandRequest): Promise<CommandResult>
  /** Throws a LinkError `refused` where there is no answer. The caller aborts the signal when it no longer waits. */
  query(query: Query, signal?: AbortSignal): Promise<Answer>
  stream(request: StreamRequest, listener: Listener<StreamItem>): Unsubscribe
}

/** What the agent says to any carrier, without what steers a terminal or turns text round; a snapshot is composed without it. */
export function cleanedDoor(door: AgentDoor): AgentDoor {
  return {
    get: (looker) => door.get(looker),
    look: () => door.look(),
    subscribe: (listener, looker) => door.subscribe(listener, looker),
    command: async (request) => cleanTexts(await door.command(request)),
    query: async (query, signal) => cleanTexts(await door.query(query, signal)),
    stream: (request, listener) =>
      door.stream(request, { next: (item) => listener.next(cleanTexts(item)), end: (error) => listener.end(error) }),
  }
}
