import { cleanText } from '../../contract/clean-text.ts'
import { formatRoundWatts } from '../../contract/format.ts'
import { isSupplyNews, supplyLine } from '../../contract/power.ts'
import type { ServiceReason, ServiceState, ServiceView } from '../../contract/service.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'
import { clusterWords, sharedWords } from '../../contract/words.ts'
import type { AgentView } from '../agent/agent-view.ts'
import { iconWords } from '../words.ts'

/** State by shape, since a template image has no colour; `assets/tray` has an image of each. */
export const iconNames = ['idle', 'loading', 'serving', 'attention', 'pressure', 'disconnected'] as const
type IconName = (typeof iconNames)[number]

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
    tooltip: [sharedWords.app, ...lines.map(cleanText)].join('\n'),
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

/** What the agent does, in one line. */
export function stateLine({ snapshot, problem, isQuitting }: AgentView): string {
  if (isQuitting) return iconWords.stopping
  if (!snapshot) return problem
  if (snapshot.host.paused) return iconWords.paused
  const all = snapshot.services.filter(({ state }) => state !== 'foreign')
  const loading = count(all, 'fetching') + count(all, 'starting')
  const troubles = troubled(snapshot).length
  const parts = [
    iconWords.serving(count(all, 'ready')),
    ...(loading === 0 ? [] : [iconWords.loading(loading)]),
    ...(troubles === 0 ? [] : [iconWords.inTrouble(troubles)]),
  ]
  return parts.join(' · ')
}

/** Memory and power, as far as they are measured. */
export function figuresLine({ memory, power, powerFigures, supply }: AgentSnapshot): string[] {
  const pressure = memory?.pressure
  return [
    ...(memory ? [iconWords.memory(memory.modelsBytes, memory.budgetBytes)] : []),
    ...(pressure === 'warning' || pressure === 'critical' ? [iconWords.pressure[pressure]] : []),
    ...(power?.state === 'measuring' ? [watts(powerFigures?.combinedWatts) ?? iconWords.noPower] : []),
    ...(supply && isSupplyNews(supply) ? [supplyLine(supply)] : []),
  ]
}

/** `2 · 38 GB · 41 W`, beside the icon; only what is known. */
function titleOf({ snapshot }: AgentView): string {
  if (!snapshot) return ''
  const { memory, power, powerFigures } = snapshot
  const combined = power?.state === 'measuring' ? watts(powerFigures?.combinedWatts) : undefined
  return [
    String(count(snapshot.services, 'ready')),
    ...(memory ? [iconWords.gigabytes(memory.modelsBytes)] : []),
    ...(combined === undefined ? [] : [combined]),
  ].join(' · ')
}

/** How the cluster is seen, in one line. */
export function clusterLine({ cluster }: AgentSnapshot): string {
  const { context, namespace } = cluster
  const place = context === '' ? iconWords.noCluster : iconWords.cluster(context, namespace)
  const state = `${place} · ${clusterWords[cluster.state]}`
  return cluster.state === 'live' ? state : `${state}: ${cluster.message}`
}

const troubles: ReadonlySet<ServiceState> = new Set(['crash-looping', 'refused', 'unready'])
const troublingReasons: ReadonlySet<ServiceReason> = new Set([
  'ClusterDisagrees',
  'InsufficientMemory',
  'MemoryCheckFailed',
])

/** A person paused the machine, or it sleeps: that its models are not published is no trouble. */
export const isTroubled = ({ state, reason }: Pick<ServiceView, 'state' | 'reason'>): boolean =>
  reason !== 'Paused' && reason !== 'Asleep' && (troubles.has(state) || troublingReasons.has(reason))

/** What a person should look at. */
const troubled = ({ services }: AgentSnapshot): ServiceView[] => services.filter(isTroubled)

const watts = (value: number | undefined): string | undefined =>
  value === undefined ? undefined : formatRoundWatts(value)

const count = (services: readonly ServiceView[], state: ServiceState) =>
  services.filter((service) => service.state === state).length
