import { type Priority, priorityWeights } from './priority.ts'

/** A server that asks for memory. */
export interface StartRequest {
  readonly key: string
  /** Of the InferenceService: one re-created under the same name waits from its own beginning. */
  readonly uid: string
  /** The estimate of all it will hold; absent where none could be made. */
  readonly needBytes: number | undefined
  /** Why there is no estimate, one sentence. */
  readonly whyUnknown?: string
  /** See `HeldServer`. */
  readonly mappedBytes?: number
  readonly priority: Priority
  /** Protected from eviction. */
  readonly isProtected?: boolean
  /** When it began to wait, ms since the epoch. */
  readonly since: number
  /** Set where its Model brings a budget of its own: it replaces the machine's, see `limitOf`. */
  readonly ownBudgetBytes?: number
  /** Whether a start is refused or let pass where its need, or the room for it, is not known. */
  readonly enforcement: 'enforce' | 'warn'
  /** Whether servers of lower priority may be evicted for this one. */
  readonly mayEvict?: boolean
}

/** A request as it waits; a need that is unknown counts as 0. */
export type WaitingRequest = StartRequest & { readonly needBytes: number }

export const waitingRequest = (request: StartRequest): WaitingRequest => ({
  ...request,
  needBytes: request.needBytes ?? 0,
})

/** By priority, then by age; the key only keeps the order steady. */
export function byRank(a: StartRequest, b: StartRequest): number {
  return (
    priorityWeights[b.priority] - priorityWeights[a.priority] ||
    a.since - b.since ||
    (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)
  )
}
