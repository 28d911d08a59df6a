import type { Logger } from '../observability/logger.ts'
import type { Platform } from '../platform/platform.ts'
import { askActivity, type Activity } from './activity.ts'

export interface IdleWatchOptions {
  readonly platform: Pick<Platform, 'establishedConnections'>
  readonly log: Logger
  /** In the turn in which it is known that no request came for as long as was said. */
  readonly onIdle: (key: string) => void
}

/** A server that is ready, and how long it may be without a request. */
export interface IdleTarget {
  readonly pid: number
  readonly port: number
  readonly idleMs: number
  /** It counts a look at its counters as use: only its connections are looked at. */
  readonly sleepsWhenIdle: boolean
}

/** A look costs about a millisecond; what is looked for takes minutes. */
const longestLookMs = 30_000
const looksPerIdleTime = 4
const answerWithinMs = 2_000

/** Knows of servers whether anybody uses them. Nobody did before it began to look, so that it errs on the side of keeping them. */
export class IdleWatch implements Disposable {
  readonly #options: IdleWatchOptions
  readonly #watched = new Map<string, Watched>()

  constructor(options: IdleWatchOptions) {
    this.#options = options
  }

  /** Undefined = no longer. The same process again is the same watch, though its time may be another. */
  watch(key: string, target: IdleTarget | undefined): void {
    const known = this.#watched.get(key)
    if (known && target && known.target.pid === target.pid && known.target.idleMs === target.idleMs) return
    clearTimeout(known?.timer)
    this.#watched.delete(key)
    if (!target) return
    const idleSince = known?.target.pid === target.pid ? known.idleSince : performance.now()
    const watched: Watched = { target, idleSince, work: known?.work, timer: undefined }
    this.#watched.set(key, watched)
    this.#lookLater(key, watched)
  }

  [Symbol.dispose](): void {
    for (const { timer } of this.#watched.values()) clearTimeout(timer)
    this.#watched.clear()
  }

  #lookLater(key: string, watched: Watched): void {
    const { idleMs } = watched.target
    const left = watched.idleSince + idleMs - performance.now()
    const wait = Math.max(1, Math.min(longestLookMs, idleMs / looksPerIdleTime, left))
    watched.timer = setTimeout(() => void this.#look(key, watched), wait)
    watched.timer.unref()
  }

  /** Never rejects. */
  async #look(key: string, watched: Watched): Promise<void> {
    const isUsed = await this.#isUsed(watched)
    if (this.#watched.get(key) !== watched) return
    const now = performance.now()
    if (isUsed) watched.idleSince = now
    if (now - watched.idleSince < watched.target.idleMs) {
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
      if (activity.kind === 'silent') return true
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
  /** On the monotonic clock: a Mac that slept was not idle for as long. */
  idleSince: number
  work: number | undefined
  timer: NodeJS.Timeout | undefined
}
