import {
  chooseComeBack,
  chooseEviction,
  evictedOnceMore,
  type EvictedService,
  grownBytes,
  type LoadedModel,
  nextToGo,
  type SkipReason,
} from '../memory/eviction.ts'
import type { HeldMemory } from '../memory/holds.ts'
import type { Memory } from '../memory/memory.ts'
import type { MemoryView } from '../memory/watchdog.ts'
import type { Logger } from '../observability/logger.ts'
import type { Use } from '../servers/poller.ts'
import type { CountedServer } from '../servers/service-server.ts'
import { isOver, isUnendable, type ServerState } from '../servers/server-state.ts'
import { type UnloadReasons, unloadTarget } from './unload-reasons.ts'
import type { ServiceReport } from './service-report.ts'
import type { Narrator } from './narrator.ts'
import type { Reconciler } from './reconciler.ts'

type KnownServices = Pick<Reconciler, 'report' | 'reports' | 'enqueue'>
type ClusterAddress = Parameters<typeof unloadTarget>[0]

export interface PressureEvictionOptions {
  readonly memory: Memory
  readonly unloadReasons: Pick<UnloadReasons, 'unload' | 'end' | 'eviction' | 'remember'>
  readonly narrator: Pick<Narrator, 'tell'>
  /** Those that have been ready. */
  readonly servers: () => readonly Pick<CountedServer, 'key' | 'look'>[]
  /** Undefined while there is no cluster: then nothing is evicted, and nothing comes back. */
  readonly session: () => { readonly reconciler: KnownServices; readonly cluster: ClusterAddress } | undefined
  readonly isEnabled: () => boolean
  /** For tests: see EvictionQuestion. */
  readonly share?: number | undefined
  /** For tests: how long pressure must have been normal before what was evicted once comes back. */
  readonly comeBackMs?: number | undefined
  readonly log: Logger
  readonly onEvicted: () => void
  readonly onSkipped: (reason: Exclude<SkipReason, 'not_critical' | 'cooling_down' | 'draining'>) => void
  readonly now?: () => number
}

/** Looks at memory come more seldom, so that each asks once; what another asked meanwhile counts. */
const freshMs = 1_000

