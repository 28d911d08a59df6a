import { setTimeout as delay } from 'node:timers/promises'

const shortestPauseMs = 10
const longestPauseMs = 100
/** Of the time waited so far: what takes long is looked at seldom, since a look may cost as much as what it waits for. */
const pauseShare = 0.1

/** Long enough for a machine that does something else besides; a test that passes never waits for it. */
const defaultTimeoutMs = 60_000

/** Waits until `probe` returns something other than undefined or false without throwing; fails with its last error or answer. */
export async function eventually<T>(
  probe: () => T | Promise<T>,
  { timeoutMs = defaultTimeoutMs, what = 'the condition' }: { timeoutMs?: number; what?: string } = {},
): Promise<Exclude<T, undefined | false>> {
  const began = Date.now()
  let last: unknown
  for (;;) {
    try {
      const answer = await probe()
      if (answer !== undefined && answer !== false) return answer as Exclude<T, undefined | false>
      last = answer
    } catch (error) {
      last = error
    }
    const waitedMs = Date.now() - began
    if (waitedMs > timeoutMs) {
      throw new Error(`${what} did not come true within ${timeoutMs} ms`, { cause: last })
    }
    await delay(Math.min(longestPauseMs, Math.max(shortestPauseMs, waitedMs * pauseShare)))
  }
}
