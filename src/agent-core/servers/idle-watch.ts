import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'
import { askActivity, type Activity } from './activity.ts'

export interface IdleWatchOptions {
  readonly platform: Pick<Platform, 'establishedConnections'>
  readonly log: Logger
  /** In the turn in which it is known that no request came for as long as was said. */
  readonly onIdle: (key: string) => void
  /** Monotonic, in milliseconds. */
  readonly now?: () => number
}

/** A server that is ready, and how long it may be without a request. */
export interface IdleTarget {
  readonly pid: number
  readonly port: number
  readonly idleMs: number
  /** It counts a look at its counters as use: only its connections are looked at. */
  readonly sleepsWhenIdle: boolean
}

/** A look costs about a millisecond; idleness is a matter of minutes. */
const longestLookMs = 30_000
const looksPerIdleTime = 4
/** A look that is so many times later than was meant says that the machine slept: on macOS the monotonic clock goes on meanwhile. */
const latestLook = 2
const answerWithinMs = 2_000

/** Knows since when servers have had no requests. Idleness counts from the first look, so that it errs on the side of keeping a server. */
export class IdleWatch implements Disposable {
  readonly #options: IdleWatchOptions
  readonly #watched = new Map<string, Watched>()
  readonly #now: () => number

  constructor(options: IdleWatchOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  /** Undefined = no longer. The same process again is the same watch, though its time may be another. */
  watch(key: string, target: IdleTarget | undefined): void {
    const known = this.#watched.get(key)
    if (known && target && known.target.pid === target.pid && known.target.idleMs === target.idleMs) return
    clearTimeout(known?.timer)
    this.#watched.delete(key)
    if (!target) return
    const idleForMs = known?.target.pid === target.pid ? known.idleForMs : 0
    const watched: Watched = {
      target,
      idleForMs,
      lookedAt: this.#now(),
      waitMs: 0,
      work: known?.work,
      timer: undefined,
    }
    this.#watched.set(key, watched)
    this.#lookLater(key, watched)
  }

  [Symbol.dispose](): void {
    for (const { timer } of this.#watched.values()) clearTimeout(timer)
    this.#watched.clear()
  }

  #lookLater(key: string, watched: Watched): void {
    const { idleMs } = watched.target
    watched.waitMs = Math.max(1, Math.min(longestLookMs, idleMs / looksPerIdleTime, idleMs - watched.idleForMs))
    watched.timer = setTimeout(() => void this.#look(key, watched), watched.waitMs)
    watched.timer.unref()
  }

  /** Never rejects. */
  async #look(key: string, watched: Watched): Promise<void> {
    const isUsed = await this.#isUsed(watched)
    if (this.#watched.get(key) !== watched) return
    const now = this.#now()
    const awakeMs = Math.min(now - watched.lookedAt, latestLook * watched.waitMs)
    watched.lookedAt = now
    watched.idleForMs = isUsed ? 0 : watched.idleForMs + awakeMs
    if (watched.idleForMs < watched.target.idleMs) {
      this.#lookLater(key, watched)
      return
    }
    this.#watched.delete(key)
    this.#options.onIdle(key)
  }

  /** In doubt it is. */
  async #isUsed(watched: Watched): Promise<boolean> {
    const { platform, log } = this.#options
    const { port, pid, sleepsWhenIdle } = watched.target
    try {
      const activity: Activity = sleepsWhenIdle ? { kind: 'untold' } : await askActivity(port, answerWithinMs)
      if (activity.kind === 'silent' || activity.kind === 'cannotAsk') return true
      if (activity.kind === 'untold') return (await platform.establishedConnections(port)) > 0
      const hasWorked = watched.work !== undefined && activity.work !== watched.work
      watched.work = activity.work
      return activity.requests > 0 || hasWorked
    } catch (error) {
      log.debug('could not tell whether a server is used', { pid, port, error })
      return true
    }
  }
}

interface Watched {
  readonly target: IdleTarget
  /** While the machine was awake. */
  idleForMs: number
  lookedAt: number
  /** From one look to the next, as was meant. */
  waitMs: number
  work: number | undefined
  timer: NodeJS.Timeout | undefined
}
