import type { AgentName, ServiceName } from './faults.ts'

export interface SeenProcess {
  readonly pid: number
  /** Of its command line. */
  readonly agent: AgentName
  /** What an edit changes: tokens of context, or of a server of MLX, which takes none, 1,024 for each slot. */
  readonly size: number
  /** The file or folder that it was started with. */
  readonly model: string
  readonly port: number
  /** Whether it really listens there. */
  readonly listens: boolean
}

export interface SeenService {
  readonly name: ServiceName
  /** What its EndpointSlice tells pods; absent where that is not ready. */
  readonly ready?: { readonly port: number; readonly holder: AgentName }
  /** Those with the command line of this service; none where Ollama serves it. */
  readonly processes: readonly SeenProcess[]
  /** Agents that Ollama has a model of in memory; absent where a process serves it. */
  readonly inDaemon?: readonly AgentName[]
  /** Its specification changed lately, or a restart was asked for: two servers at a time are right. */
  readonly mayChange: boolean
  /** Of all agents, within the last minute. */
  readonly statusWrites: number
  /** What happened in that minute and is told in its status. */
  readonly events: number
}

/** Something that is not as it should be at one moment. */
export interface Finding {
  readonly rule: 'listener' | 'loaded' | 'one process' | 'status writes'
  readonly service: ServiceName
  /** The agent that has to put it right; absent = a violation however short it lasts. */
  readonly duty?: AgentName
  /** How long that may take; absent = as usual. */
  readonly patienceMs?: number
  readonly sentence: string
}

const statusWritesAMinute = 30
/** A daemon is asked every five seconds what it has in memory, and tells nobody by itself. */
const dropShowsMs = 10_000

/** The violations in one observation of everything. */
export const judge = (seen: readonly SeenService[]): Finding[] => seen.flatMap(judgeService)

function judgeService(service: SeenService): Finding[] {
  return [listener(service), oneProcess(service), statusWrites(service)].filter((finding) => finding !== undefined)
}

function listener({ name, ready, processes, inDaemon }: SeenService): Finding | undefined {
  if (ready && inDaemon) {
    if (inDaemon.includes(ready.holder)) return undefined
    return {
      ...{ rule: 'loaded', service: name, duty: ready.holder, patienceMs: dropShowsMs },
      sentence: `The slice of ${name} says ready, and Ollama has no model of the ${ready.holder} agent in memory.`,
    }
  }
  if (!ready || processes.some(({ port, listens }) => listens && port === ready.port)) return undefined
  const others = processes.map(({ pid, port, listens }) => `${pid} ${listens ? 'on' : 'not yet on'} ${port}`)
  return {
    rule: 'listener',
    service: name,
    duty: ready.holder,
    sentence: `The slice of ${name} says ready at port ${ready.port}, where no server of it listens; its servers: ${others.join(', ') || 'none'}.`,
  }
}

function oneProcess({ name, processes, mayChange }: SeenService): Finding | undefined {
  const allowed = mayChange ? 2 : 1
  const crowd = agentsOf(processes).find(({ own }) => own.length > allowed)
  if (!crowd) return undefined
  return {
    rule: 'one process',
    service: name,
    duty: crowd.agent,
    sentence: `${name} has ${crowd.own.length} servers of the ${crowd.agent} agent: ${crowd.own.map(({ pid }) => pid).join(', ')}.`,
  }
}

function agentsOf(processes: readonly SeenProcess[]) {
  const agents = [...new Set(processes.map(({ agent }) => agent))]
  return agents.map((agent) => ({ agent, own: processes.filter((one) => one.agent === agent) }))
}

/** What really happens may be told twice more each: when it begins, and when it is over. A start alone is four states. */
function statusWrites({ name, statusWrites: count, events }: SeenService): Finding | undefined {
  if (count <= statusWritesAMinute + 2 * events) return undefined
  return {
    rule: 'status writes',
    service: name,
    sentence: `The status of ${name} was written ${count} times in a minute in which ${events} things happened to it.`,
  }
}
