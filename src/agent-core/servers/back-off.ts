import { jitteredMs, type BackOff } from '../util/back-off.ts'

/** How often a server failed in a row. */
export interface CrashHistory {
  readonly failures: number
}

export const noCrashes: CrashHistory = { failures: 0 }

/** A model that cannot run is tried twelve times an hour, and comes back within minutes when the cause goes away. */
export const crashBackOff: BackOff = { firstMs: 1_000, maxMs: 5 * 60_000 }

/** A server that served for so long had recovered: a later crash counts as the first. */
export const stableAfterMs = 10 * 60_000

/** `servedMs`: how long it was ready before it failed, 0 if it never was. */
export const afterCrash = ({ failures }: CrashHistory, servedMs: number): CrashHistory => ({
  failures: servedMs >= stableAfterMs ? 1 : failures + 1,
})

/** The first crash of a server that served is restarted at once: what ends in the same way again waits. */
export const retryDelayMs = ({ failures }: CrashHistory, servedMs: number, random: () => number): number =>
  failures === 1 && servedMs > 0 ? 0 : jitteredMs(crashBackOff, failures, random)

export interface Failure {
  /** In a row. */
  readonly failures: number
  readonly retryAt: number
}

/** The keys whose latest starts failed: how often in a row, and when the next start may be tried. */
export class BackOffs {
  readonly #options: { readonly now: () => number; readonly random: () => number }
  readonly #failures = new Map<string, Failure>()

  constructor(options: { readonly now: () => number; readonly random: () => number }) {
    this.#options = options
  }

  of(key: string): Failure | undefined {
    return this.#failures.get(key)
  }

  count(key: string, servedMs: number): Failure {
    const { now, random } = this.#options
    const crashes = afterCrash(this.#failures.get(key) ?? noCrashes, servedMs)
    const failure = { ...crashes, retryAt: now() + retryDelayMs(crashes, servedMs, random) }
    this.#failures.set(key, failure)
    return failure
  }

  clear(key: string): void {
    this.#failures.delete(key)
  }
}
