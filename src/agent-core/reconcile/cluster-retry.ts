import type { ApiError } from '../kube/api-error.ts'
import { jitteredMs } from '../util/back-off.ts'

/** First and longest wait before the next attempt at what the cluster did not do. */
const backOff = { firstMs: 500, maxMs: 30_000 }
/** Longest wait while pods are sent where no server answers. */
const longestAstrayMs = 1_000

/** When the cluster is asked again, after so many failures in a row. */
export interface ClusterRetry {
  readonly at: number
  /** No later than `at`: when what misleads pods is put right at the latest. */
  readonly urgentAt: number
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
  const waitMs = jitteredMs(backOff, failures, random)
  const urgentMs = Math.min(waitMs, longestAstrayMs * (1 - 0.5 * random()))
  const after = (ms: number): number => now + Math.max(retryAfterSeconds * 1_000, ms)
  return { failures, isRefusal, at: after(waitMs), urgentAt: after(urgentMs) }
}
