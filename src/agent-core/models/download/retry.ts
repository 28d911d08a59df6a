import { jitteredMs, type BackOff } from '../../util/back-off.ts'
import type { ModelError, ModelErrorReason } from '../errors.ts'

/** Faults that pass by themselves. */
const passing: ReadonlySet<ModelErrorReason> = new Set([
  'Truncated',
  'Stalled',
  'ServerError',
  'RateLimited',
  'Unreachable',
])

export function isRetryable({ reason }: ModelError): boolean {
  return passing.has(reason)
}

const backOff: BackOff = { firstMs: 1000, maxMs: 30_000 }

/** A server that asks for more patience gets it from the caller's back-off, where a person can see it. */
const maxWaitMs = 60_000

/**
 * How long to wait after so many failures in a row without a byte of progress in between; undefined = no more.
 * A server's own wish counts as the least.
 */
export function retryWaitMs(
  error: ModelError,
  failures: number,
  attempts: number,
  random: () => number,
): number | undefined {
  const asked = error.retryAfterMs ?? 0
  if (!isRetryable(error) || failures >= attempts || asked > maxWaitMs) return undefined
  return asked + jitteredMs(backOff, failures, random)
}
