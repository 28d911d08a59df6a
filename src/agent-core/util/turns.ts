import { setImmediate as nextTurn } from 'node:timers/promises'

/** Far below what a person notices, and far above the cost of a turn of the event loop. */
const turnMs = 20

let lastTurn: Promise<unknown> = Promise.resolve()

/** Does work that takes a tenth of a second in a turn of the event loop of its own, one piece after the other, however many are asked for at once. */
export function inOwnTurn<T>(work: () => T): Promise<T> {
  const done = lastTurn.then(() => nextTurn()).then(work)
  lastTurn = done.catch(() => undefined)
  return done
}

/** For work in many pieces: between two of them `pass` lets the event loop serve others where it has not for a while. */
export class Turns {
  #since = performance.now()

  async pass(): Promise<void> {
    if (performance.now() - this.#since < turnMs) return
    await nextTurn()
    this.#since = performance.now()
  }
}
