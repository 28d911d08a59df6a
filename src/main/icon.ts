import { cleanText } from '../contract/clean-text.ts'
import type { AgentView } from './agent-view.ts'
import { clusterLine, figuresLine, stateLine, titleOf, troubled } from './state-line.ts'

/** State by shape, since a template image has no colour; `assets/tray` has an image of each. */
export const iconNames = ['idle', 'loading', 'serving', 'attention', 'pressure', 'disconnected'] as const
export type IconName = (typeof iconNames)[number]

export interface Icon {
  readonly name: IconName
  readonly tooltip: string
  /** Beside it; empty unless a person asked for it. */
  readonly title: string
}

/** A cluster that is not seen comes first: whatever else there is to say may be old. */
export function iconOf(view: AgentView): Icon {
  const { snapshot, preferences } = view
  const lines = snapshot
    ? [
        stateLine(view),
        clusterLine(snapshot),
        ...(isShort(snapshot) ? figuresLine(snapshot) : []),
        ...troubled(snapshot).map(({ name, message }) => `${name}: ${message}`),
      ]
    : [stateLine(view)]
  return {
    name: nameOf(view),
    tooltip: ['Metalbar', ...lines.map(cleanText)].join('\n'),
    title: preferences?.showTitle === true ? titleOf(view) : '',
  }
}

/** Memory that is critically short is more urgent than a model in trouble, memory that is short less. */
function nameOf({ snapshot }: AgentView): IconName {
  if (snapshot?.cluster.state !== 'live') return 'disconnected'
  if (snapshot.memory?.pressure === 'critical') return 'pressure'
  if (troubled(snapshot).length > 0) return 'attention'
  if (isShort(snapshot)) return 'pressure'
  const states = new Set(snapshot.services.map(({ state }) => state))
  if (states.has('fetching') || states.has('starting')) return 'loading'
  return states.has('ready') && !snapshot.host.paused ? 'serving' : 'idle'
}

const isShort = ({ memory }: NonNullable<AgentView['snapshot']>): boolean =>
  memory?.pressure === 'warning' || memory?.pressure === 'critical'
