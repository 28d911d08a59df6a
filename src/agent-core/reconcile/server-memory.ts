import type { MeasuredServer, Memory } from '../memory/memory.ts'
import type { Servers } from '../process/servers.ts'
import { isOver, type ServerState } from '../process/server-state.ts'

type KnownServers = Pick<Servers, 'state' | 'get' | 'successor' | 'retiring'>

/**
 * The process groups of all servers. While one takes over from another, the book has the elder of the two as the current one until
 * nothing is left of it, whichever answers.
 */
export function measuredServers(servers: KnownServers): MeasuredServer[] {
  return [...servers.state().keys()].flatMap((key) => {
    const inOrder = [servers.retiring(key), servers.get(key), servers.successor(key)]
    const [elder, younger] = inOrder.map(groupOf).filter((groupId) => groupId !== undefined)
    return [
      ...(elder === undefined ? [] : [{ key, role: 'current' as const, groupId: elder }]),
      ...(younger === undefined ? [] : [{ key, role: 'beside' as const, groupId: younger }]),
    ]
  })
}

/** Keeps the book in step with what servers do, whoever asked them to. Returns how to stop that. */
export function followServers(servers: KnownServers & Pick<Servers, 'onChange'>, memory: Memory): () => void {
  return servers.onChange((key, state, role) => {
    const other = (one: ServerState | undefined) => one !== undefined && !isOver(one)
    const hasElder = role !== 'retiring' && other(role === 'successor' ? servers.get(key) : servers.retiring(key))
    const hasYounger = role !== 'successor' && other(role === 'current' ? servers.successor(key) : servers.get(key))
    if (state.kind === 'ready') memory.ready(key, hasElder ? 'beside' : 'current')
    if (state.kind === 'exited' && !state.settled) return
    if (isOver(state)) memory.gone(key, hasElder ? 'beside' : hasYounger ? 'replaced' : 'all')
  })
}

const groupOf = (state: ServerState | undefined): number | undefined =>
  state !== undefined && !isOver(state) && 'pid' in state ? state.pid : undefined
