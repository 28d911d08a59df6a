import type { Logger } from '../observability/logger.ts'
import { jitteredMs } from '../util/back-off.ts'
import { isTurnOver, nextTurn } from '../util/turns.ts'
import { steadyNow } from '../util/steady-clock.ts'

/** First and longest wait after a failed pass over a key; full jitter in between. */
const backOff = { firstMs: 500, maxMs: 60_000 }

export interface WorkQueueOptions {
  /** One level-based pass over a key. Resolves with the time (ms since the epoch) of the next pass it wants, if any. */
  readonly reconcile: (key: string) => Promise<number | undefined>
  readonly log: Logger
  /** After each pass: how long it took, and how long after the addition that it served it began. */
  readonly onPass?: (seconds: number) => void
  readonly now?: () => number
  readonly random?: () => number
}

interface Entry {
  running: boolean
  /** Added again while it ran: one more pass is owed, however many additions there were. */
  dirty: boolean
  failures: number
  timer: NodeJS.Timeout | undefined
}

/**
 * Keys to reconcile: de-duplicated, one worker per key, keys independent of each other. A pass that throws is repeated
 * after a back-off; a pass that names a time is repeated then; every addition is served by a pass that starts after it.
 */
export class WorkQueue {
  readonly #options: WorkQueueOptions
  readonly #now: () => number
  readonly #random: () => number
  readonly #entries = new Map<string, Entry>()
  readonly #running = new Set<Promise<void>>()
  #stopped = false

  constructor(options: WorkQueueOptions) {
    this.#options = options
    this.#now = options.now ?? steadyNow
    this.#random = options.random ?? Math.random
  }

  add(key: string): void {
    if (this.#stopped) return
    const entry = this.#entry(key)
    clearTimeout(entry.timer)
    entry.timer = undefined
    if (entry.running) {
      entry.dirty = true
      return
    }
    entry.running = true
    const pass = this.#work(key, entry).finally(() => this.#running.delete(pass))
    this.#running.add(pass)
  }

  /** No new pass starts; resolves when those under way have ended. */
  async stop(): Promise<void> {
    this.#stopped = true
    for (const entry of this.#entries.values()) clearTimeout(entry.timer)
    await Promise.all(this.#running)
  }

  async #work(key: string, entry: Entry): Promise<void> {
    // Let a burst of additions in one turn become one pass.
    await Promise.resolve()
    let next: number | undefined
    do {
      while (isTurnOver()) await nextTurn()
      entry.dirty = false
      const begunAt = performance.now()
      next = await this.#pass(key, entry)
      this.#options.onPass?.((performance.now() - begunAt) / 1_000)
    } while (this.#isOwed(entry))
    entry.running = false
    if (next === undefined) {
      if (entry.failures === 0) this.#entries.delete(key)
      return
    }
    if (!this.#stopped) entry.timer = setTimeout(() => this.add(key), Math.max(0, next - this.#now()))
  }

  async #pass(key: string, entry: Entry): Promise<number | undefined> {
    // It may have waited for its turn while the queue stopped.
    if (this.#stopped) return undefined
    try {
      const next = await this.#options.reconcile(key)
      entry.failures = 0
      return next
    } catch (error) {
      entry.failures += 1
      const delay = jitteredMs(backOff, entry.failures, this.#random)
      this.#options.log.warn('reconcile failed', { key, error, retryInMs: delay })
      return this.#now() + delay
    }
  }

  #isOwed(entry: Entry): boolean {
    return entry.dirty && !this.#stopped
  }

  #entry(key: string): Entry {
    const known = this.#entries.get(key)
    if (known) return known
    const entry: Entry = { running: false, dirty: false, failures: 0, timer: undefined }
    this.#entries.set(key, entry)
    return entry
  }
}
