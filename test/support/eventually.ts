import { setTimeout as delay } from 'node:timers/promises'

const pollMs = 10

/** Long enough for a machine that does something else besides; a test that passes never waits for it. */
const defaultTimeoutMs = 60_000

/** Waits until `probe` returns something other than undefined or false without throwing; fails with its last error or answer. */
export async function eventually<T>(
  probe: () => T | Promise<T>,
  { timeoutMs = defaultTimeoutMs, what = 'the condition' }: { timeoutMs?: number; what?: string } = {},
): Promise<Exclude<T, undefined | false>> {
  const deadline = Date.now() + timeoutMs
  let last: unknown
  for (;;) {
    try {
      const answer = await probe()
      if (answer !== undefined && answer !== false) return answer as Exclude<T, undefined | false>
      last = answer
    } catch (error) {
      last = error
    }
    if (Date.now() > deadline) {
      throw new Error(`${what} did not come true within ${timeoutMs} ms`, { cause: last })
    }
    await delay(pollMs)
  }
}
