import type { Platform } from '../../platform/platform.ts'
import type { Activity } from '../../servers/activity.ts'
import type { ServerState } from '../../servers/server-state.ts'
import type { CountedServer } from '../../servers/server-slot.ts'
import type { LatelyWorking } from './lately-working.ts'

export interface WorkSources {
  readonly states: () => Iterable<ServerState>
  /** Those that have been ready. */
  readonly counted: () => readonly CountedServer[]
  /** Never rejects. */
  readonly ask: (port: number, timeLimitMs: number) => Promise<Activity>
  readonly connections: Platform['establishedConnections']
  readonly working: Pick<LatelyWorking, 'has' | 'keepOnly'>
}

const answerLimitMs = 1_000

/** Whether a model loads, or a request runs. */
export async function isWorkUnderWay(sources: WorkSources): Promise<boolean> {
  if ([...sources.states()].some(isOnItsWay)) return true
  const servers = sources.counted()
  sources.working.keepOnly(new Set(servers.map(({ run }) => run)))
  const answers = await Promise.all(servers.map((server) => hasRequests(server, sources)))
  return answers.includes(true)
}

/** A server that was found running may have nothing to do: it is asked first. */
const isOnItsWay = (state: ServerState): boolean =>
  state.kind === 'loading' ||
  (state.kind === 'starting' && state.unasked !== true) ||
  (state.kind === 'stopping' && state.drain !== undefined)

/**
 * Of a server in the middle of a long batch open connections stand for requests. Of one that does not say, or must not be asked, they do so
 * while it works: a client may keep one open for hours.
 */
async function hasRequests(
  server: CountedServer,
  { ask, connections, working }: Pick<WorkSources, 'ask' | 'connections' | 'working'>,
): Promise<boolean> {
  const { port, sleepsWhenIdle } = server
  const activity = sleepsWhenIdle ? undefined : await ask(port, answerLimitMs)
  if (activity?.kind === 'counted') return activity.requests > 0
  if ((await connections(port)) === 0) return false
  return activity?.kind === 'silent' || activity?.kind === 'cannotAsk' || working.has(server)
}
