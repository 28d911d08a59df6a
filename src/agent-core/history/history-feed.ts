import type { ServiceRef } from '../../contract/commands.ts'
import type { AgentSnapshot } from '../../contract/snapshot.ts'
import type { ServerRole } from '../process/server-state.ts'
import type { ServerState } from '../process/server-state.ts'
import type { History } from './history.ts'

/** Turns what servers do into entries: each once, however often it is told. `why` says why a server is being stopped. */
export function serverFeed(history: Pick<History, 'add'>, why: (key: string) => string | undefined) {
  const told = new Map<string, Told>()
  return (key: string, state: ServerState, role: ServerRole = 'current'): void => {
    const known = told.get(key) ?? { started: [], ready: [], stopReasons: {} }
    told.set(key, known)
    const service = refOf(key)
    switch (state.kind) {
      case 'starting':
      case 'loading':
        started(state)
        return
      case 'ready':
        started(state)
        if (known.ready.includes(state.pid)) return
        known.ready = [...known.ready, state.pid].slice(-mostAtOnce)
        history.add({ kind: 'ready', service, message: `The server answers on port ${state.port}.` })
        return
      case 'stopping':
        if (state.cause === 'stopped') known.stopReasons[role] = why(key)
        return
      case 'exited':
        if (!state.settled) return
        told.set(key, { ...known, stopReasons: { ...known.stopReasons, [role]: undefined } })
        history.add(
          state.cause === 'stopped'
            ? { kind: 'stopped', service, message: known.stopReasons[role] ?? state.message }
            : { kind: 'crashed', service, message: state.message },
        )
        return
      case 'failedToSpawn':
        history.add({ kind: 'crashed', service, message: state.message })
    }

    function started({ pid, unasked }: { readonly pid?: number; readonly unasked?: boolean }): void {
      if (pid === undefined || known.started.includes(pid)) return
      known.started = [...known.started, pid].slice(-mostAtOnce)
      const how = unasked === true ? 'found running as process' : 'started as process'
      history.add({ kind: 'started', service, message: `The server was ${how} ${pid}.` })
    }
  }
}

/** Of one service. */
const mostAtOnce = 2

interface Told {
  /** Pids. */
  started: readonly number[]
  ready: readonly number[]
  readonly stopReasons: Partial<Record<ServerRole, string | undefined>>
}

/** Refusals and changes of the address, as a snapshot shows them. */
export function snapshotFeed(history: Pick<History, 'add'>) {
  let refusals = new Map<string, string>()
  let known: { readonly address: string | undefined } | undefined
  return ({ services, host }: AgentSnapshot): void => {
    const now = new Map<string, string>()
    for (const { namespace, name, uid, state, message } of services) {
      if (state !== 'refused') continue
      now.set(uid, message)
      if (refusals.get(uid) !== message) history.add({ kind: 'refused', service: { namespace, name }, message })
    }
    refusals = now
    if (known && known.address !== host.address) history.add({ kind: 'addressChanged', message: host.message })
    // The first one is no change.
    if (known || host.address !== undefined) known = { address: host.address }
  }
}

function refOf(key: string): ServiceRef {
  const slash = key.indexOf('/')
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) }
}
