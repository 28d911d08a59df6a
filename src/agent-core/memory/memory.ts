import type { Logger } from '../observability/logger.ts'
import type { BigApplication, Platform } from '../platform/platform.ts'
import { BigApplications } from './big-applications.ts'
import { MemoryBook, type BesideVerdict } from './book.ts'
import type { Budget } from './budget.ts'
import { CurrentBudget, unlimited } from './current-budget.ts'
import type { ExcessQuestion } from './excess.ts'
import { GpuLimit } from './gpu-limit.ts'
import { GrowthWatch, type GrowingServer } from './growth-watch.ts'
import { idOf, type HeldMemory, type HeldRole } from './holds.ts'
import { levelOf, type PressureThresholds } from './pressure.ts'
import {
  leftOut,
  StartAnswers,
  type Changeable,
  type MemoryRefusal,
  type MemorySettings,
  type SizedRequest,
} from './start-answers.ts'
import { Watchdog, type MemoryView, type PressureChange } from './watchdog.ts'

export type { Changeable, MemoryRefusal, MemorySettings, SizedRequest } from './start-answers.ts'

/** A server group that is measured; `role` as in the book. */
export interface MeasuredServer {
  readonly key: string
  readonly role: HeldRole
  readonly groupId: number
  /** It does not serve yet. */
  readonly isLoading: boolean
}

export interface MemoryOptions {
  readonly platform: Pick<
    Platform,
    | 'name'
    | 'memory'
    | 'memoryPressureLevel'
    | 'footprints'
    | 'residentBytes'
    | 'membersOf'
    | 'biggestProcesses'
    | 'gpuMemoryLimit'
  >
  readonly settings: () => MemorySettings
  readonly thresholds: PressureThresholds
  /** 0 = only when a start asks, and while a listener awaits it. */
  readonly intervalMs: number
  readonly servers: () => readonly MeasuredServer[]
  /** What llama-server says the GPU may hold, where the system does not. */
  readonly recommendedGpuBytes?: () => Promise<number | undefined>
  readonly log: Logger
  /** Milliseconds that never go back. */
  readonly now?: () => number
}

export interface MemoryListener {
  /** After each look at memory. */
  readonly onSample?: (view: MemoryView) => void
  /** The footprints were measured between two looks, since somebody looks at them, and are others than before. */
  readonly onFootprints?: (view: MemoryView) => void
  /** After each look at the growth of servers, which is each second while one grows. */
  readonly onGrowth?: () => void
  /** Once for every change of the level. */
  readonly onPressure?: (change: PressureChange) => void
  /** Waiting starts that would be admitted now, in order: each asks again by `admit`, or leaves by `release`. Only to be noted here. */
  readonly onFreed?: (keys: readonly string[]) => void
  /** Whether it waits for what a look would show, so that memory is looked at also where that is not done by the clock. */
  readonly isWaiting?: () => boolean
}

/** What memory there is, which servers have it, which starts wait for it, and which may go on. */
export class Memory implements AsyncDisposable {
  readonly #options: MemoryOptions
  readonly #book: MemoryBook
  readonly #watchdog: Watchdog
  readonly #growth: GrowthWatch
  readonly #listeners = new Set<MemoryListener>()
  readonly #gpu: GpuLimit
  readonly #budget: CurrentBudget
  readonly #applications: BigApplications
  readonly #starts: StartAnswers
  readonly now: () => number
  /** On the wall clock. */
  #levelSince: { readonly since: number; readonly at: number } | undefined

