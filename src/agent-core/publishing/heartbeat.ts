import PQueue from 'p-queue'

/** LLMKube calls an agent gone after 180 s: this leaves room for three misses. */
export const renewEveryMs = 45_000
/** Many agents that started together must not stay in step. */
const jitter = 0.1
/** A connection each, which is kept for the next beat: few at the API server for every Mac. */
const renewalsAtOnce = 4
/** More at once where there are many claims: in so many turns none of them runs out, even where each write takes its longest. */
const mostTurns = 4

/** Renews a claim; must not throw. */
type Renewal = () => Promise<void>

/**
 * When the claims of an agent are renewed: all on one beat, however they were written. Waking the process, and the controller that answers to
 * each, costs more than the renewals themselves.
 */
export class HeartbeatPulse {
  readonly #random: () => number
  readonly #everyMs: number
  readonly #turns = new PQueue({ concurrency: renewalsAtOnce })
  readonly #waiting = new Set<Renewal>()
  #timer: NodeJS.Timeout | undefined

  constructor(options: { readonly random: () => number; readonly everyMs?: number | undefined }) {
    this.#random = options.random
    this.#everyMs = options.everyMs ?? renewEveryMs
  }

  /** Between two renewals of a lone claim, give or take a tenth. */
  get everyMs(): number {
    return this.#everyMs
  }

  /** To be renewed on the next beat, once. It counts from now on where nothing else waits for it. */
  join(renewal: Renewal): void {
    this.leave(renewal)
    this.#waiting.add(renewal)
    const afterMs = this.#everyMs * (1 - jitter + 2 * jitter * this.#random())
    this.#timer ??= setTimeout(() => this.#beat(), afterMs)
  }

  leave(renewal: Renewal): void {
    this.#waiting.delete(renewal)
    if (this.#waiting.size > 0) return
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #beat(): void {
    this.#timer = undefined
    const due = [...this.#waiting]
    this.#waiting.clear()
    const { size, pending } = this.#turns
    this.#turns.concurrency = Math.max(renewalsAtOnce, Math.ceil((due.length + size + pending) / mostTurns))
    for (const renewal of due) void this.#turns.add(renewal)
  }
}

/**
 * How long each heartbeat value has stood still, on this machine's monotonic clock. Time in which the watch is
 * down does not count, since no heartbeat can arrive then. Afterwards the count continues from where it was: a watch that is opened again
 * brings the heartbeats that came meanwhile.
 */
export class HeartbeatWatch {
  readonly #now: () => number
  /** `since` is on the clock of {@link HeartbeatWatch.#heardMs}. */
  readonly #seen = new Map<string, { value: string; since: number }>()
  /** Time with a live watch before the present one. */
  #heardBeforeMs = 0
  /** Undefined = the watch is down. */
  #liveSince: number | undefined

  constructor({ monotonicNow }: { readonly monotonicNow: () => number }) {
    this.#now = monotonicNow
    this.#liveSince = monotonicNow()
  }

  /** `alreadySilentMs` counts only where the key was never seen before: what the server's own stamps prove at a start. */
  observe(key: string, value: string, alreadySilentMs = 0): void {
    const known = this.#seen.get(key)
    if (known?.value === value) return
    this.#seen.set(key, { value, since: this.#heardMs() - (known ? 0 : Math.max(0, alreadySilentMs)) })
  }

  hasSeen(key: string): boolean {
    return this.#seen.has(key)
  }

  /** 0 for a holder that was never observed, and while the watch is down: no heartbeat could reach us then. */
  silentMs(key: string): number {
    const known = this.#seen.get(key)
    return known && this.#liveSince !== undefined ? this.#heardMs() - known.since : 0
  }

  /** For an unknown time nothing could be heard, and the clock ran on (sleep): every wait starts over. */
  watchGap(): void {
    for (const known of this.#seen.values()) known.since = this.#heardMs()
  }

  get isLive(): boolean {
    return this.#liveSince !== undefined
  }

  setLive(live: boolean): void {
    if (live) {
      this.#liveSince ??= this.#now()
      return
    }
    this.#heardBeforeMs = this.#heardMs()
    this.#liveSince = undefined
  }

  forget(key: string): void {
    this.#seen.delete(key)
  }

  #heardMs(): number {
    return this.#heardBeforeMs + (this.#liveSince === undefined ? 0 : this.#now() - this.#liveSince)
  }
}
