import { setTimeout as delay } from 'node:timers/promises'
import type { Platform } from '../platform/platform.ts'
import { mostSleeps, sleptMs } from '../util/awake-timeout.ts'
import { askActivity, type CountersReading } from './activity.ts'

export interface Drain {
  readonly port: number
  readonly platform: Pick<Platform, 'establishedConnections'>
  /** On the monotonic clock; asked again at every look. */
  readonly until: () => number
  /** Ends the wait at once. */
  readonly signal: AbortSignal
  /** Without a request for so long it is over; absent = a moment is enough. */
  readonly quietMs?: number | undefined
  /** Called with every new number. */
  readonly onRequests: (requests: number) => void
  readonly onCounters: (reading: CountersReading) => void
  /** The machine slept for so long, in which no request could advance. */
  readonly onSlept: (ms: number) => void
  readonly onTrouble: (message: string, error: unknown) => void
}

/** A look takes about a millisecond at a server that is well; one in the middle of a long batch does not answer. */
const lookLimitMs = 500
/** Readers of a snapshot are told no more often either. */
const lookEveryMs = 250
/**
 * Between the withdrawal and the moment in which the last node of the cluster knows of it, requests still come. Where nothing was
 * going on hardly any will; where requests were in flight, others are likely to be on their way.
 */
const quietSettleMs = 50
const busySettleMs = 1_000

/**
 * Waits until the server has had no request in flight for a moment. Where the server does not count them, open connections
 * stand for requests: an idle one that a client keeps then holds the wait to its end. Resolves with the requests still in flight; never
 * rejects.
 */
export async function drain({
  port,
  platform,
  until,
  signal,
  quietMs = quietSettleMs,
  onRequests,
  onCounters,
  onSlept,
  onTrouble,
}: Drain): Promise<number> {
  let before: Look = { requests: 0, work: undefined }
  let settleMs = quietMs
  let idleSince: number | undefined
  let sleeps = 0
  let isSeen = true
  try {
    for (;;) {
      const look = await lookAt({ port, platform, signal, onCounters, before }).catch((error: unknown) => {
        signal.throwIfAborted()
        if (isSeen) onTrouble('could not tell whether requests are in flight', error)
        return undefined
      })
      isSeen = look !== undefined
      const now = performance.now()
      // Requests may be in flight, since nobody could look: it waits up to its limit.
      if (!look) idleSince = undefined
      else {
        if (look.requests !== before.requests) onRequests(look.requests)
        if (look.requests > 0 || (before.work !== undefined && look.work !== before.work)) {
          settleMs = Math.max(quietMs, busySettleMs)
          idleSince = undefined
        }
        if (look.requests === 0) idleSince ??= now
        before = look
      }
      const idleMs = idleSince === undefined ? 0 : now - idleSince
      if (now >= until() || (idleSince !== undefined && idleMs >= settleMs)) return before.requests
      const waitMs = Math.min(lookEveryMs, isSeen ? settleMs - idleMs : lookEveryMs, until() - now)
      await delay(Math.max(1, Math.ceil(waitMs)), undefined, { signal })
      // Only the delay is measured: a look may take long on a machine that is awake.
      const waitedMs = performance.now() - now
      if (waitedMs <= sleptMs || ++sleeps > mostSleeps) continue
      idleSince = undefined
      onSlept(waitedMs)
    }
  } catch (error) {
    if (!signal.aborted) onTrouble('could not tell whether requests are in flight', error)
    return before.requests
  }
}

interface Look {
  readonly requests: number
  /** Only where the server counts. */
  readonly work: number | undefined
}

/** Of a server that is silent for the moment, the last count is the best there is. */
async function lookAt({
  port,
  platform,
  signal,
  onCounters,
  before,
}: Pick<Drain, 'port' | 'platform' | 'signal' | 'onCounters'> & { before: Look }): Promise<Look> {
  const activity = await askActivity(port, lookLimitMs, signal)
  if (activity.kind === 'counted') {
    onCounters(activity.reading)
    return activity
  }
  const connections = await platform.establishedConnections(port)
  const counted = activity.kind !== 'untold' && before.requests > 0 && connections > 0
  return counted ? before : { requests: connections, work: undefined }
}
