import { dropped, type WriteResult } from './write-result.ts'

/** Writes that wait for each other. */
export class Turns {
  readonly #signal: AbortSignal
  #last: Promise<unknown> = Promise.resolve()
  /** Turns of an earlier generation are dropped. */
  #generation = 0

  /** After the abort no turn begins. */
  constructor(signal: AbortSignal) {
    this.#signal = signal
  }

  /** After all earlier turns; `dropped` where it was not taken any more. */
  take<T>(work: () => Promise<T>): Promise<T | WriteResult> {
    const generation = this.#generation
    const result = this.#last.then((): T | WriteResult | Promise<T> =>
      generation === this.#generation && !this.#signal.aborted ? work() : dropped,
    )
    const settled = (): undefined => undefined
    this.#last = result.then(settled, settled)
    return result
  }

  /** What waits for its turn is not written any more. */
  dropWaiting(): void {
    this.#generation += 1
  }

  /** When all turns until now are over. */
  async settled(): Promise<void> {
    await this.#last
  }
}
