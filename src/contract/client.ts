import { z } from 'zod'
import type { CommandInput, CommandResult } from './commands.ts'
import type { StreamItem, StreamName, StreamOf } from './log.ts'
import type { Answer, QueryInput, QueryName } from './queries.ts'
import type { AgentSnapshot } from './snapshot.ts'

/** An AbortSignal, which every program that speaks the contract has, and the language by itself has not. */
export type Withdrawal = typeof globalThis extends { AbortSignal: { prototype: infer Signal } } ? Signal : never

/** What a window, a menu, a command or a script has of an agent, over every carrier. */
export interface AgentLink {
  /** The snapshot now and after each change, at most four a second; a reader slower than that gets only the latest. */
  follow(listener: Listener<AgentSnapshot>, looker?: Looker): Unsubscribe
  /** Throws LinkError. */
  snapshot(): Promise<AgentSnapshot>
  /** The same `requestId` again is carried out once. Throws LinkError where it is not known whether it was carried out. */
  command(command: CommandInput, requestId?: string): Promise<CommandResult>
  /**
   * Throws LinkError, whose code `refused` means that the agent has no answer, and the message why. With the signal it is withdrawn: what
   * the agent does for nobody else then ends.
   */
  query<N extends QueryName>(query: Extract<QueryInput, { name: N }>, signal?: Withdrawal): Promise<Answer<N>>
  stream<N extends StreamName>(request: StreamOf<N>, listener: Listener<StreamItem<N>>): Unsubscribe
}

/**
 * Each sees more than the one before. For an `icon`, which follows for as long as the app lives, nothing is measured that costs power; for
 * a `menu` figures are measured every few seconds, for a `window` every two; absent = `window`.
 */
export const lookers = ['icon', 'menu', 'window'] as const
export type Looker = (typeof lookers)[number]

/** What is only measured while somebody looks is measured for these; undefined = nobody. */
export const seesFigures = (looker: Looker | undefined): boolean => looker !== undefined && looker !== 'icon'

export interface Listener<T> {
  readonly next: (item: T) => void
  /** Called once, when the stream ended without an unsubscribe: the agent went, or the stream is refused. */
  readonly end: (error: LinkError) => void
}

/** After this call no listener is called again. */
export type Unsubscribe = () => void

/** `gone`: no agent answers. `refused`: it does not do that. `misunderstood`: another version, or not an agent at all. */
export const linkErrorCodes = ['gone', 'refused', 'misunderstood'] as const
export type LinkErrorCode = (typeof linkErrorCodes)[number]

/** One sentence for a person. */
export class LinkError extends Error {
  override readonly name = 'LinkError'
  readonly code: LinkErrorCode

  constructor(code: LinkErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** The answer to a query that was withdrawn. */
export const withdrawn = (cause?: unknown) =>
  new LinkError('refused', 'The request was cancelled before it was answered.', { cause })

/** A LinkError on its way between two processes, where an error loses its class and everything but its message. */
export const linkFailure = z.object({
  code: z.enum(linkErrorCodes),
  /** One sentence for a person. */
  message: z.string(),
})
export type LinkFailure = z.infer<typeof linkFailure>

export const asLinkError = ({ code, message }: LinkFailure) => new LinkError(code, message)

/** An agent that restarts is back within a second or two; waiting for an agent that stays away should cost nothing. */
const firstRetryMs = 250
const longestRetryMs = 8_000

/** How long a client that lost the agent waits after so many failures in a row, from 1 on. */
export const retryDelayMs = (failures: number): number => Math.min(longestRetryMs, firstRetryMs * 2 ** (failures - 1))
