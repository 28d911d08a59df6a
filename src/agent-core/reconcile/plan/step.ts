import type { ServiceReason, ServiceState } from '../../../contract/service.ts'
import type { Observation } from './observation.ts'

/** What to do next; a step that takes long only begins, and its end brings the key back into the queue. */
export type Step =
  | { readonly do: 'claim' }
  | { readonly do: 'ensureService' }
  | { readonly do: 'fetch' }
  | { readonly do: 'cancelFetch' }
  /** How much memory the desired server will hold, and whether it fits beside or in place of the present one. */
  | { readonly do: 'sizeUp' }
  | { readonly do: 'start' }
  /** The present server goes on. */
  | { readonly do: 'startBeside' }
  /** The successor answers for the service; the server before finishes its requests and stops. */
  | { readonly do: 'promote' }
  | { readonly do: 'dropSuccessor' }
  | { readonly do: 'publish'; readonly address: string; readonly port: number }
  | { readonly do: 'withdraw' }
  /** What an agent that is gone still promises. */
  | { readonly do: 'withdrawDead' }
  | { readonly do: 'stop' }
  /** Slice and Endpoints go, the Service and its ClusterIP stay. */
  | { readonly do: 'unpublish' }
  /** The claim is free for others at once, the slice stays. */
  | { readonly do: 'release' }
  /** All three go. */
  | { readonly do: 'remove' }
  | { readonly do: 'rest' }

export interface Plan {
  readonly step: Step
  readonly state: ServiceState
  readonly reason: ServiceReason
  readonly message: string
  /** When time alone changes the answer. */
  readonly retryAt: number | undefined
  /** True = this service is none of ours and has nothing left here: it is not shown at all. */
  readonly forget: boolean
}

export const act = (step: Step, state: ServiceState, reason: ServiceReason, message: string): Plan => ({
  step,
  state,
  reason,
  message,
  retryAt: undefined,
  forget: false,
})

export const rest = (state: ServiceState, reason: ServiceReason, message: string, retryAt?: number): Plan => ({
  step: { do: 'rest' },
  state,
  reason,
  message,
  retryAt,
  forget: false,
})

export const forget = (): Plan => ({ ...rest('stopped', 'Stopped', ''), forget: true })

/** Local promises are kept while the cluster is away; what needs it waits, and says so. */
export function unreachable(observed: Observation, state: ServiceState, reason: ServiceReason): Plan {
  return rest(
    state,
    reason,
    observed.clusterRetry?.message ?? 'The cluster does not answer.',
    observed.clusterRetry?.at,
  )
}
