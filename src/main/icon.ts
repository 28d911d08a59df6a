import type { AgentView } from './agent-view.ts'
import { clusterLine, stateLine, troubled } from './state-line.ts'

/** State by shape, since a template image has no colour; `assets/tray` has an image of each. */
export const iconNames = ['idle', 'loading', 'serving', 'attention', 'pressure', 'disconnected'] as const
export type IconName = (typeof iconNames)[number]

export interface Icon {
  readonly name: IconName
  readonly tooltip: string
}

/** A cluster that is not seen comes first: whatever else there is to say may be old. */
export function iconOf(view: AgentView): Icon {
  const { snapshot } = view
  const lines = snapshot
    ? [stateLine(view), clusterLine(snapshot), ...troubled(snapshot).map(({ name, message }) => `${name}: ${message}`)]
    : [stateLine(view)]
  return { name: nameOf(view), tooltip: ['Metalbar', ...lines].join('\n') }
}

function nameOf({ snapshot }: AgentView): IconName {
  if (snapshot?.cluster.state !== 'live') return 'disconnected'
  if (troubled(snapshot).length > 0) return 'attention'
  const states = new Set(snapshot.services.map(({ state }) => state))
  if (states.has('fetching') || states.has('starting')) return 'loading'
  return states.has('ready') && !snapshot.host.paused ? 'serving' : 'idle'
}
