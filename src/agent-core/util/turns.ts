import { setImmediate as nextTurn } from 'node:timers/promises'

/** Far below what a person notices, and far above the cost of a turn of the event loop. */
const turnMs = 20

/** For work in many pieces: between two of them `pass` lets the event loop serve others where it has not for a while. */
export class Turns {
  #since = performance.now()

  async pass(): Promise<void> {
    if (performance.now() - this.#since < turnMs) return
    await nextTurn()
    this.#since = performance.now()
  }
}
