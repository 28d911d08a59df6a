/** Many wishes in a row are one question, in milliseconds. */
const calmMs = 400
/** The first of them waits no longer, however often another comes. */
const longestWaitMs = 1_500

/** A question that is asked again and again: one at a time, and once more after it where it was wished for meanwhile. */
export class RepeatedQuestion {
  readonly #question: () => Promise<void>
  #isFirst: boolean
  #isAsking = false
  #isOver = false
  /** Of the first wish that no question was asked for yet. */
  #wishedAt: number | undefined
  #timer: ReturnType<typeof setTimeout> | undefined

  /** `isFirst`: nothing is known yet, so that the first one does not wait. */
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

  /** Nothing is asked any more. */
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
