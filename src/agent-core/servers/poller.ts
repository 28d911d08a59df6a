import type { Platform } from '../platform/platform.ts'
import type { Logger } from '../observability/logger.ts'
import { askActivity, type Activity, type CountersReading, type ServerProtocol } from './probe.ts'

/** What a server was seen to do at one look. */
export interface Use {
  /** `notAsked`: it frees its memory when idle, and would take the question for a request. */
  readonly answer: Activity['kind'] | 'notAsked'
  /**
   * Requests in flight, those that wait included: as the server counts them, or else the open connections, if they were asked for.
   * Undefined where neither is known.
   */
  readonly requests: number | undefined
  /** Rises with every token read or written, or with every request; undefined where the server does not count. */
  readonly work: number | undefined
  /** How long no request was seen while the machine was awake; 0 where that is in doubt. */
  readonly idleForMs: number
}

export interface LookOptions {
  /** A look of this age is as good as a new one. */
  readonly freshMs?: number
  /** An answer that takes longer is silence. */
  readonly withinMs?: number
  /** Count open connections where the server does not count requests: on a Mac that starts a program. Then `look` may reject. */
  readonly connections?: boolean
  /** Ask although it sleeps when idle, since it is about to end or may hang. */
  readonly evenAsleep?: boolean
}

export interface PollerOptions {
  /** Where it is asked; absent = this machine's loopback address. */
  readonly host?: string
  readonly port: number
  readonly sleepsWhenIdle: boolean
  readonly platform: Pick<Platform, 'establishedConnections'>
  /** Absent = as llama-server is asked. */
  readonly activity?: ServerProtocol['activity']
  readonly onReading: (reading: CountersReading) => void
  readonly log: Logger
  /** On the monotonic clock, in milliseconds. */
  readonly now?: () => number
}

const defaultWithinMs = 1_000
/** A look costs the server about a millisecond; idleness is a matter of minutes. */
const longestIdleLookMs = 30_000
const looksPerIdleTime = 4
/** A look that is this many times later than was meant says that the machine slept: on macOS the monotonic clock advances meanwhile. */
const latestLook = 2

export interface IdleLimit {
  /** Without a request for so long, in milliseconds. */
  readonly idleMs: number
  readonly onIdle: () => void
}

interface Asked {
  readonly activity: Activity | { readonly kind: 'notAsked' }
  readonly at: number
}

/**
 * The one that asks a server what it does. Whoever wants to know looks here (drain, idleness, liveness, eviction, sleep, figures), says how
 * old the answer may be, and shares the question with all others; nobody looks, nothing is asked.
 */
export class Poller implements Disposable {
  readonly #options: PollerOptions
  readonly #now: () => number
  readonly #ended = new AbortController()
  #last: Asked | undefined
  #asking: Promise<Asked> | undefined
  #work: number | undefined
  #idleForMs = 0
  /** When it was last known whether it is used. */
  #judgedAt: number | undefined
  #limit: IdleLimit | undefined
  /** From one look for the limit to the next, as was meant. */
  #waitMs = Infinity
  #timer: NodeJS.Timeout | undefined

  constructor(options: PollerOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  /** Rejects only where connections are asked for and the system does not tell them: throws PlatformError. */
  async look({
    freshMs = 0,
    withinMs = defaultWithinMs,
    connections = false,
    evenAsleep = false,
  }: LookOptions = {}): Promise<Use> {
    const { port, platform, sleepsWhenIdle } = this.#options
    const asked: Asked =
      sleepsWhenIdle && !evenAsleep
        ? { activity: { kind: 'notAsked' }, at: this.#now() }
        : await this.#answer(freshMs, withinMs)
    const { activity } = asked
    if (activity.kind === 'counted') {
      const hasWorked = this.#work !== undefined && activity.work !== this.#work
      this.#work = activity.work
      this.#judge(activity.requests > 0 || hasWorked, asked.at)
      return { answer: 'counted', requests: activity.requests, work: activity.work, idleForMs: this.#idleForMs }
    }
    const work = activity.kind === 'untold' ? activity.work : undefined
    const hasWorked = work !== undefined && this.#work !== undefined && work !== this.#work
    if (work !== undefined) this.#work = work
    const isSilent = activity.kind === 'silent' || activity.kind === 'cannotAsk'
    if (isSilent) this.#judge(true, asked.at)
    // In doubt the requests of a daemon are those of this model: some daemons cut them when they unload it.
    const told = activity.kind === 'untold' ? activity.requests : undefined
    const open = connections ? Math.max(await platform.establishedConnections(port), told ?? 0) : undefined
    if (!isSilent && open !== undefined) this.#judge(open > 0 || hasWorked, this.#now())
    return { answer: activity.kind, requests: open, work, idleForMs: this.#idleForMs }
  }

  /**
   * Calls `onIdle` once when no request came for so long, counted from now on; undefined = no longer. The same time again changes nothing,
   * another one counts what has passed already.
   */
  limitIdleness(limit: IdleLimit | undefined): void {
    if (limit?.idleMs === this.#limit?.idleMs) return
    if (!this.#limit) {
      this.#idleForMs = 0
      this.#judgedAt = this.#now()
    }
    this.#limit = limit
    this.#lookLater()
  }

  [Symbol.dispose](): void {
    this.#ended.abort()
    clearTimeout(this.#timer)
  }

  #answer(freshMs: number, withinMs: number): Promise<Asked> {
    if (this.#last && this.#now() - this.#last.at < freshMs) return Promise.resolve(this.#last)
    this.#asking ??= this.#ask(withinMs).finally(() => (this.#asking = undefined))
    return this.#asking
  }

  async #ask(withinMs: number): Promise<Asked> {
    const { host, port, onReading, activity: ask = askActivity } = this.#options
    const activity = await ask(port, withinMs, this.#ended.signal, host)
    if (activity.kind === 'counted' && !this.#ended.signal.aborted) onReading(activity.reading)
    this.#last = { activity, at: this.#now() }
    return this.#last
  }

  #judge(isUsed: boolean, at: number): void {
    const awakeMs = Math.min(at - (this.#judgedAt ?? at), latestLook * this.#waitMs)
    if (awakeMs < 0) return
    this.#idleForMs = isUsed ? 0 : this.#idleForMs + awakeMs
    this.#judgedAt = at
  }

  #lookLater(): void {
    clearTimeout(this.#timer)
    if (!this.#limit || this.#ended.signal.aborted) {
      this.#waitMs = Infinity
      return
    }
    const { idleMs } = this.#limit
    this.#waitMs = Math.max(1, Math.min(longestIdleLookMs, idleMs / looksPerIdleTime, idleMs - this.#idleForMs))
    this.#timer = setTimeout(() => void this.#lookForLimit(), this.#waitMs).unref()
  }

  /** Never rejects. In doubt it is used. */
  async #lookForLimit(): Promise<void> {
    const { port, log } = this.#options
    try {
      await this.look({ freshMs: this.#waitMs / 2, connections: true })
    } catch (error) {
      log.debug('could not tell whether a server is used', { port, error })
      this.#judge(true, this.#now())
    }
    const limit = this.#limit
    if (!limit || this.#ended.signal.aborted) return
    if (this.#idleForMs < limit.idleMs) {
      this.#lookLater()
      return
    }
    this.limitIdleness(undefined)
    limit.onIdle()
  }
}
