import type { ApiError } from '../kube/api-error.ts'
import { jitteredMs } from '../support/back-off.ts'

/** First and longest wait before the next attempt at what the cluster did not do. */
const backOff = { firstMs: 500, maxMs: 30_000 }

/** When the cluster is asked again, after so many failures in a row. */
export interface ClusterRetry {
  readonly at: number
  readonly failures: number
  /** It answered and refused the request: no outage. */
  readonly isRefusal: boolean
}

/** Answers that say nothing about the request itself: not logged in, timed out, in conflict with another write, too many requests. */
const passingCodes = new Set([401, 408, 409, 429])

/** Not before the time that the cluster asked for. */
export function nextClusterRetry(
  { code = 0, retryAfterSeconds = 0 }: ApiError,
  before: ClusterRetry | undefined,
  { now, random }: { readonly now: number; readonly random: () => number },
): ClusterRetry {
  const failures = (before?.failures ?? 0) + 1
  const isRefusal = code >= 400 && code < 500 && !passingCodes.has(code)
  return { failures, isRefusal, at: now + Math.max(retryAfterSeconds * 1_000, jitteredMs(backOff, failures, random)) }
}
