/** Requests within so many milliseconds of each other are one query. */
const calmMs = 400
/** The first of them waits no longer than this, however many follow. */
const longestWaitMs = 1_500

/** Runs a repeated query one at a time, and once more after it if it was requested meanwhile. */
export class RepeatedQuestion {
  readonly #question: () => Promise<void>
  #isFirst: boolean
  #isAsking = false
  #isOver = false
  /** When the first unanswered request came. */
  #wishedAt: number | undefined
  #timer: ReturnType<typeof setTimeout> | undefined

  /** `isFirst`: nothing is known yet, so the first query does not wait. */
  constructor({ isFirst }: { readonly isFirst: boolean }, question: () => Promise<void>) {
    this.#isFirst = isFirst
    this.#question = question
  }

  ask(): void {
    const now = performance.now()
    this.#wishedAt ??= now
    if (this.#isAsking || this.#isOver) return
    clearTimeout(this.#timer)
    const waitMs = this.#isFirst ? 0 : Math.max(0, Math.min(calmMs, this.#wishedAt + longestWaitMs - now))
    this.#timer = setTimeout(() => void this.#askNow(), waitMs)
  }

  /** No query is started after this. */
  end(): void {
    this.#isOver = true
    clearTimeout(this.#timer)
  }

  async #askNow(): Promise<void> {
    this.#isFirst = false
    this.#isAsking = true
    this.#wishedAt = undefined
    try {
      await this.#question()
    } finally {
      this.#isAsking = false
      this.#askAgain()
    }
  }

  /** The wishes of meanwhile count from the answer on. */
  #askAgain(): void {
    if (this.#wishedAt === undefined) return
    this.#wishedAt = undefined
    this.ask()
  }
}
