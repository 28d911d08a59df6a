import type { Logger } from '../observability/logger.ts'
import type { BigApplication, Platform } from '../platform/platform.ts'
import { splitKey } from '../support/object-key.ts'
import { BigApplications } from './big-applications.ts'
import { MemoryBook, type BesideVerdict } from './book.ts'
import { resolveBudget, type Budget } from './budget.ts'
import { CurrentBudget, unlimited } from './current-budget.ts'
import { GpuLimit } from './gpu-limit.ts'
import { idOf, type HeldRole } from './holds.ts'
import { memoryOutlook, type MemoryOutlook } from './memory-outlook.ts'
import type { PressureThresholds } from './pressure.ts'
import { waysToFit, type Misfit, type WayToFit } from './ways-to-fit.ts'
import type { Refusal } from './refusal.ts'
import { fits } from './room.ts'
import type { StartRequest } from './start-request.ts'
import { Watchdog, type MemoryView, type PressureChange } from './watchdog.ts'

/** As they are now. */
export interface MemorySettings {
  /** Of all memory; 0 = automatic. */
  readonly fraction: number
  readonly budgetBytes: number | undefined
  readonly enforcement: 'enforce' | 'warn'
  /** Whether a start of higher priority may evict servers of lower priority. */
  readonly mayEvict: boolean
}

/** A server group that is measured; `role` as in the book. */
export interface MeasuredServer {
  readonly key: string
  readonly role: HeldRole
  readonly groupId: number
}

export interface MemoryOptions {
  readonly platform: Pick<
    Platform,
    'name' | 'memory' | 'memoryPressureLevel' | 'footprints' | 'membersOf' | 'biggestProcesses' | 'gpuMemoryLimit'
  >
  readonly settings: () => MemorySettings
  readonly thresholds: PressureThresholds
  /** 0 = only when a start asks. */
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
  /** Once for every change of the level. */
  readonly onPressure?: (change: PressureChange) => void
  /** Waiting starts that would be admitted now, in order: each asks again by `admit`, or leaves by `release`. Only to be noted here. */
  readonly onFreed?: (keys: readonly string[]) => void
}

export type SizedRequest = Omit<StartRequest, 'ownBudgetBytes' | 'enforcement' | 'mayEvict'> & {
  /** `Model.spec.hardware`. */
  readonly modelBudget?: string | undefined
  readonly modelFraction?: number | undefined
}

/** What could be proposed to make it fit. */
export type Changeable = Pick<Misfit, 'contextTokens' | 'slots' | 'estimateAt'>

export type MemoryRefusal = Refusal & { readonly ways: readonly WayToFit[] }

