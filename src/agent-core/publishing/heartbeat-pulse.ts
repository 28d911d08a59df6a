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
export type Renewal = () => Promise<void>

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

  /** Of a lone claim, give or take a tenth. */
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
