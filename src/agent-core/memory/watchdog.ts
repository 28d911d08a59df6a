import { isDeepStrictEqual } from 'node:util'
import type { Logger } from '../observability/logger.ts'
import type { BigApplication, MemoryFigures, Platform } from '../platform/platform.ts'
import { messageOf } from '../util/message-of.ts'

/** From the most harmless to the worst. */
const pressureLevels = ['normal', 'warning', 'critical'] as const
export type PressureLevel = (typeof pressureLevels)[number]

/** Fractions of all memory: with less than this available, pressure is at least at that level. As the Go agent has them by default. */
export const thresholds = { warning: 0.2, critical: 0.1 }

export interface MemorySample {
  readonly totalBytes: number
  readonly availableBytes: number
  /** The kernel's own level, where it tells one. */
  readonly kernelLevel?: PressureLevel | undefined
  /** The kernel compresses memory before it is short, and says when that no longer helps. */
  readonly isCompressed?: boolean | undefined
}

/** How long and by how much memory must be better before the level goes down. */
export const hysteresis = {
  /** Fraction of all memory by which a threshold must be exceeded for the short wait to do. */
  margin: 0.03,
  waitMs: 30_000,
  /** Enough without the margin as well, so that a level just above its threshold is left in the end. */
  longWaitMs: 300_000,
  /** A level that could not be read again for so long counts as unknown. */
  staleMs: 60_000,
}

/** A time since which every sample was below the present level, and the worst of these samples. */
interface Calm {
  readonly since: number
  readonly worst: PressureLevel
}

export interface Pressure {
  /** Unknown before the first sample that could be read, and when the last of them is too old. */
  readonly level: PressureLevel | 'unknown'
  readonly since: number
  readonly readAt?: number
  /** Below the level by the margin; or without it. */
  readonly clearlyCalm?: Calm | undefined
  readonly barelyCalm?: Calm | undefined
}

/**
 * The pressure after one more sample; `undefined` stands for a sample that could not be read, which changes a level only to unknown, and
 * that only when it lasts. Up at once; down by the rules of `hysteresis`. `now` in milliseconds.
 */
export function nextPressure(before: Pressure | undefined, sample: MemorySample | undefined, now: number): Pressure {
  if (sample === undefined) return withoutSample(before, now)
  const level = levelOf(sample)
  if (before === undefined || before.level === 'unknown') return { level, since: now, readAt: now }
  if (rank(level) > rank(before.level)) return { level, since: now, readAt: now }

  const clearLevel = levelOf(sample, hysteresis.margin)
  const clearlyCalm = nextCalm(before.clearlyCalm, clearLevel, before.level, now)
  const barelyCalm = nextCalm(before.barelyCalm, level, before.level, now)
  const calm =
    (lasted(clearlyCalm, hysteresis.waitMs, now) && clearlyCalm) ||
    (lasted(barelyCalm, hysteresis.longWaitMs, now) && barelyCalm)
  if (calm) return { level: calm.worst, since: now, readAt: now }
  return { level: before.level, since: before.since, readAt: now, clearlyCalm, barelyCalm }
}

/**
 * The worse of the kernel's level and what the available fraction says. A kernel that compresses lets applications have nearly all memory and
 * is content: there the fraction says one level less than it would, until the kernel says something itself.
 */
function levelOf(sample: MemorySample, margin = 0): PressureLevel {
  const { totalBytes, availableBytes, kernelLevel, isCompressed = false } = sample
  const fraction = availableBytes / totalBytes - margin
  const byFraction = fraction < thresholds.critical ? 'critical' : fraction < thresholds.warning ? 'warning' : 'normal'
  return isCompressed && kernelLevel === 'normal' ? milder(byFraction) : worse(byFraction, kernelLevel ?? 'normal')
}

const milder = (level: PressureLevel): PressureLevel => (level === 'critical' ? 'warning' : 'normal')

