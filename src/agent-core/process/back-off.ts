/** How often a server failed in a row. */
export interface CrashHistory {
  readonly failures: number
}

export const noCrashes: CrashHistory = { failures: 0 }

export const firstDelayMs = 1_000
/** A model that cannot run is tried twelve times an hour, and comes back within minutes when the cause goes away. */
export const maxDelayMs = 5 * 60_000
/** Who served so long had recovered: a later crash is a new story. */
export const stableAfterMs = 10 * 60_000

/** `servedMs`: how long it was ready before it failed, 0 if it never was. */
export const afterCrash = ({ failures }: CrashHistory, servedMs: number): CrashHistory => ({
  failures: servedMs >= stableAfterMs ? 1 : failures + 1,
})

/** The longest wait before the next attempt: doubles with every failure. */
export const delayBoundMs = ({ failures }: CrashHistory): number =>
  failures === 0 ? 0 : Math.min(maxDelayMs, firstDelayMs * 2 ** (failures - 1))

/** Full jitter, so that services that failed together do not come back together. `random` gives [0, 1). */
export const retryDelayMs = (history: CrashHistory, random: () => number): number =>
  Math.round(delayBoundMs(history) * random())
