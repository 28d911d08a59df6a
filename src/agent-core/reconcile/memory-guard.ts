import {
  chooseExcess,
  excessAdvice,
  type ExcessCause,
  excessNotice,
  type ExcessVerdict,
  marginOf,
  reportedExcess,
} from '../memory/growth.ts'
import type { MeasuredServer, Memory } from '../memory/memory.ts'
import type { Logger } from '../observability/logger.ts'
import { specsOf } from './reading.ts'
import type { Reconciler } from './reconciler.ts'
import type { UnloadReasons } from './unload-reasons.ts'
import { isOver, lifeOf, type ServerState, stableAfterMs } from '../servers/server-state.ts'
import type { Servers } from '../servers/servers.ts'
import { wallTimeOf } from '../util/steady-clock.ts'

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
  memory: Pick<Memory, 'ready' | 'gone' | 'watchGrowth'>,
): () => void {
  return servers.onChange((key, state, role) => {
    const other = (one: ServerState | undefined) => one !== undefined && !isOver(one)
    const hasElder = role !== 'retiring' && other(role === 'successor' ? servers.get(key) : servers.retiring(key))
    const hasYounger = role !== 'successor' && other(role === 'current' ? servers.successor(key) : servers.get(key))
    if (state.kind === 'starting' || state.kind === 'loading') memory.watchGrowth()
    if (state.kind === 'ready') memory.ready(key, hasElder ? 'beside' : 'current')
    if (isOver(state)) memory.gone(key, hasElder ? 'beside' : hasYounger ? 'replaced' : 'all')
  })
}

const isLiving = (state: ServerState | undefined): state is Living => state !== undefined && lifeOf(state) !== undefined

interface MemoryGuardOptions {
  readonly memory: Pick<Memory, 'growth' | 'listen' | 'look' | 'watchGrowth' | 'now'>
  readonly servers: Pick<Servers, 'state' | 'get' | 'successor' | 'retiring' | 'toldBytesOf' | 'endForMemory'>
  readonly unloadReasons: Pick<UnloadReasons, 'unload'>
  /** Undefined while there is no cluster: then servers are ended all the same, and none is held. */
  readonly session: () =>
    { readonly reconciler: Pick<Reconciler, 'report' | 'enqueue'>; readonly clusterUrl: string } | undefined
  /** See `marginOf`; undefined = as there. */
  readonly marginBytes: () => number | undefined
  readonly log: Logger
  readonly onEnded: (cause: ExcessCause) => void
  readonly now: () => number
}

/** A load may pass through a peak. What is past the margin is none, and memory that is critically short leaves no room for one. */
const overBudgetMs = 1_500

/** What a server held comes back within that, and shows in a look at memory. */
const settleMs = 5_000

/** After this many ends in a row the service is held. */
const endsUntilHeld = 3

/**
 * Holds every server to the memory that it was admitted with: tells people of one that takes more, and ends one that by taking more leads
 * past the budget or makes memory critically short, before any model that keeps to its need and whatever protects it.
 */
export class MemoryGuard implements Disposable {
  readonly #options: MemoryGuardOptions
  readonly #unsubscribe: () => void
  /** The excess that was reported, by key. */
  #reported = new Map<string, { readonly excessBytes: number; readonly needBytes: number }>()
  readonly #ends = new Map<string, { readonly of: string; readonly count: number }>()
  /** The life of the server that has led past the budget, and since when. */
  #overBudget: { readonly life: number; readonly since: number } | undefined
  #endedAt = -Infinity
  /** Lives that were ended, until they are over. */
  #ended = new Set<number>()
  #largestSeen = 0

