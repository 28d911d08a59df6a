import type { Platform } from '../platform/platform.ts'
import type { Activity } from '../process/activity.ts'
import type { ServerState } from '../process/server-state.ts'
import type { CountedServer } from '../process/service-servers.ts'

export interface WorkSources {
  readonly states: () => Iterable<ServerState>
  /** Those that have been ready. */
  readonly counted: () => readonly CountedServer[]
  /** Never rejects. */
  readonly ask: (port: number, timeLimitMs: number) => Promise<Activity>
  readonly connections: Platform['establishedConnections']
}

const answerLimitMs = 1_000

/** Whether a model loads, or a request runs. */
export async function isWorkUnderWay(sources: WorkSources): Promise<boolean> {
  if ([...sources.states()].some(isOnItsWay)) return true
  const answers = await Promise.all(sources.counted().map((server) => hasRequests(server, sources)))
  return answers.includes(true)
}

/** A server that was found running may have nothing to do: it is asked first. */
const isOnItsWay = (state: ServerState): boolean =>
  state.kind === 'loading' ||
  (state.kind === 'starting' && state.unasked !== true) ||
  (state.kind === 'stopping' && state.drain !== undefined)

/** Of a server that does not say, or is in the middle of a long batch, open connections stand for requests. */
async function hasRequests(
  { port, sleepsWhenIdle }: CountedServer,
  { ask, connections }: Pick<WorkSources, 'ask' | 'connections'>,
): Promise<boolean> {
  const activity = sleepsWhenIdle ? undefined : await ask(port, answerLimitMs)
  return activity?.kind === 'counted' ? activity.requests > 0 : (await connections(port)) > 0
}
