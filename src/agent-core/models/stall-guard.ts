import type { ModelError } from './errors.ts'

/** Ends a request whose server goes quiet, and in the end the request itself. */
export class StallGuard {
  readonly #ending = new AbortController()
  readonly #stallMs: number
  readonly #stalled: () => ModelError

  constructor(stallMs: number, stalled: () => ModelError) {
    this.#stallMs = stallMs
    this.#stalled = stalled
  }

  /** For the request; its reason is the error of the stall. */
  get signal(): AbortSignal {
    return this.#ending.signal
  }

  /** Waits for the next sign of life. Time spent elsewhere (writing to a slow disk) does not count. */
  async watch<T>(answer: Promise<T>): Promise<T> {
    const timer = setTimeout(() => this.#ending.abort(this.#stalled()), this.#stallMs)
    try {
      return await answer
    } finally {
      clearTimeout(timer)
    }
  }

  [Symbol.dispose](): void {
    this.#ending.abort()
  }
}
