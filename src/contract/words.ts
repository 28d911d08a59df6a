import type { ConnectionState } from './cluster.ts'
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
  state === 'stopped' && reason === 'Idle' ? 'Idle' : stateWords[state]

export const clusterWords: Readonly<Record<ConnectionState, string>> = {
  connecting: 'Connecting',
  live: 'Live',
  stale: 'Stale',
  denied: 'Denied',
  absent: 'Not installed',
  offline: 'Offline',
}
