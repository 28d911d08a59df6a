import { setTimeout } from 'node:timers/promises'

export interface Looks {
  readonly everyMs: number
  readonly times: number
  /** Stops looking for the report, whose finding would not be told any more. */
  readonly signal: AbortSignal
}

/** Whether a look finds what may be there later than now. False where it was called off. */
export async function isFoundLater(look: () => Promise<boolean>, { everyMs, times, signal }: Looks): Promise<boolean> {
  for (let looks = 0; looks < times; looks += 1) {
    await setTimeout(everyMs, undefined, { signal, ref: false }).catch(() => undefined)
    if (signal.aborted) return false
    const isFound = await look()
    // It may have been called off while it looked.
    if (isFound) return !signal.aborted
  }
  return false
}
