import type { ServerState } from '../../servers/server-state.ts'
import type { CountedServer } from '../../servers/service-servers.ts'
import type { LatelyWorking } from './lately-working.ts'

export interface WorkSources {
  readonly states: () => Iterable<ServerState>
  /** Those that have been ready. */
  readonly counted: () => readonly CountedServer[]
  readonly working: Pick<LatelyWorking, 'has' | 'keepOnly'>
  /** What a server said of its requests lately is not asked again. */
  readonly freshMs: number
}

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
 * Open connections to a server in the middle of a long batch stand for requests. Those to one that does not say, or must not be asked, do so
 * while it works: a client may keep one open for hours.
 */
async function hasRequests(
  server: CountedServer,
  { working, freshMs }: Pick<WorkSources, 'working' | 'freshMs'>,
): Promise<boolean> {
  const { answer, requests } = await server.look({ freshMs, connections: true })
  if (requests === 0) return false
  return answer === 'counted' || answer === 'silent' || answer === 'cannotAsk' || working.has(server)
}
