import type { Unsubscribe } from '../contract/client.ts'
import type { AgentView, AgentViewStore } from './agent-view.ts'

/** Takes it once, as soon as the view has it, which may be now. Answers what withdraws that. */
export function onceKnown<T>(
  view: AgentViewStore,
  pick: (now: AgentView) => T | undefined,
  take: (known: T) => void,
): Unsubscribe {
  const known = pick(view.getState())
  if (known !== undefined) {
    take(known)
    return () => undefined
  }
  const leave = view.subscribe((now) => {
    const later = pick(now)
    if (later === undefined) return
    leave()
    take(later)
  })
  return leave
}
