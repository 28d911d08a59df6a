import { MemoryBook } from './book.ts'
import { type Budget, GpuLimit, resolveBudget } from './budget.ts'
import type { Refusal, StartRequest } from './decide.ts'
import { countedOnce } from './room.ts'
import { type MemoryView, type PressureChange, Watchdog } from './watchdog.ts'
import { type Misfit, waysToFit, type WayToFit } from './ways-to-fit.ts'
import type { Logger } from '../observability/logger.ts'
import type { BigApplication, Platform } from '../platform/platform.ts'
import { splitKey } from '../util/object-key.ts'

/** More than any machine has: where the memory of the machine is not known, the budget decides nothing. */
const unlimited = Number.MAX_SAFE_INTEGER

/** How long the list counts as current: making it costs a look at every process. */
const currentForMs = 10_000

/** The applications with the most memory, which a person could quit. */
class BigApplications {
  readonly #ask: () => Promise<readonly BigApplication[]>
  readonly #log: Logger
  #latest: { readonly at: number; readonly found: readonly BigApplication[] } | undefined
  /** The look under way, which all share who ask meanwhile: hundreds of starts may be refused in one turn. */
  #looking: Promise<void> | undefined

  constructor(ask: () => Promise<readonly BigApplication[]>, log: Logger) {
    this.#ask = ask
    this.#log = log
  }

  /** The biggest first; empty where they are not known. */
  get found(): readonly BigApplication[] {
    return this.#latest?.found ?? []
  }

  /** Never rejects. */
  async refresh(): Promise<void> {
    if (this.#latest && performance.now() - this.#latest.at < currentForMs) return
    await (this.#looking ??= this.#look().finally(() => (this.#looking = undefined)))
  }

  async #look(): Promise<void> {
    const at = performance.now()
    try {
      this.#latest = { at, found: await this.#ask() }
    } catch (error) {
      this.#log.debug('biggest applications not known', { error })
      this.#latest = { at, found: this.found }
    }
  }
}

/** As they are now. */
export interface MemorySettings {
  /** Fraction of all memory that models may take; 0 = automatic. */
  readonly fraction: number
  readonly budgetBytes: number | undefined
  readonly enforcement: 'enforce' | 'warn'
}

export type SizedRequest = Omit<StartRequest, 'ownBudgetBytes' | 'enforcement'> & {
  /** `Model.spec.hardware`. */
  readonly modelBudget?: string | undefined
  readonly modelFraction?: number | undefined
}

/** What could be proposed to make it fit. */
export type Changeable = Pick<Misfit, 'contextTokens' | 'slots' | 'estimateAt'>

export type MemoryRefusal = Refusal & { readonly ways: readonly WayToFit[] }

type RefusedAdmission = MemoryRefusal & { readonly admitted: false }

/** `phys_footprint` of macOS does not count pages of files; the proportional set size of Linux does. */
const leftOut = (platform: Platform['name'], { mappedBytes = 0 }: { readonly mappedBytes?: number }): number =>
  platform === 'darwin' ? mappedBytes : 0

/** Whatever the mode: a budget that cannot be read is none. */
function badBudget(request: SizedRequest, message: string, budgetBytes: number): RefusedAdmission {
  return {
    admitted: false,
    reason: 'MemoryCheckFailed',
    message,
    brief: 'budget unknown',
    needBytes: request.needBytes ?? 0,
    room: { budgetBytes, committedBytes: 0, promisedBytes: 0 },
    shortage: { own: 0, budget: 0, available: 0 },
    fitsAlone: false,
    ways: [],
  }
}

/** A server group that is measured. */
export interface MeasuredServer {
  readonly key: string
  /** Undefined where it is no process group of its own. */
  readonly groupId: number | undefined
  /** In bytes, as the daemon that holds the model says; absent for a process group, which is measured. */
  readonly toldBytes?: number | undefined
  /** It does not serve yet. */
  readonly isLoading: boolean
}

export interface MemoryOptions {
  readonly platform: Pick<
    Platform,
    'name' | 'memory' | 'memoryPressureLevel' | 'footprints' | 'membersOf' | 'biggestProcesses' | 'gpuMemoryLimit'
  >
  readonly settings: () => MemorySettings
  /** For tests: how often memory is looked at. */
  readonly intervalMs?: number | undefined
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

/** What memory there is, which servers have it, which starts wait for it, and which may begin. */
export class Memory implements AsyncDisposable {
  readonly #options: MemoryOptions
  readonly #watchdog: Watchdog
  readonly #listeners = new Set<MemoryListener>()
  readonly #gpu: GpuLimit
  readonly #applications: BigApplications
  readonly now: () => number
  /** Which servers have memory, and which wait for it. */
  readonly book: MemoryBook
  #budget: Budget | undefined
  #budgetProblem: string | undefined
  /** On the wall clock. */
  #levelSince: { readonly since: number; readonly at: number } | undefined