  constructor(options: MemoryGuardOptions) {
    this.#options = options
    this.#unsubscribe = options.memory.listen({
      onSample: () => this.#decide({ isFresh: true }),
      onGrowth: () => this.#decide({ isFresh: false }),
    })
  }

  [Symbol.dispose](): void {
    this.#unsubscribe()
  }

  /** What people should know of the key's server; undefined where it keeps to its need, or nearly. */
  notice(key: string): string | undefined {
    const reported = this.#reported.get(key)
    return reported && excessNotice(reported.excessBytes, reported.needBytes)
  }

  /** `isFresh`: memory as a whole has been looked at just now. */
  #decide({ isFresh }: { readonly isFresh: boolean }): void {
    const { memory, marginBytes } = this.#options
    const growth = memory.growth()
    if (!growth) return
    this.#tell(growth.servers)
    const lives = new Map(growth.servers.map((server) => [server, this.#lifeOf(server)]))
    const living = [...lives.values()]
    this.#ended = new Set([...this.#ended].filter((life) => living.includes(life)))
    const servers = growth.servers.map((server) => ({ ...server, isEnding: this.#ended.has(lives.get(server) ?? 0) }))
    const verdict = chooseExcess({ ...growth, servers, marginBytes: marginBytes() })
    if (verdict === undefined) this.#overBudget = undefined
    else if (this.#isDue(verdict, isFresh)) this.#endAll(verdict, servers)
    // What grows is not left to the next look by the clock.
    const largest = Math.max(0, ...growth.servers.map(({ possibleExcessBytes }) => possibleExcessBytes))
    if (!isFresh && largest > this.#largestSeen) void memory.look()
    this.#largestSeen = largest
  }

  #isDue({ end, cause }: ExcessVerdict, isFresh: boolean): boolean {
    const { memory, marginBytes } = this.#options
    if (memory.now() - this.#endedAt < settleMs) return false
    if (cause === 'available') return isFresh
    if (end.excessBytes > marginOf(end.needBytes ?? 0, marginBytes())) return true
    const life = this.#lifeOf(end)
    if (life === undefined) return false
    if (this.#overBudget?.life !== life) this.#overBudget = { life, since: memory.now() }
    if (memory.now() - this.#overBudget.since >= overBudgetMs) return true
    memory.watchGrowth()
    return false
  }

  /** The one that was chosen, and all that have the same memory: it comes back with the last of them. */
  #endAll(verdict: ExcessVerdict, servers: readonly ExcessVerdict['end'][]): void {
    const { shared } = verdict.end
    const others = servers.filter(
      (one) => one !== verdict.end && shared !== undefined && one.shared?.name === shared.name,
    )
    for (const end of [verdict.end, ...others]) this.#end({ ...verdict, end })
  }

  #end(verdict: ExcessVerdict): void {
    const { servers, session, log, memory, onEnded } = this.#options
    const { key } = verdict.end
    const life = this.#lifeOf(verdict.end)
    if (life === undefined) return
    this.#overBudget = undefined
    this.#endedAt = memory.now()
    this.#ended.add(life)
    const message = this.#hold(key, life, verdict) ?? `${verdict.sentence} ${excessAdvice}`
    log.warn('server ended for its memory', { key, life, text: message })
    onEnded(verdict.cause)
    servers.endForMemory(key, life, message)
    session()?.reconciler.enqueue(key)
  }

  /** Counts its ends in a row; the last one allowed holds the service, with the sentence that this returns. */
  #hold(key: string, life: number, { sentence }: ExcessVerdict): string | undefined {
    const { servers, session, unloadReasons, now } = this.#options
    const { reconciler, clusterUrl } = session() ?? {}
    const { uid, service, model, namespace, name } = reconciler?.report(key) ?? {}
    const state = servers.get(key)
    // What a new spec starts beside a server that keeps to its need takes nothing from that one.
    if (!service || uid === undefined || clusterUrl === undefined || !state || lifeOf(state) !== life) return
    const of = `${uid} ${specsOf(service, model)}`
    const wasStable = state.kind === 'ready' && now() - state.readySince >= stableAfterMs
    const before = this.#ends.get(key)
    const count = before?.of === of && !wasStable ? before.count + 1 : 1
    this.#ends.set(key, { of, count })
    if (count < endsUntilHeld || namespace === undefined || name === undefined) return undefined
    this.#ends.delete(key)
    const message = `Held, because its server was stopped ${endsUntilHeld} times in a row for taking too much memory. ${sentence} ${excessAdvice} The agent tries again when its spec or its Model changes, or when a person brings it back.`
    const since = wallTimeOf(now()).toISOString()
    const target = { uid, namespace, name, cluster: clusterUrl }
    unloadReasons.unload(target, {
      kind: 'held',
      cause: 'evicted',
      since,
      message,
      exceededBy: specsOf(service, model),
    })
    return message
  }

  #lifeOf({ key, role }: Pick<ExcessVerdict['end'], 'key' | 'role'>): number | undefined {
    return lifeOf(living(this.#options.servers).find((one) => one.key === key && one.role === role)?.state)
  }

  /** The server of each service that takes most past its need. */
  #tell(all: NonNullable<ReturnType<Memory['growth']>>['servers']): void {
    const { session, marginBytes } = this.#options
    const before = this.#reported
    this.#reported = new Map()
    for (const one of all.toSorted((a, b) => a.excessBytes - b.excessBytes)) {
      const excessBytes = reportedExcess(one, before.get(one.key)?.excessBytes, marginBytes())
      if (excessBytes !== undefined) this.#reported.set(one.key, { excessBytes, needBytes: one.needBytes ?? 0 })
    }
    for (const key of new Set([...before.keys(), ...this.#reported.keys()])) {
      if (before.get(key)?.excessBytes !== this.#reported.get(key)?.excessBytes) session()?.reconciler.enqueue(key)
    }
  }
}
