import type { MeasuredServer, Memory } from '../memory/memory.ts'
import { isOver, lifeOf, type ServerState } from '../servers/server-state.ts'
import { daemonMemoryOf } from '../servers/served-model.ts'
import type { Servers } from '../servers/servers.ts'

/** All servers, each with how its memory is known. */
export const measuredServers = (servers: Pick<Servers, 'state' | 'toldBytesOf'>): MeasuredServer[] =>
  living(servers).map(({ key, state }) => ({
    key,
    groupId: state.pid,
    toldBytes: servers.toldBytesOf(key),
    isLoading: state.kind === 'starting' || state.kind === 'loading',
  }))

/** What an earlier agent left running, as it is now; its priority and protection become known with its object. */
export function countServers(
  servers: Pick<Servers, 'state' | 'factsOf'>,
  memory: { readonly adopt: (server: Parameters<Memory['adopt']>[0]) => void },
): void {
  for (const { key, state } of living(servers)) {
    // A server that has not answered yet may still be loading: until it answers it counts as starting.
    const phase = state.kind === 'starting' || state.kind === 'loading' ? 'starting' : 'running'
    const { needBytes, mappedBytes = 0, engine, files } = servers.factsOf(key) ?? {}
    const shared = engine && daemonMemoryOf(engine, files)
    memory.adopt({ key, needBytes, mappedBytes, ...shared, priority: 'normal', phase })
  }
}

type Living = Extract<ServerState, { readonly kind: 'starting' | 'loading' | 'ready' | 'stopping' }>

const living = (servers: Pick<Servers, 'state'>): { readonly key: string; readonly state: Living }[] =>
  [...servers.state()].flatMap(([key, state]) => (isLiving(state) ? [{ key, state }] : []))

/** Keeps the book in step with the servers. Returns how to stop that. */
export function followServers(
  servers: Pick<Servers, 'onChange'>,
  memory: Pick<Memory, 'gone'> & { readonly book: Pick<Memory['book'], 'ready'> },
): () => void {
  return servers.onChange((key, state) => {
    if (state.kind === 'ready') memory.book.ready(key)
    if (isOver(state)) memory.gone(key)
  })
}

const isLiving = (state: ServerState): state is Living => lifeOf(state) !== undefined
