import type { ConnectionState } from './cluster.ts'
import { formatBytes } from './format.ts'
import type { MemoryStateView } from './memory.ts'
import type { ServiceState, ServiceView } from './service.ts'

/** The same words on every surface. */
export const stateWords: Readonly<Record<ServiceState, string>> = {
  waiting: 'Waiting',
  fetching: 'Downloading',
  starting: 'Starting',
  ready: 'Ready',
  unready: 'Not ready',
  'crash-looping': 'Crash loop',
  stopping: 'Stopping',
  stopped: 'Stopped',
  refused: 'Refused',
  foreign: 'On another machine',
}

/** In one word or two. */
export const stateWord = ({ state, reason }: Pick<ServiceView, 'state' | 'reason'>): string =>
  reason === 'Asleep' || (state === 'stopped' && reason === 'Idle') ? reason : stateWords[state]

/** Such as "38.0 GB of 96.0 GB for models, pressure normal, 2 waiting". */
export function memoryLine({ modelsBytes, budgetBytes, pressure, waiting, problem }: MemoryStateView): string {
  const budget = budgetBytes === undefined ? '' : ` of ${formatBytes(budgetBytes)}`
  const queue = waiting.length === 0 ? '' : `, ${waiting.length} waiting`
  const trouble = problem === undefined ? '' : `: ${problem}`
  return `${formatBytes(modelsBytes)}${budget} for models, pressure ${pressure}${queue}${trouble}`
}

export const clusterWords: Readonly<Record<ConnectionState, string>> = {
  connecting: 'Connecting',
  live: 'Live',
  stale: 'Stale',
  denied: 'Denied',
  absent: 'Not installed',
  offline: 'Offline',
}
