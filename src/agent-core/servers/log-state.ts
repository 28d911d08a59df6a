import type { Logger } from '../observability/logger.ts'
import type { ServerState } from './server-state.ts'

/** The line of the log for a new state of a server. */
export function logState(log: Logger, key: string, state: ServerState): void {
  switch (state.kind) {
    case 'starting':
      if (state.pid !== undefined) log.debug('started server', { service: key, pid: state.pid, port: state.port })
      return
    case 'loading':
      log.debug('server is loading', { service: key, pid: state.pid, port: state.port })
      return
    case 'ready':
      if (!state.healthy)
        log.warn('server does not answer', { service: key, pid: state.pid, port: state.port, trouble: state.trouble })
      else log.debug('server is ready', { service: key, pid: state.pid, port: state.port })
      return
    case 'stopping':
      if (state.drain) log.info('requests are finishing', { service: key, pid: state.pid, ...state.drain })
      else log.info('stopping server', { service: key, pid: state.pid, port: state.port, cause: state.cause })
      return
    case 'failedToSpawn':
      log.warn('server could not be started', { service: key, reason: state.message })
      return
    case 'exited': {
      if (!state.settled) return
      const { code, signal, message: reason, cause, left } = state
      log[cause === 'stopped' && left === undefined ? 'info' : 'warn']('server exited', {
        service: key,
        code,
        signal,
        reason,
        left,
      })
    }
  }
}
