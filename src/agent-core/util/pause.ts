import { setTimeout as delay } from 'node:timers/promises'

/** Waits without keeping the process alive; false when the signal ended the wait. */
export async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  try {
    await delay(ms, undefined, { signal, ref: false })
    return true
  } catch (error) {
    if (signal.aborted) return false
    throw error
  }
}

/** Until the next multiple of `everyMs`: all timers of the same interval fire at once, which costs less than one by one. */
export const pauseUntilNext = (everyMs: number, signal: AbortSignal): Promise<boolean> =>
  pause(untilNextMs(everyMs), signal)

/** On the monotonic clock; never 0. */
export const untilNextMs = (everyMs: number, now = performance.now()): number => Math.ceil(everyMs - (now % everyMs))
