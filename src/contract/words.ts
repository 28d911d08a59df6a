import type { ConnectionState } from './cluster.ts'
import type { ServiceState } from './service.ts'

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

export const clusterWords: Readonly<Record<ConnectionState, string>> = {
  connecting: 'Connecting',
  live: 'Live',
  stale: 'Stale',
  denied: 'Denied',
  absent: 'Not installed',
  offline: 'Offline',
}