  constructor(options: MemoryOptions) {
    this.#options = options
    const { platform, intervalMs, log, now = () => performance.now() } = options
    this.now = now
    this.#gpu = new GpuLimit({ ...options, now })
    this.#applications = new BigApplications(() => this.#watchdog.biggestApplications(), log)
    this.book = new MemoryBook({ budgetBytes: unlimited, pressure: 'normal' }, (keys) => {
      for (const { onFreed } of this.#listeners) onFreed?.(keys)
    })
    this.#watchdog = new Watchdog({
      platform,
      intervalMs,
      models: options.servers,
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

  /** The latest reading; undefined before the first. */
  get view(): MemoryView | undefined {
    return this.#watchdog.latest
  }

  /** What all servers together may hold, by the settings and by what the machine has. */
  get budget(): Budget | undefined {
    return this.#budget
  }

  /** Why there is no budget, or what is wrong with what was set. */
  get problem(): string | undefined {
    return this.#budgetProblem
  }

  /** What counts as each server's share of the memory, by key; a server of which that is not known is missing. */
  held(): ReadonlyMap<string, number> {
    const shares = this.book.held().flatMap(({ key, heldBytes }) => {
      return heldBytes === undefined ? [] : [[key, heldBytes] as const]
    })
    return new Map([...(this.view?.footprints ?? []), ...shares])
  }

  /** What all servers have; memory that several share counts once. */
  heldTogether(): number {
    const all = this.book.held()
    const counted = new Set(countedOnce(all))
    const repeated = new Set(all.filter((one) => !counted.has(one)).map(({ key }) => key))
    return [...this.held()].reduce((sum, [key, bytes]) => (repeated.has(key) ? sum : sum + bytes), 0)
  }

  /** Milliseconds since the level became what it is; 0 before the first look. */
  levelForMs(view: MemoryView): number {
    return Math.max(0, this.now() - view.since)
  }

  /** When the level became what it is, in milliseconds since 1970; absent before the first look. */
  get levelSince(): number | undefined {
    return this.#levelSince?.at
  }

  /** While somebody looks, the footprints are measured every two seconds; all else keeps its pace. */
  setWatched(isWatched: boolean): void {
    this.#watchdog.setWatched(isWatched)
  }

  /** A look that begins after this call. Never rejects. */
  async look(): Promise<MemoryView> {
    return this.#watchdog.sampleNow()
  }

  /** Applies changed settings at once. Resolves when what the GPU may hold was asked again as well; never rejects. */
  async settingsChanged(): Promise<void> {
    this.#resolveBudget()
    this.book.observe({ budgetBytes: this.#budgetBytes })
    await this.#followGpuLimit()
  }

  /** Decides, in this turn, whether the server may start. */
  admit(
    request: SizedRequest,
    changeable: Changeable,
  ): { admitted: true; warning?: string | undefined } | RefusedAdmission {
    const complete = this.#complete(request)
    if ('message' in complete) {
      this.book.release(request.key)
      return badBudget(request, complete.message, this.#budgetBytes)
    }
    const admission = this.book.admit(complete)
    if (admission.admitted) return admission
    return { ...admission, ways: this.#ways(request, admission, changeable) }
  }

  /** Why the key's new server would not fit even in place of the running one; undefined where it would. */
  instead(request: SizedRequest, changeable: Changeable): MemoryRefusal | undefined {
    const complete = this.#complete(request)
    if ('message' in complete) return badBudget(request, complete.message, this.#budgetBytes)
    const refusal = this.book.refusalInstead(complete)
    return refusal && { ...refusal, ways: this.#ways(request, refusal, changeable) }
  }

  /** A server that was found running, whatever it holds. */
  adopt(server: Parameters<MemoryBook['adopt']>[0]): void {
    this.book.adopt({ ...server, mappedBytes: leftOut(this.#options.platform.name, server) })
  }

  /** A server is gone: looks at memory at once, since the freed memory shows only then. */
  gone(key: string): void {
    this.book.release(key)
    void this.#watchdog.sampleNow()
  }

  /**
   * Fetches what the answer to the request, which must come in one turn, rests on where the server does not fit: the applications that
   * could be quit. Listing those costs more than all else before a start, so a server that fits does not wait for it.
   */
  async prepare(request: SizedRequest): Promise<void> {
    const complete = this.#complete(request)
    if ('message' in complete || complete.needBytes === undefined) return
    if (!this.book.hasRoomFor({ ...complete, needBytes: complete.needBytes })) await this.#applications.refresh()
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
    this.book.observe({
      budgetBytes: this.#budgetBytes,
      pressure: view.level === 'unknown' ? 'normal' : view.level,
      availableBytes: view.figures?.availableBytes,
    })
    for (const { onSample } of this.#listeners) onSample?.(view)
  }

  #noteFootprints({ footprints }: MemoryView): void {
    for (const { key } of this.#options.servers()) {
      const bytes = footprints.get(key)
      if (bytes !== undefined) this.book.measured(key, bytes)
    }
  }

  get #budgetBytes(): number {
    return this.#budget?.bytes ?? unlimited
  }

  #resolveBudget(totalBytes = this.view?.figures?.totalBytes ?? 0): void {
    const { settings, log, platform } = this.#options
    // What the machine has does not change; a look that failed does not unsay it.
    if (totalBytes === 0 && this.#budget) return
    const { fraction: settingFraction, budgetBytes: settingBytes } = settings()
    const machine = { totalBytes, gpuLimitBytes: this.#gpu.bytes, platform: platform.name }
    const result = resolveBudget({ ...machine, settingFraction, settingBytes })
    const before = this.#budgetProblem ?? this.#budget?.how
    this.#budget = result.ok ? result.budget : undefined
    this.#budgetProblem = result.ok ? undefined : `${result.message}.`
    if (before === (this.#budgetProblem ?? this.#budget?.how)) return
    if (result.ok) log.info('memory budget', { bytes: result.budget.bytes, text: result.budget.how })
    else log.warn('no memory budget', { text: this.#budgetProblem })
  }

  #complete({ modelBudget, modelFraction, ...given }: SizedRequest): StartRequest | { readonly message: string } {
    const { settings, platform } = this.#options
    const totalBytes = this.view?.figures?.totalBytes
    const complete = { ...given, mappedBytes: leftOut(platform.name, given), enforcement: settings().enforcement }
    if ((modelBudget === undefined && modelFraction === undefined) || totalBytes === undefined) return complete
    const machine = { totalBytes, gpuLimitBytes: this.#gpu.bytes, platform: platform.name }
    const result = resolveBudget({ ...machine, modelBudget, modelFraction })
    return result.ok ? { ...complete, ownBudgetBytes: result.budget.bytes } : { message: result.message }
  }

  #ways(request: SizedRequest, refusal: Refusal, changeable: Changeable): readonly WayToFit[] {
    if (refusal.reason !== 'InsufficientMemory') return []
    return waysToFit({
      ...changeable,
      needBytes: refusal.needBytes,
      room: refusal.room,
      priority: request.priority,
      servers: this.book
        .held()
        .filter(({ key }) => key !== request.key)
        .map((held) => ({ ...held, name: splitKey(held.key).name })),
      apps: this.#applications.found,
      totalBytes: this.view?.figures?.totalBytes ?? 0,
      gpuLimitBytes: this.#gpu.bytes,
      platform: this.#options.platform.name,
    })
  }
}
