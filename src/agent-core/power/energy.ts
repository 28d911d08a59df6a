import type { PowerFigures } from '../../contract/power.ts'
import { EnergyAccount, EnergyMeter, type Spending, type WorkTotals } from './energy-account.ts'

export interface EnergyOptions {
  /** What the servers of each service have counted since the agent began, by key. */
  readonly totals: () => ReadonlyMap<string, WorkTotals>
  /** Asks every server for its counters, and calls `workCounted`. Never rejects. */
  readonly countWork: () => Promise<void>
  readonly onSpending: (spending: Spending) => void
  /** Monotonic, in milliseconds. */
  readonly now?: () => number
  readonly countEveryMs?: number | undefined
}

/** How often work is counted while nobody looks. */
const usualCountEveryMs = 60_000
/** A server that does not answer delays the others no longer than this. */
const longestWaitMs = 60_000
/** An older share of power says nothing about now. */
const shareShownMs = 15_000

/** The energy that this machine and each service draw while power is measured, and the services' shares of the power now. */
export class Energy implements Disposable {
  readonly #options: EnergyOptions
  readonly #now: () => number
  readonly #meter = new EnergyMeter()
  readonly #account: EnergyAccount
  #timer: NodeJS.Timeout | undefined
  #isMeasuring = false
  /** Since work was last counted a sample came, or measuring began or ended. */
  #isDue = false
  #shares: { readonly watts: ReadonlyMap<string, number>; readonly atMs: number } | undefined

  constructor(options: EnergyOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
    this.#account = new EnergyAccount(this.#now())
  }

  /** A sample of power, or that there are no figures from now on. */
  powerChanged(figures: PowerFigures | undefined, intervalMs: number | undefined): void {
    if (figures === undefined || intervalMs === undefined) {
      this.#meter.stop()
      this.#shares = undefined
    } else this.#account.add(this.#meter.add({ watts: figures.combinedWatts, atMs: this.#now(), intervalMs }))
    const isMeasuring = figures !== undefined
    const isOther = isMeasuring !== this.#isMeasuring
    this.#isMeasuring = isMeasuring
    this.#isDue = true
    if (!isOther) return
    const { countWork, countEveryMs = usualCountEveryMs } = this.#options
    this[Symbol.dispose]()
    if (isMeasuring) this.#timer = setInterval(() => void countWork(), countEveryMs).unref()
    // So that no energy is given to work done before or after.
    void countWork()
  }

  /**
   * Servers were asked for their counters; complete: all of them answered. Energy is shared out neither between two samples of power nor
   * while a server is too busy to answer: it would go to work that it was not drawn for.
   */
  workCounted({ isComplete = true }: { readonly isComplete?: boolean } = {}): void {
    if (this.#isMeasuring && !this.#isDue) return
    if (isComplete || this.#now() - this.#account.closedAtMs >= longestWaitMs) this.#shareOut(isComplete)
  }

  #shareOut(isComplete: boolean): void {
    this.#isDue = false
    const atMs = this.#now()
    const spending = this.#account.close(this.#options.totals(), atMs, isComplete)
    const { measured, services } = spending
    const watts = new Map([...services].map(([key, joules]) => [key, (joules * 1_000) / measured.ms] as const))
    this.#shares = this.#isMeasuring && measured.ms > 0 ? { watts, atMs } : undefined
    if (measured.ms > 0) this.#options.onSpending(spending)
  }

  /** An estimate of the part of the machine's power that a service draws; undefined where it is not known now. */
  shareWatts(key: string): number | undefined {
    if (!this.#shares || this.#now() - this.#shares.atMs > shareShownMs) return undefined
    return this.#shares.watts.get(key)
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }
}
