import { setImmediate as nextTurn } from 'node:timers/promises'

/** Far below what anybody notices, and far above what going round the event loop costs. */
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
