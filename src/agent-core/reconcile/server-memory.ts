import type { MeasuredServer, Memory } from '../memory/memory.ts'
import { isOver, lifeOf, type ServerState } from '../servers/server-state.ts'
import type { Servers } from '../servers/servers.ts'

type KnownServers = Pick<Servers, 'state' | 'get' | 'successor' | 'retiring'>
type MeasurableServers = KnownServers & Pick<Servers, 'toldBytesOf'>

/** All servers, each with how its memory is known. */
export const measuredServers = (servers: MeasurableServers): MeasuredServer[] =>
  living(servers).map(({ key, role, as, state }) => ({
    key,
    role,
    groupId: state.pid,
    toldBytes: servers.toldBytesOf(key, as),
    isLoading: state.kind === 'starting' || state.kind === 'loading',
  }))

/** What an earlier agent left running, as it is now; its priority and protection become known with its object. */
export function countServers(
  servers: KnownServers & Pick<Servers, 'needOf' | 'mappedBytesOf' | 'daemonMemoryOf'>,
  memory: { readonly adopt: (server: Parameters<Memory['adopt']>[0]) => void },
): void {
  for (const { key, role, state, as } of living(servers)) {
    // A server that has not answered yet may still be loading: until it answers it counts as starting.
    const phase = state.kind === 'starting' || state.kind === 'loading' ? 'starting' : 'running'
    const need = { needBytes: servers.needOf(key, as), mappedBytes: servers.mappedBytesOf(key, as) }
    memory.adopt({ key, role, ...need, ...servers.daemonMemoryOf(key, as), priority: 'normal', phase })
  }
}

type Living = Extract<ServerState, { readonly kind: 'starting' | 'loading' | 'ready' | 'stopping' }>

/**
 * All that run, in their roles of the book. While one takes over from another, the book has the elder of the two as the current one
 * until nothing is left of it, whichever answers.
 */
function living(servers: KnownServers) {
  return [...servers.state().keys()].flatMap((key) => {
    const inOrder = [
      { as: 'retiring' as const, state: servers.retiring(key) },
      { as: 'current' as const, state: servers.get(key) },
      { as: 'successor' as const, state: servers.successor(key) },
    ]
    return inOrder
      .flatMap(({ as, state }) => (isLiving(state) ? [{ key, as, state }] : []))
      .slice(0, 2)
      .map((one, place) => ({ ...one, role: place === 0 ? ('current' as const) : ('beside' as const) }))
  })
}

/** Keeps the book in step with the servers. Returns how to stop that. */
export function followServers(
  servers: Pick<Servers, 'get' | 'successor' | 'retiring' | 'onChange'>,
  memory: Pick<Memory, 'ready' | 'gone'>,
): () => void {
  return servers.onChange((key, state, role) => {
    const other = (one: ServerState | undefined) => one !== undefined && !isOver(one)
    const hasElder = role !== 'retiring' && other(role === 'successor' ? servers.get(key) : servers.retiring(key))
    const hasYounger = role !== 'successor' && other(role === 'current' ? servers.successor(key) : servers.get(key))
    if (state.kind === 'ready') memory.ready(key, hasElder ? 'beside' : 'current')
    if (isOver(state)) memory.gone(key, hasElder ? 'beside' : hasYounger ? 'replaced' : 'all')
  })
}

const isLiving = (state: ServerState | undefined): state is Living => state !== undefined && lifeOf(state) !== undefined