/** A sample that could not be read restarts the time of calm, since pressure may have risen in between. */
function withoutSample(before: Pressure | undefined, now: number): Pressure {
  if (before === undefined) return { level: 'unknown', since: now }
  const { level, since, readAt } = before
  const isStale = level !== 'unknown' && readAt !== undefined && now - readAt >= hysteresis.staleMs
  if (isStale) return { level: 'unknown', since: now, readAt }
  return { level, since, ...(readAt !== undefined && { readAt }) }
}

function nextCalm(before: Calm | undefined, sampled: PressureLevel, present: PressureLevel, now: number) {
  if (rank(sampled) >= rank(present)) return undefined
  return before ? { since: before.since, worst: worse(before.worst, sampled) } : { since: now, worst: sampled }
}

const lasted = (calm: Calm | undefined, ms: number, now: number): boolean =>
  calm !== undefined && now - calm.since >= ms

const rank = (level: PressureLevel): number => pressureLevels.indexOf(level)

const worse = (one: PressureLevel, other: PressureLevel): PressureLevel => (rank(one) > rank(other) ? one : other)

/** The process group of a model server, under the key of its service. */
export interface ModelProcesses {
  readonly key: string
  readonly groupId: number | undefined
  /** What it is said to take, where it has no group. */
  readonly toldBytes?: number | undefined
  /** It takes more and more. */
  readonly isLoading?: boolean
}

/** What is known about memory after a look at it. Times are of the watchdog's clock. */
export interface MemoryView {
  readonly at: number
  readonly level: PressureLevel | 'unknown'
  /** When the level became this one. */
  readonly since: number
  /** Memory is less short than the level says, which goes down when that has lasted. */
  readonly isEasing?: boolean
  /** Absent where this look at it failed: `problem` says why. */
  readonly figures?: MemoryFigures
  readonly problem?: string
  readonly kernelLevel?: PressureLevel
  /** Bytes that each model really costs, by key, as of `footprintsAt`; a model that was not measured yet is missing. */
  readonly footprints: ReadonlyMap<string, number>
  readonly footprintsAt?: number
  /** Other applications, biggest first; absent while memory is not short. */
  readonly applications?: readonly BigApplication[]
}

export interface PressureChange {
  readonly from: PressureLevel | 'unknown'
  readonly to: PressureLevel | 'unknown'
  readonly view: MemoryView
}

export interface WatchdogOptions {
  readonly platform: Pick<Platform, 'memory' | 'memoryPressureLevel' | 'footprints' | 'membersOf' | 'biggestProcesses'>
  /** For tests: how often it looks. */
  readonly intervalMs?: number | undefined
  readonly models: () => readonly ModelProcesses[]
  readonly log: Logger
  /** Milliseconds that never go back. */
  readonly now?: () => number
  readonly onSample?: (view: MemoryView) => void
  /** The footprints were measured between two looks at memory, and are others than before. */
  readonly onFootprints?: (view: MemoryView) => void
  /** Once for every change, the return to normal included; the first known level is a change from unknown. */
  readonly onChange?: (change: PressureChange) => void
}

/** As the Go agent looks where nothing else is stated. */
export const usualIntervalMs = 10_000

/** While memory is short, which can end a Mac within seconds, it is looked at at least so often. */
const shortIntervalMs = 5_000

/** Measuring fifty processes costs as much as ten looks at the whole: while memory is not short, now and then is enough. */
const footprintIntervalMs = 60_000

/** While somebody looks; less often where more than this share of the time would go into it. */
const watchedFootprintMs = 2_000
const measuringShare = 0.1

const applicationCount = 5

/** Looks at memory for as long as it lives, and tells what it sees. */
export class Watchdog {
  readonly #options: WatchdogOptions
  readonly #now: () => number
  /** Troubles that were logged and have not passed yet. */
  readonly #troubles = new Set<string>()
  #pressure: Pressure | undefined
  #latest: MemoryView | undefined
  #running: Promise<MemoryView> | undefined
  #next: Promise<MemoryView> | undefined
  #timer: NodeJS.Timeout | undefined
  #isEnded = false
  #isWatched = false
  #footprintTimer: NodeJS.Timeout | undefined
  #measuring: Promise<void> | undefined