/** What memory there is, which servers have it, which starts wait for it, and which may go on. */
export class Memory implements AsyncDisposable {
  readonly #options: MemoryOptions
  readonly #book: MemoryBook
  readonly #watchdog: Watchdog
  readonly #listeners = new Set<MemoryListener>()
  readonly #gpu: GpuLimit
  readonly #budget: CurrentBudget
  readonly #applications: BigApplications
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
    this.#watchdog = new Watchdog({
      platform,
      thresholds,
      intervalMs,
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
  }

  /** Resolves after the first look at memory. */
  async start(): Promise<void> {
    await this.#gpu.read()
    await this.#watchdog.sampleNow()
    this.#watchdog.start()
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
  admit(request: SizedRequest, changeable: Changeable): { admitted: true; warning?: string } | RefusedAdmission {
    const complete = this.#complete(request)
    if ('message' in complete) {
      this.#book.release(request.key)
      return badBudget(request, complete.message, this.#budget.bytes)
    }
    const admission = this.#book.admit(complete)
    if (admission.admitted) return admission
    return { ...admission, ways: this.#ways(request, admission, changeable) }
  }

  /** Whether a second server of the key fits beside the first; with `reserve` its memory is taken where it does. */
  beside(request: SizedRequest, { reserve = false } = {}): BesideVerdict {
    const complete = this.#complete(request)
    if ('message' in complete) return { allowed: false, why: complete.message }
    return reserve ? this.#book.admitBeside(complete) : this.#book.canRunBeside(complete)
  }

  /** Why the key's new server would not fit even in place of the running one; undefined where it would. */
  instead(request: SizedRequest, changeable: Changeable): MemoryRefusal | undefined {
    const complete = this.#complete(request)
    if ('message' in complete) return badBudget(request, complete.message, this.#budget.bytes)
    const refusal = this.#book.refusalInstead(complete)
    return refusal && { ...refusal, ways: this.#ways(request, refusal, changeable) }
  }

  /**
   * What the settings would do, were they these: which waiting starts would be admitted, what would have to give way to the others, and
   * which of the running servers would not start again. Decides nothing.
   */
  outlook(settings: MemorySettings, running: readonly SizedRequest[]): MemoryOutlook | { readonly message: string } {
    const { enforcement, mayEvict } = settings
    const result = this.#budget.with(settings, this.view?.figures?.totalBytes ?? 0, this.#gpu.bytes)
    if (!result.ok) return { message: result.message }
    const requests = running.flatMap((request) => {
      const complete = this.#complete(request)
      return 'message' in complete ? [] : [complete]
    })
    const { budget } = result
    const outlook = this.#book.outlook({ budgetBytes: budget.bytes, enforcement, mayEvict }, requests)
    return memoryOutlook(outlook, this.#book.held(), budget)
  }

  /** A server that was found running, whatever it holds. */
  adopt(server: Parameters<MemoryBook['adopt']>[0]): void {
    this.#book.adopt({ ...server, isMapped: this.#leavesOut(server) })
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
    if (!this.#fitsNow(request)) await this.#applications.refresh()
  }

  #fitsNow(request: SizedRequest): boolean {
    const complete = this.#complete(request)
    if ('message' in complete || complete.needBytes === undefined) return true
    return fits(complete.needBytes, this.#book.roomFor(complete))
  }

  /** Other applications, the biggest first; empty where they are not known. */
  async applications(): Promise<readonly BigApplication[]> {
    await this.#applications.refresh()
    return this.#applications.found
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listeners.clear()
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

  #noteFootprints({ footprints }: MemoryView): void {
    for (const { key, role } of this.#options.servers()) {
      const bytes = footprints.get(idOf(key, role))
      if (bytes !== undefined) this.#book.measured(key, bytes, role)
    }
  }

  #resolveBudget(totalBytes = this.view?.figures?.totalBytes ?? 0): void {
    this.#budget.resolve(totalBytes, this.#gpu.bytes)
  }

  #complete(request: SizedRequest): StartRequest | { readonly message: string } {
    const { modelBudget, modelFraction, ...given } = request
    const rest = { ...given, isMapped: this.#leavesOut(request) }
    const { enforcement, mayEvict } = this.#options.settings()
    const totalBytes = this.view?.figures?.totalBytes
    const complete: StartRequest = { ...rest, enforcement, mayEvict }
    if ((modelBudget === undefined && modelFraction === undefined) || totalBytes === undefined) return complete
    const result = resolveBudget({
      totalBytes,
      ...(modelBudget !== undefined && { modelBudget }),
      ...(modelFraction !== undefined && { modelFraction }),
      ...(this.#gpu.bytes !== undefined && { gpuLimitBytes: this.#gpu.bytes }),
      platform: this.#options.platform.name,
    })
    if (!result.ok) return { message: result.message }
    return { ...complete, ownBudgetBytes: result.budget.bytes }
  }

  /** `phys_footprint` of macOS does not count pages of files; the proportional set size of Linux does. */
  #leavesOut({ isMapped = false }: { readonly isMapped?: boolean }): boolean {
    return isMapped && this.#options.platform.name === 'darwin'
  }

  #ways(request: SizedRequest, refusal: Refusal, changeable: Changeable): readonly WayToFit[] {
    if (refusal.reason !== 'InsufficientMemory') return []
    const { platform } = this.#options
    return waysToFit({
      ...changeable,
      needBytes: refusal.needBytes,
      room: refusal.room,
      priority: request.priority,
      servers: this.#book
        .held()
        .filter(({ key }) => key !== request.key)
        .map((held) => ({ ...held, name: splitKey(held.key).name })),
      apps: this.#applications.found,
      totalBytes: this.view?.figures?.totalBytes ?? 0,
      ...(this.#gpu.bytes !== undefined && { gpuLimitBytes: this.#gpu.bytes }),
      platform: platform.name,
    })
  }
}

/** Whatever the mode: a budget that cannot be read is none. */
function badBudget(request: SizedRequest, message: string, budgetBytes: number): RefusedAdmission {
  return {
    admitted: false,
    reason: 'MemoryCheckFailed',
    message,
    needBytes: request.needBytes ?? 0,
    room: { budgetBytes, committedBytes: 0, promisedBytes: 0 },
    shortage: { own: 0, budget: 0, available: 0 },
    fitsAlone: false,
    evictFirst: [],
    ways: [],
  }
}

type RefusedAdmission = MemoryRefusal & { readonly admitted: false }
