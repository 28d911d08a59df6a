import type { ConnectionState } from './cluster.ts'
import { formatBytes } from './format.ts'
import type { MemoryStateView } from './memory.ts'
import type { ServiceState, ServiceView, StepName } from './service.ts'

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

/** In a few words. */
export function stateWord({ state, reason }: Pick<ServiceView, 'state' | 'reason'>): string {
  if (reason === 'Asleep' || (state === 'stopped' && reason === 'Idle')) return reason
  return state === 'waiting' && reason === 'InsufficientMemory' ? 'Does not fit' : stateWords[state]
}

export const stepWords: Readonly<Record<StepName, string>> = {
  fetched: 'Fetched',
  started: 'Started',
  healthy: 'Healthy',
  published: 'Published',
  clusterAgrees: 'Cluster agrees',
}

/** What a person may ask for a service, and what stands there while the agent has not answered. */
export const actionWords = {
  stop: { label: 'Stop', pending: 'Stopping…' },
  start: { label: 'Start', pending: 'Starting…' },
  bringBack: { label: 'Bring back', pending: 'Bringing back…' },
  restart: { label: 'Restart', pending: 'Restarting…' },
  evict: { label: 'Evict from memory', pending: 'Evicting…' },
  protect: { label: 'Protect', pending: 'Protecting…' },
  unprotect: { label: 'Unprotect', pending: 'Taking protection off…' },
  cancelDownload: { label: 'Cancel download', pending: 'Cancelling…' },
  skipDrain: { label: 'Skip the wait', pending: 'Ending…' },
  release: { label: 'Release to other machines', pending: 'Releasing…' },
} as const

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
  unauthorized: 'Not logged in',
  absent: 'Not installed',
  offline: 'Offline',
}
