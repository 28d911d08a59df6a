import { setTimeout as delay } from 'node:timers/promises'

/** A menu that opens later feels broken. */
export const menuLimitMs = 300

/** The answer where it comes within the limit, else `otherwise`; what was asked goes on, and its answer is for the next time. */
export async function inTime<T, O>(answer: Promise<T>, limitMs: number, otherwise: O): Promise<T | O> {
  const limit = new AbortController()
  const late = delay(limitMs, otherwise, { signal: limit.signal }).catch(() => otherwise)
  try {
    return await Promise.race([answer, late])
  } finally {
    limit.abort()
  }
}
