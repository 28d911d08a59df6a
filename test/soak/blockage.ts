/** An agent that was refused for long waits a while before it tries again, at most for so long. */
const longestBackOffMs = 30_000
const shortestBackOffMs = 2_000
/** What sends pods where no server answers is tried again every second. */
const urgentBackOffMs = 1_500

/**
 * Something that was in the agent's way for some time. Where it waits longer after each failure, its next try may come as long after the
 * obstacle has gone as that was there.
 */
export class Blockage {
  #open = 0
  #since = 0
  #clearFrom = 0
  #endedAt = -Infinity

  begin(at: number): void {
    // What begins while the agent may still be backing off from the one before makes that one longer.
    if (this.#open === 0 && at >= this.#clearFrom) this.#since = at
    this.#open += 1
  }

  end(at: number): void {
    this.#open -= 1
    this.#endedAt = at
    this.#clearFrom = at + Math.min(Math.max(at - this.#since, shortestBackOffMs), longestBackOffMs)
  }

  isClear(at: number): boolean {
    return this.#open === 0 && at >= this.#clearFrom
  }

  /** As {@link isClear}, for what does not wait longer after each failure. */
  isUrgentlyClear(at: number): boolean {
    return this.#open === 0 && at >= this.#endedAt + urgentBackOffMs
  }
}
