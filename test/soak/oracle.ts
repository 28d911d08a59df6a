import { z } from 'zod'
import { annotations } from '../../src/agent-core/publishing/objects.ts'
import { holderOf } from '../../src/agent-core/publishing/objects.ts'
import type { ClusterConnection } from '../support/control-plane/admin-client.ts'
import { KubeHttp } from '../support/controller-stand-in/kube-http.ts'
import { Reflector } from '../support/controller-stand-in/reflector.ts'
import type { Blockage } from './blockage.ts'
import { Ends } from './ends.ts'
import { agents as agentNames, isOfDaemon, services, type AgentName, type ServiceName } from './faults.ts'
import { judge, type Finding, type SeenService } from './judge.ts'
import { lateMs, Patience } from './patience.ts'
import type { Processes, ServerProcess } from './processes.ts'
import type { SoakAgent } from './soak-agent.ts'
import type { SoakDaemon } from './soak-daemon.ts'
import type { Touches } from './touches.ts'

const beatMs = 50
const minuteMs = 60_000

const slice = z.looseObject({
  metadata: z.looseObject({
    name: z.string(),
    namespace: z.string(),
    resourceVersion: z.string(),
    annotations: z.record(z.string(), z.string()).default({}),
  }),
  endpoints: z
    .array(z.looseObject({ conditions: z.looseObject({ ready: z.boolean().nullish() }).nullish() }))
    .nullish(),
  ports: z.array(z.looseObject({ port: z.number().nullish() })).nullish(),
})

export interface OracleOptions {
  /** Of the API server itself: nothing is in the way of the oracle. */
  readonly connection: ClusterConnection
  readonly namespace: string
  readonly processes: Processes
  readonly daemons: Readonly<Record<AgentName, SoakDaemon>>
  readonly agents: Readonly<Record<AgentName, SoakAgent>>
  /** What keeps agents from writing slices. */
  readonly obstacles: readonly Blockage[]
  readonly touches: Touches
  /** Of changes that a second server may be started for. */
  readonly changes: Touches
  /** Called once for each invariant that is broken. */
  readonly onBroken: (sentence: string) => void
}

/** Looks at slices, processes and writes twenty times a second, and tells what has been wrong for too long. */
export class Oracle implements AsyncDisposable {
  readonly #options: OracleOptions
  readonly #http: KubeHttp
  readonly #abort = new AbortController()
  readonly #slices: Reflector<z.infer<typeof slice>>
  readonly #statusWrites = new Map<ServiceName, number[]>()
  readonly #events = new Map<ServiceName, number[]>()
  readonly #patience = new Patience()
  readonly #ends: Ends
  /** How many observations count: late ones tell nothing of the agent, nor do those while it is away or cannot write. */
  readonly looks = { all: 0, late: 0, away: 0, blocked: 0 }
  #seen: ServerProcess[] = []
  #lookedAt = performance.now()
  #workedMs = 0
  #timer: NodeJS.Timeout | undefined

  constructor(options: OracleOptions) {
    this.#options = options
    this.#http = new KubeHttp(options.connection)
    this.#ends = new Ends(options.touches)
    this.#slices = new Reflector({
      http: this.#http,
      path: `/apis/discovery.k8s.io/v1/namespaces/${options.namespace}/endpointslices`,
      schema: slice,
      signal: this.#abort.signal,
      onChange: () => undefined,
    })
  }

  async start(): Promise<void> {
    await this.#slices.synced
    this.#timer = setInterval(() => this.#look(), beatMs)
  }

  /** As of the last look. */
  get servers(): readonly ServerProcess[] {
    return this.#seen
  }

  /** Services without an EndpointSlice. */
  get unclaimed(): ServiceName[] {
    return services.filter((name) => !this.#slices.get(`${this.#options.namespace}/${name}`))
  }

  /**
   * How long the first agent could do something until now. What was done to a service while it was away or could not write shows when it
   * can.
   */
  get workedMs(): number {
    return this.#workedMs
  }

  statusWritten(name: ServiceName): void {
    note(this.#statusWrites, name)
  }

  /** Something that its status tells. */
  happened(name: ServiceName): void {
    note(this.#events, name)
  }

  /** What its slice tells pods now. */
  readyOf(name: ServiceName): SeenService['ready'] {
    const { namespace, agents } = this.#options
    const found = this.#slices.get(`${namespace}/${name}`)
    const isReady = found?.endpoints?.some(({ conditions }) => conditions?.ready === true) === true
    const port = found?.ports?.[0]?.port
    if (!found || !isReady || port === undefined || port === null) return undefined
    const node = holderOf(found.metadata.annotations[annotations.claim])
    return { port, holder: node !== undefined && node === agents.second.nodeId ? 'second' : 'first' }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer)
    this.#abort.abort()
    await this.#slices.ended()
    this.#http.close()
  }

  #look(): void {
    const { processes, daemons, agents, obstacles, changes, onBroken } = this.#options
    const at = performance.now()
    this.#seen = processes.look()
    for (const change of agentNames.flatMap((name) => daemons[name].foreignChanges()))
      onBroken(`Ollama was asked to change what is not the agents': ${change}.`)
    const inDaemon = agentNames.filter((name) => daemons[name].loaded.length > 0)
    const seen = services.map((name): SeenService => {
      const ready = this.readyOf(name)
      return {
        name,
        ...(ready && { ready }),
        processes: this.#seen.filter(({ service }) => service === name),
        ...(isOfDaemon(name) && { inDaemon }),
        mayChange: changes.isTouched(name, this.#workedMs),
        statusWrites: withinAMinute(this.#statusWrites, name, at),
        events: withinAMinute(this.#events, name, at),
      }
    })
    const isFree = obstacles.every((one) => one.isClear(at))
    const isUrgentlyFree = obstacles.every((one) => one.isUrgentlyClear(at))
    const canAct = (agent: AgentName, rule: Finding['rule']) =>
      (rule === 'listener' ? isUrgentlyFree : isFree) &&
      !(rule === 'loaded' && daemons[agent].isHanging) &&
      agents[agent].isAtWork
    this.#count(at, isFree)
    for (const { sentence } of this.#patience.see(judge(seen), { at, canAct })) onBroken(sentence)
    const ofTheFirst = this.#seen.filter(({ agent }) => agent === 'first')
    for (const sentence of this.#ends.see(ofTheFirst, this.#workedMs)) onBroken(sentence)
  }

  #count(at: number, isFree: boolean): void {
    const sinceMs = at - this.#lookedAt
    this.#lookedAt = at
    this.looks.all += 1
    if (sinceMs > lateMs) this.looks.late += 1
    else if (!this.#options.agents.first.isAtWork) this.looks.away += 1
    else if (!isFree) this.looks.blocked += 1
    else this.#workedMs += sinceMs
  }
}

type Times = Map<ServiceName, number[]>

function note(times: Times, name: ServiceName): void {
  times.set(name, [...(times.get(name) ?? []), performance.now()])
}

function withinAMinute(times: Times, name: ServiceName, at: number): number {
  const recent = (times.get(name) ?? []).filter((one) => at - one < minuteMs)
  times.set(name, recent)
  return recent.length
}