  constructor(options: WatchdogOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  /** The first look is at once. */
  start(): void {
    this.#schedule(0)
  }

  /** Footprints are measured more often while a menu or window shows them. How often memory is looked at does not change. */
  setWatched(isWatched: boolean): void {
    if (isWatched === this.#isWatched) return
    this.#isWatched = isWatched
    this.#measureIn(0)
  }

  get latest(): MemoryView | undefined {
    return this.#latest
  }

  /**
   * A sample that begins after this call, with the footprints of all models, so that it shows what was done before. Calls during a running
   * sample share the next one. Never rejects: see `problem`.
   */
  sampleNow(): Promise<MemoryView> {
    if (!this.#running) return this.#begin(true)
    this.#next ??= this.#running.then(() => {
      this.#next = undefined
      return this.#begin(true)
    })
    return this.#next
  }

  /** The biggest applications besides the models, also while memory is not short. Throws PlatformError. */
  async biggestApplications(): Promise<readonly BigApplication[]> {
    const own = [...(await this.#memberPids()).values()].flat()
    return this.#options.platform.biggestProcesses(applicationCount, new Set([...own, process.pid]))
  }

  /** Waits for a sample under way; listeners hear nothing after it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isEnded = true
    clearTimeout(this.#timer)
    clearTimeout(this.#footprintTimer)
    await Promise.all([this.#next ?? this.#running, this.#measuring])
  }

  #measureIn(ms: number): void {
    clearTimeout(this.#footprintTimer)
    // The measurement under way continues: a second beside it would measure the same, and disposal would not wait for it.
    if (!this.#isWatched || this.#isEnded || this.#measuring) return
    const measure = () => {
      this.#measuring = this.#measureBetween().then((pauseMs) => {
        this.#measuring = undefined
        this.#measureIn(pauseMs)
      })
    }
    this.#footprintTimer = setTimeout(measure, ms).unref()
  }

  /** How long to pause before the next. */
  async #measureBetween(): Promise<number> {
    const startedAt = this.#now()
    const measured = await this.#footprints(true)
    const before = this.#latest
    if (before && !this.#isEnded) {
      const view = { ...before, ...measured }
      this.#latest = view
      if (!isDeepStrictEqual(before.footprints, view.footprints))
        this.#guarded(() => this.#options.onFootprints?.(view))
    }
    return Math.max(watchedFootprintMs, (this.#now() - startedAt) / measuringShare)
  }

  #schedule(ms: number): void {
    clearTimeout(this.#timer)
    if (this.#isEnded) return
    this.#timer = setTimeout(() => void (this.#running ?? this.#begin(false)), ms).unref()
  }

  #begin(withFootprints: boolean): Promise<MemoryView> {
    const running = this.#look(withFootprints).finally(() => {
      this.#running = undefined
      this.#schedule(this.#interval())
    })
    this.#running = running
    return running
  }

  #interval(): number {
    const { intervalMs = usualIntervalMs } = this.#options
    return this.#isShort() ? Math.min(intervalMs, shortIntervalMs) : intervalMs
  }

  #isShort(): boolean {
    return this.#pressure?.level === 'warning' || this.#pressure?.level === 'critical'
  }

  async #look(withFootprints: boolean): Promise<MemoryView> {
    const { platform } = this.#options
    const [memory, kernel] = await Promise.all([
      this.#ask('memory', () => platform.memory()),
      this.#ask('the memory pressure level', () => platform.memoryPressureLevel()),
    ])
    const now = this.#now()
    const from = this.#pressure?.level ?? 'unknown'
    const figures = memory.answer
    const kernelLevel = kernel.answer
    this.#pressure = nextPressure(this.#pressure, figures && { ...figures, kernelLevel }, now)
    const { level, since, barelyCalm } = this.#pressure

