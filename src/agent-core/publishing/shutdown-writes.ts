import { setTimeout as delay } from 'node:timers/promises'
import { messageOf } from '../util/message-of.ts'
import { refKey } from '../util/object-key.ts'
import { within } from '../util/within.ts'
import type { PublishTarget } from './objects.ts'
import type { WriteResult } from './write-result.ts'

/** At shutdown the servers wait for this. */
export const shutdownLimitMs = 5_000
/** What the cluster did not take is tried again this often until then. */
const retryEveryMs = 500

/** A key that could not be written in time, and why. */
export interface Unfinished {
  readonly key: string
  readonly message: string
}

/** Writes all of them at once, and again what the cluster did not take; the answer names what it had not taken when the time was up. */
export async function writeWithin(
  limitMs: number,
  targets: readonly PublishTarget[],
  write: (target: PublishTarget) => Promise<WriteResult>,
  signal: AbortSignal,
): Promise<readonly Unfinished[]> {
  const unfinished = new Map<string, string>()
  const limit = AbortSignal.any([signal, AbortSignal.timeout(limitMs)])
  const writes = targets.map(async (target) => {
    const key = refKey(target)
    unfinished.set(key, `The cluster did not answer within ${limitMs / 1000} s.`)
    while (!limit.aborted) {
      const message = await failureOf(write(target))
      if (message === undefined) unfinished.delete(key)
      else unfinished.set(key, message)
      if (message === undefined || !(await pause(retryEveryMs, limit))) return
    }
  })
  await within(limitMs, Promise.all(writes))
  return [...unfinished].map(([key, message]) => ({ key, message }))
}

/** Undefined = there is nothing left to be written. */
const failureOf = (write: Promise<WriteResult>): Promise<string | undefined> =>
  write.then((result) => (result.kind === 'done' || result.kind === 'lost' ? undefined : result.message), messageOf)

/** False where it was cut short. */
const pause = (ms: number, signal: AbortSignal): Promise<boolean> => delay(ms, true, { signal }).catch(() => false)
