import { setImmediate } from 'node:timers/promises'

/** Work that could begin all at once begins in turns of the event loop of about this length, so that others get theirs. */
const turnMs = 10

/** When this turn of the event loop began its first work; undefined where it has not begun any. */
let begunAt: number | undefined
let next: Promise<void> | undefined

/**
 * Whether this turn of the event loop has had its share of work. What many promises that settle together lead to, or many additions, each
 * waits so, with nothing awaited between this and the work:
 *
 *     while (isTurnOver()) await nextTurn()
 */
export function isTurnOver(): boolean {
  void nextTurn()
  begunAt ??= performance.now()
  return performance.now() - begunAt > turnMs
}

/** Resolves in the next turn of the event loop. */
export function nextTurn(): Promise<void> {
  return (next ??= setImmediate().then(() => {
    begunAt = next = undefined
  }))
}

let lastTurn: Promise<unknown> = Promise.resolve()

/** Does work that takes a tenth of a second in a turn of the event loop of its own, one piece after the other, however many are asked for at once. */
export function inOwnTurn<T>(work: () => T): Promise<T> {
  const done = lastTurn.then(() => setImmediate()).then(work)
  lastTurn = done.catch(() => undefined)
  return done
}