    const isDue =
      now - (this.#latest?.footprintsAt ?? -Infinity) >= footprintIntervalMs ||
      this.#options.models().some(({ isLoading }) => isLoading)
    const measured = await this.#footprints(withFootprints || isDue || this.#isShort())
    const applications = this.#isShort()
      ? (await this.#ask('the biggest applications', () => this.biggestApplications())).answer
      : undefined
    const view: MemoryView = {
      at: now,
      level,
      since,
      ...(barelyCalm && { isEasing: true }),
      ...(figures && { figures }),
      ...(memory.problem !== undefined && { problem: memory.problem }),
      ...(kernelLevel && { kernelLevel }),
      ...measured,
      ...(applications && { applications }),
    }
    this.#latest = view
    this.#tell(from, view)
    return view
  }

  /** A model that is gone is forgotten at once; a model that could not be measured keeps its latest figure. */
  async #footprints(isWanted: boolean): Promise<Pick<MemoryView, 'footprints' | 'footprintsAt'>> {
    const keys = new Set(this.#options.models().map(({ key }) => key))
    const known = [...(this.#latest?.footprints ?? [])].filter(([key]) => keys.has(key))
    const at = this.#latest?.footprintsAt
    if (!isWanted) return { footprints: new Map(known), ...(at !== undefined && { footprintsAt: at }) }
    const { answer, problem } = await this.#ask('the memory of the models', () => this.#measure())
    if (problem !== undefined) return { footprints: new Map(known), ...(at !== undefined && { footprintsAt: at }) }
    return { footprints: new Map([...known, ...(answer ?? [])]), footprintsAt: this.#now() }
  }

  async #measure(): Promise<[key: string, bytes: number][]> {
    const members = await this.#memberPids()
    const sizes = await this.#options.platform.footprints([...members.values()].flat())
    const told = this.#options
      .models()
      .flatMap(({ key, toldBytes }) => (toldBytes === undefined ? [] : [[key, toldBytes] as [string, number]]))
    const measured = [...members].flatMap(([key, pids]) => {
      const bytes = pids.reduce((sum, pid) => sum + (sizes.get(pid) ?? 0), 0)
      return bytes > 0 ? [[key, bytes] as [string, number]] : []
    })
    return [...measured, ...told]
  }

  /** One look at the process table for all models. */
  async #memberPids(): Promise<Map<string, readonly number[]>> {
    const groups = this.#options
      .models()
      .flatMap(({ key, groupId }) => (groupId === undefined ? [] : [[key, groupId] as const]))
    if (groups.length === 0) return new Map()
    const members = await this.#options.platform.membersOf(new Set(groups.map(([, groupId]) => groupId)))
    return new Map(groups.map(([key, groupId]) => [key, members.get(groupId) ?? []]))
  }

  #tell(from: PressureLevel | 'unknown', view: MemoryView): void {
    if (this.#isEnded) return
    this.#guarded(() => {
      this.#options.onSample?.(view)
      if (from !== view.level) this.#options.onChange?.({ from, to: view.level, view })
    })
  }

  #guarded(tell: () => void): void {
    try {
      tell()
    } catch (error) {
      this.#options.log.error('Acting on a reading of memory failed', { error })
    }
  }

  /** A trouble is logged when it begins and when it has passed, not at every look in between. */
  async #ask<T>(what: string, question: () => Promise<T>): Promise<{ answer?: T; problem?: string }> {
    const { log } = this.#options
    try {
      const answer = await question()
      if (this.#troubles.delete(what)) log.info('Memory can be read again', { what })
      return { answer }
    } catch (error) {
      if (!this.#troubles.has(what)) log.warn('Memory cannot be read', { what, error })
      this.#troubles.add(what)
      return { problem: messageOf(error) }
    }
  }
}