  constructor(options: MemoryOptions) {
    this.#options = options
    const { platform, thresholds, intervalMs, log, now = () => performance.now() } = options
    this.now = now
    this.#gpu = new GpuLimit({ ...options, now })
    this.#budget = new CurrentBudget(options)
    this.#applications = new BigApplications(() => this.#watchdog.biggestApplications(), log)
    this.#book = new MemoryBook({ budgetBytes: unlimited, pressure: 'normal' }, (keys) => {
      for (const { onFreed } of this.#listeners) onFreed?.(keys)
    })
    this.#starts = new StartAnswers({
      platform: platform.name,
      settings: options.settings,
      book: this.#book,
      budget: this.#budget,
      gpu: this.#gpu,
      applications: this.#applications,
      totalBytes: () => this.view?.figures?.totalBytes,
    })
    this.#watchdog = new Watchdog({
      platform,
      thresholds,
      intervalMs,
      isAwaited: () => [...this.#listeners].some(({ isWaiting }) => isWaiting?.() === true),
      models: () => options.servers().map(({ key, role, groupId }) => ({ key: idOf(key, role), groupId })),
      log,
      now,
      onSample: (view) => this.#sampled(view),
      onFootprints: (view) => {
        this.#noteFootprints(view)
        for (const { onFootprints } of this.#listeners) onFootprints?.(view)
      },
      onChange: (change) => {
        for (const { onPressure } of this.#listeners) onPressure?.(change)
      },
    })
    this.#growth = new GrowthWatch({
      platform,
      log,
      servers: () => this.#growingServers(),
      onMeasured: (footprints) => this.#watchdog.note(footprints),
      onLook: () => {
        for (const { onGrowth } of this.#listeners) onGrowth?.()
      },
    })
  }

  /** Resolves after the first look at memory. */
  async start(): Promise<void> {
    await this.#gpu.read()
    await this.#watchdog.sampleNow()
    this.#watchdog.start()
    this.#growth.begin()
  }

  /** A server is starting, and may take whatever it likes: what it has is looked at each second. */
  watchGrowth(): void {
    this.#growth.begin()
  }

  listen(listener: MemoryListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Of the latest look; absent before the first. */
  get view(): MemoryView | undefined {
    return this.#watchdog.latest
  }

  get budget(): Budget | undefined {
    return this.#budget.budget
  }

  /** Why there is no budget, or what is wrong with what was set. */
  get problem(): string | undefined {
    return this.#budget.problem
  }

  get book(): Pick<MemoryBook, 'held' | 'places' | 'state'> {
    return this.#book
  }

  /** What counts as each server's share of the memory, by its id; a server of which that is not known is missing. */
  held(): ReadonlyMap<string, number> {
    const shares = this.#book.held().flatMap(({ key, role, heldBytes }) => {
      return heldBytes === undefined ? [] : [[idOf(key, role), heldBytes] as const]
    })
    return new Map([...(this.view?.footprints ?? []), ...shares])
  }

  /** Milliseconds since the level became what it is; 0 before the first look. */
  levelForMs(view: MemoryView): number {
    return Math.max(0, this.now() - view.since)
  }

  /** When the level became what it is, in milliseconds since 1970; absent before the first look. */
  get levelSince(): number | undefined {
    return this.#levelSince?.at
  }

  /** While somebody looks, the footprints are measured every two seconds; all else goes on as it did. */
  setWatched(isWatched: boolean): void {
    this.#watchdog.setWatched(isWatched)
  }

  /** What decides whether a server has to end for what it takes; undefined before the first look at memory. */
  growth():
    (Omit<ExcessQuestion, 'marginBytes' | 'servers'> & { readonly servers: readonly HeldMemory[] }) | undefined {
    const { view } = this
    if (!view) return undefined
    const { figures, kernelLevel } = view
    const { thresholds } = this.#options
    return {
      servers: this.#book.held(),
      budgetBytes: this.#budget.bytes,
      level: figures ? levelOf({ ...figures, kernelLevel }, thresholds) : 'normal',
      available: figures && {
        bytes: figures.availableBytes,
        criticalBelowBytes: figures.totalBytes * thresholds.critical,
      },
    }
  }

  /** A look that begins after this call. Never rejects. */
  async look(): Promise<MemoryView> {
    return this.#watchdog.sampleNow()
  }

  /** Before a decision: a look, where there is none by the clock. */
  async fresh(): Promise<void> {
    if (this.#options.intervalMs === 0) await this.look()
  }

  /** Applies changed settings at once. Resolves when what the GPU may hold was asked again as well; never rejects. */
  async settingsChanged(): Promise<void> {
    this.#resolveBudget()
    this.#book.observe({ budgetBytes: this.#budget.bytes })
    await this.#followGpuLimit()
  }

  /** Decides, in this turn, whether the server may start. */
  admit(...request: Parameters<StartAnswers['admit']>): ReturnType<StartAnswers['admit']> {
    return this.#starts.admit(...request)
  }

  /** Whether a second server of the key fits beside the first; with `reserve` its memory is taken where it does. */
  beside(...request: Parameters<StartAnswers['beside']>): BesideVerdict {
    return this.#starts.beside(...request)
  }

  /** Why the key's new server would not fit even in place of the running one; undefined where it would. */
  instead(request: SizedRequest, changeable: Changeable): MemoryRefusal | undefined {
    return this.#starts.instead(request, changeable)
  }

  /** What the settings would do, were they these; decides nothing. */
  outlook(...asked: Parameters<StartAnswers['outlook']>): ReturnType<StartAnswers['outlook']> {
    return this.#starts.outlook(...asked)
  }

  /** A server that was found running, whatever it holds. */
  adopt(server: Parameters<MemoryBook['adopt']>[0]): void {
    this.#growth.begin()
    this.#book.adopt({ ...server, mappedBytes: leftOut(this.#options.platform.name, server) })
  }

  /** What its object says now; true where that may change the queue for the memory that its servers hold. */
  know(...about: Parameters<MemoryBook['know']>): boolean {
    return this.#book.know(...about)
  }

  ready(key: string, role: HeldRole): void {
    this.#book.ready(key, role)
  }

  /** A server is gone: looks at memory at once, since the freed memory shows only then. */
  gone(key: string, what: 'all' | 'beside' | 'replaced'): void {
    if (what === 'all') this.#book.release(key)
    if (what === 'beside') this.#book.releaseBeside(key)
    if (what === 'replaced') this.#book.promoteBeside(key)
    void this.#watchdog.sampleNow()
  }

  /** The key asks for nothing and has nothing. */
  release(key: string): void {
    this.#book.release(key)
  }

  isHeld(key: string): boolean {
    return this.#book.held().some((held) => held.key === key)
  }

  placeOf(key: string): number | undefined {
    return this.#book.places().find((one) => one.key === key)?.place
  }

  /**
   * Fetches what the answer to the request, which must come in one turn, rests on: a look at memory, where there is none by the clock, and,
   * where the server does not fit, the applications that could be quit. Listing those costs more than all else before a start, so a server
   * that fits does not wait for it.
   */
  async prepare(request: SizedRequest): Promise<void> {
    await this.fresh()
    if (!this.#starts.fitsNow(request)) await this.#applications.refresh()
  }

  /** Other applications, the biggest first; empty where they are not known. */
  async applications(): Promise<readonly BigApplication[]> {
    await this.#applications.refresh()
    return this.#applications.found
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listeners.clear()
    await this.#growth[Symbol.asyncDispose]()
    await this.#watchdog[Symbol.asyncDispose]()
  }

  async #followGpuLimit(): Promise<void> {
    if (await this.#gpu.read()) await this.#watchdog.sampleNow()
  }

  #sampled(view: MemoryView): void {
    if (this.#gpu.isStale) void this.#followGpuLimit()
    this.#resolveBudget(view.figures?.totalBytes)
    if (this.#levelSince?.since !== view.since) {
      this.#levelSince = { since: view.since, at: Date.now() - this.levelForMs(view) }
    }
    this.#noteFootprints(view)
    this.#book.observe({
      budgetBytes: this.#budget.bytes,
      pressure: view.level === 'unknown' ? 'normal' : view.level,
      availableBytes: view.figures?.availableBytes,
    })
    for (const { onSample } of this.#listeners) onSample?.(view)
  }

  #growingServers(): GrowingServer[] {
    const needs = new Map(this.#book.held().map(({ key, role, needBytes }) => [idOf(key, role), needBytes]))
    return this.#options.servers().map(({ key, role, groupId, isLoading }) => {
      const id = idOf(key, role)
      // A resident size of macOS may be less than the footprint, so that there it rules nothing out.
      const floorBytes = this.#options.platform.name === 'linux' ? (needs.get(id) ?? 0) : 0
      return { id, groupId, isLoading, floorBytes }
    })
  }

  #noteFootprints({ footprints }: MemoryView): void {
    for (const { key, role } of this.#options.servers()) {
      const bytes = footprints.get(idOf(key, role))
      if (bytes !== undefined) this.#book.measured(key, bytes, role)
    }
  }

  #resolveBudget(totalBytes = this.view?.figures?.totalBytes ?? 0): void {
    this.#budget.resolve(totalBytes, this.#gpu.bytes)
  }
}
