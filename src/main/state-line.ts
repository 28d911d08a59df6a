import type { ServiceState, ServiceView } from '../contract/service.ts'
import type { AgentSnapshot } from '../contract/snapshot.ts'
import { clusterWords } from '../contract/words.ts'
import type { AgentView } from './agent-view.ts'

/** What the agent does, in one line. */
export function stateLine({ snapshot, problem, isQuitting }: AgentView): string {
  if (isQuitting) return 'Stopping: requests in flight may finish'
  if (!snapshot) return problem
  if (snapshot.host.paused) return 'This node is paused'
  const all = snapshot.services.filter(({ state }) => state !== 'foreign')
  const ready = count(all, 'ready')
  const loading = count(all, 'fetching') + count(all, 'starting')
  const parts = [
    ready === 0 ? 'Serving no model' : `Serving ${ready === 1 ? '1 model' : `${ready} models`}`,
    ...(loading === 0 ? [] : [`loading ${loading}`]),
    ...(troubled(snapshot).length === 0 ? [] : [`${troubled(snapshot).length} in trouble`]),
  ]
  return parts.join(' · ')
}

/** How the cluster is seen, in one line. */
export function clusterLine({ cluster }: AgentSnapshot): string {
  const place = cluster.context === '' ? 'No cluster' : `${cluster.context} (${cluster.namespace ?? 'all namespaces'})`
  const state = `${place} · ${clusterWords[cluster.state]}`
  return cluster.state === 'live' ? state : `${state}: ${cluster.message}`
}

const troubles: readonly ServiceState[] = ['crash-looping', 'refused', 'unready']

/** What a person should look at. */
export const troubled = ({ services }: AgentSnapshot): ServiceView[] =>
  services.filter(({ state, reason }) => troubles.includes(state) || reason === 'ClusterDisagrees')

const count = (services: readonly ServiceView[], state: ServiceState) =>
  services.filter((service) => service.state === state).length
