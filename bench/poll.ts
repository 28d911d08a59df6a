import { setTimeout as delay } from 'node:timers/promises'

const everyMs = 2

/** Looks every 2 ms until `probe` answers something; fails after `limitMs`. */
export async function poll<T>(
  what: string,
  probe: () => T | undefined | Promise<T | undefined>,
  limitMs = 60_000,
): Promise<T> {
  const deadline = performance.now() + limitMs
  for (;;) {
    const answer = await probe()
    if (answer !== undefined) return answer
    if (performance.now() > deadline) throw new Error(`${what}: not within ${limitMs / 1_000} s`)
    await delay(everyMs)
  }
}

/** Seconds since a reading of `performance.now()`. */
export const secondsSince = (startedAt: number, until = performance.now()): number => (until - startedAt) / 1_000
