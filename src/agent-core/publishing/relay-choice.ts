import type { DoorState } from '../gateway/doors.ts'
import type { PublishMode } from '../../contract/settings-table.ts'

/** By which of the two a service is published. `both`: the relay's objects are there, and pods still come directly. */
export type Way = 'direct' | 'both' | 'relay'

export interface WayFacts {
  readonly mode: PublishMode
  /** What LLMKube's relay needs cannot be had for this service. */
  readonly isUnfit: boolean
  /** The cluster serves the CRDs of a LLMKube that has relays; undefined = not known yet. */
  readonly hasRelays: boolean | undefined
  /** The Service leads to a relay, of which a Pod is ready. */
  readonly isRelayReady: boolean
  /** What this machine has published of it. */
  readonly isHeldDirectly: boolean
  readonly isHeldForRelay: boolean
  readonly ingress: DoorState['kind']
}

/** Whether a service is published for LLMKube's relay, directly, or both, by what is seen now. */
export function wayToPublish(facts: WayFacts): Way {
  const { mode, isUnfit, hasRelays, isRelayReady, isHeldDirectly, isHeldForRelay, ingress } = facts
  if (mode === 'direct') return 'direct'
  if (mode === 'relay') {
    // What pods have is not taken away before the relay can be reached.
    if (isHeldDirectly && isUnfit) return 'direct'
    return isHeldDirectly && ingress !== 'open' ? 'both' : 'relay'
  }
  // A cluster that was not looked at yet has not lost its relays.
  if (isUnfit || !(hasRelays ?? isHeldForRelay)) return 'direct'
  return isRelayReady && ingress !== 'closed' ? 'relay' : 'both'
}
