import type { Unsubscribe } from '../contract/client.ts'
import type { AgentViewStore } from './agent-view.ts'
import { placeOf, type LinkTarget } from './links.ts'
import { onceKnown } from './once-known.ts'
import type { WindowPlace } from './window-place.ts'

export interface TargetWindow {
  readonly show: (at: WindowPlace | undefined) => void
  /** Where it is there still. */
  readonly turn: (at: WindowPlace) => void
}

/** An agent that starts has read the cluster by then; later nobody waits for a window to turn. */
const waitMs = 60_000

/** Shows the window at once, and turns it to a service as soon as the agent knows it. The newest target is the one that counts. */
export function targetShower(view: AgentViewStore, window: TargetWindow): (target: LinkTarget) => void {
  let withdraw: Unsubscribe = () => undefined
  let limit: NodeJS.Timeout | undefined
  return (target) => {
    clearTimeout(limit)
    withdraw()
    const place = placeOf(target, view.getState().snapshot)
    window.show(place)
    if (place !== undefined || target.kind !== 'service') return
    withdraw = onceKnown(
      view,
      ({ snapshot }) => placeOf(target, snapshot),
      (known) => {
        clearTimeout(limit)
        window.turn(known)
      },
    )
    limit = setTimeout(withdraw, waitMs)
  }
}