/** Sheds the least important model while memory is critically short, and brings it back when it has not been short for a while. */
export class PressureEviction implements Disposable {
  readonly #options: PressureEvictionOptions
  /** What ready servers were seen to do when memory was looked at last; empty while it is not short. */
  #uses: ReadonlyMap<string, Use> = new Map()
  readonly #now: () => number
  readonly #unsubscribe: () => void
  #isDeciding = false
  #endedAt: number | undefined
  #leaving: readonly string[] = []
  /** The latest service that came back. */
  #cameBack: { readonly key: string; readonly at: number } | undefined
  /** Why nothing was evicted in this episode of critical pressure, as it was reported. */
  #reportedSkip: SkipReason | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(options: PressureEvictionOptions) {
    this.#options = options
    this.#now = options.now ?? Date.now
    this.#unsubscribe = options.memory.listen({
      onSample: (view) => this.#consider(view),
    })
  }

  /** The services that would be evicted if memory became critically short now. */
  next(): { key?: string; sentence: string } {
    return nextToGo(this.#models())
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
    this.#unsubscribe()
  }

  #consider(view: MemoryView): void {
    if (this.#isDeciding) return
    this.#isDeciding = true
    this.#decide(view)
      .catch((error: unknown) => this.#options.log.error('eviction not decided', { error }))
      .finally(() => (this.#isDeciding = false))
  }

  async #decide(view: MemoryView): Promise<void> {
    this.#noteEnd()
    if (view.level !== 'critical') this.#reportedSkip = undefined
    if (view.level === 'warning' || view.level === 'critical') await this.#lookAtUse()
    else this.#uses = new Map()
    if (view.level === 'critical' && !view.isEasing) this.#evict(view)
    else if (view.level === 'normal') this.#bringBack(view)
  }

  #evict(view: MemoryView): void {
    const { memory, isEnabled, share, log, narrator } = this.#options
    const models = this.#models()
    const choice = chooseEviction({
      models,
      level: view.level,
      levelForMs: memory.levelForMs(view),
      isEnabled: isEnabled(),
      share,
      totalBytes: view.figures?.totalBytes ?? Infinity,
      sinceEvictionMs: this.#endedAt === undefined ? undefined : memory.now() - this.#endedAt,
      sampleAgeMs: memory.now() - view.at,
    })
    if ('evict' in choice) {
      this.#leaving = choice.evict.filter((key) => this.#carryOut(key, choice.sentence))
      return
    }
    // These pass by themselves.
    if (choice.skip === 'not_critical' || choice.skip === 'cooling_down' || choice.skip === 'draining') return
    this.#options.onSkipped(choice.skip)
    if (choice.skip === this.#reportedSkip) return
    this.#reportedSkip = choice.skip
    log.warn('nothing evicted', { reason: choice.skip, text: choice.sentence })
    const message = `${choice.sentence} (skip-reason=${choice.skip})`
    for (const { key } of models) narrator.tell(key, { kind: 'evictionSkipped', message })
  }

  /** False where the service is no longer known. */
  #carryOut(key: string, why: string): boolean {
    const { session, unloadReasons, narrator, onEvicted } = this.#options
    const { reconciler, cluster } = session() ?? {}
    const report = reconciler?.report(key)
    if (!reconciler || !cluster || report?.uid === undefined) return false
    const { uid, namespace, name } = report
    const now = this.#now()
    const message = `Evicted from memory, which was critically short: ${why} It comes back automatically once that has passed.`
    unloadReasons.remember(uid, evictedOnceMore(unloadReasons.eviction(uid), now))
    const since = new Date(now).toISOString()
    unloadReasons.unload(unloadTarget(cluster, { uid, namespace, name }), { kind: 'evicted', since, message })
    narrator.tell(key, { kind: 'evicted', why, message, priority: priorityOf(report) })
    onEvicted()
    reconciler.enqueue(key)
    return true
  }

  #bringBack(view: MemoryView): void {
    const { memory, comeBackMs, session, unloadReasons, narrator } = this.#options
    const { reconciler } = session() ?? {}
    const evicted = this.#evicted()
    if (!reconciler || evicted.length === 0) return
    const choice = chooseComeBack({
      evicted,
      level: view.level,
      levelForMs: memory.levelForMs(view),
      firstWaitMs: comeBackMs,
      comingBack: this.#comingBack(reconciler),
      sinceComeBackMs: this.#cameBack && memory.now() - this.#cameBack.at,
    })
    if (!choice) return
    if ('wait' in choice) {
      if (choice.inMs !== undefined) this.#lookAgainIn(choice.inMs)
      return
    }
    const chosen = evicted.find(({ key }) => key === choice.bringBack)
    if (!chosen) return
    const { key, uid, record } = chosen
    const now = this.#now()
    unloadReasons.remember(uid, { ...record, broughtBackAt: now })
    unloadReasons.end(uid)
    this.#cameBack = { key, at: memory.now() }
    narrator.tell(key, { kind: 'broughtBack', why: choice.sentence })
    reconciler.enqueue(key)
  }

  #lookAgainIn(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#options.memory.look(), ms + 1)
    this.#timer.unref()
  }

  /** One at a time: the service that is coming back, until it serves, fails, waits for something, or is no longer wanted. */
  #comingBack(reconciler: KnownServices): string | undefined {
    if (!this.#cameBack) return undefined
    const state = reconciler.report(this.#cameBack.key)?.plan.state
    const isUnderWay = state === 'starting' || state === 'fetching'
    return isUnderWay ? this.#cameBack.key : undefined
  }

  #evicted(): (EvictedService & { readonly uid: string })[] {
    const { session, unloadReasons } = this.#options
    const reports = session()?.reconciler.reports() ?? []
    return reports.flatMap((report) => {
      const { key, uid, unloadReason } = report
      if (uid === undefined || unloadReason?.kind !== 'evicted') return []
      const record = unloadReasons.eviction(uid) ?? { evictions: 1, evictedAt: Date.parse(unloadReason.since) }
      return [{ key, uid, priority: priorityOf(report), record }]
    })
  }

  /** The time at which what left had left, or was given up on. */
  #noteEnd(): void {
    if (this.#leaving.length === 0) return
    const { reconciler } = this.#options.session() ?? {}
    const left = this.#leaving.flatMap((key) => {
      const state = reconciler?.report(key)?.server
      return isAlive(state) ? [{ key, state }] : []
    })
    if (left.some(({ state }) => !isUnendable(state))) return
    for (const key of new Set(left.map((one) => one.key))) {
      const text = `${key} cannot be ended; if memory stays critically short, the next model leaves instead.`
      this.#options.log.warn('evicted model keeps its memory', { key, text })
    }
    this.#leaving = []
    this.#endedAt = this.#options.memory.now()
  }

  #models(): LoadedModel[] {
    const { session, memory } = this.#options
    const held = memory.held()
    const holders = Map.groupBy(memory.book.held(), ({ key }) => key)
    const reports = session()?.reconciler.reports() ?? []
    return reports.flatMap((report): LoadedModel[] => {
      const { key, server } = report
      if (!isAlive(server)) return []
      const isStuck = isUnendable(server)
      const use = this.#uses.get(key)
      const grown = Math.max(0, ...(holders.get(key) ?? []).map(grownBytes))
      const isLeaving = report.unloadReason !== undefined
      return [
        {
          key,
          priority: priorityOf(report),
          isProtected: report.isProtected,
          isReady: server.kind === 'ready' && server.healthy,
          isStopping: !isStuck && (server.kind === 'stopping' || server.kind === 'exited' || isLeaving),
          canBeEvicted: !isStuck,
          sharedAs: sharedAs(holders.get(key) ?? []),
          ...(use && busyness(use)),
          heldBytes: held.get(key),
          grownBytes: grown > 0 ? grown : undefined,
        },
      ]
    })
  }

  async #lookAtUse(): Promise<void> {
    const uses = await Promise.all(
      this.#options.servers().map(async ({ key, look }) => [key, await look({ freshMs })] as const),
    )
    this.#uses = new Map(uses)
  }
}

/** Undefined where one of its servers has memory of its own. */
function sharedAs(held: readonly HeldMemory[]): string | undefined {
  const [name, ...others] = new Set(held.map(({ shared }) => shared?.name))
  return others.length === 0 ? name : undefined
}

/** What is not counted is not known; a server that is silent computes a long batch. */
function busyness({ answer, requests, idleForMs }: Use): Pick<LoadedModel, 'isBusy' | 'idleForMs'> {
  if (answer === 'silent') return { isBusy: true }
  if (answer !== 'counted') return {}
  return requests === 0 ? { isBusy: false, idleForMs } : { isBusy: true }
}

const priorityOf = ({ service }: ServiceReport) => service?.spec.value.priority ?? 'normal'

const isAlive = (state: ServerState | undefined): state is ServerState => state !== undefined && !isOver(state)
