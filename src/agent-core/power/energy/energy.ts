import type { EnergyView, PowerFigures, PowerView } from '../../../contract/power.ts'
import type { Logger } from '../../observability/logger.ts'
import { nothingKept } from './buckets.ts'
import { EnergyAccount, type Spending } from './energy-account.ts'
import { EnergyLedger } from './energy-ledger.ts'
import { EnergyMeter } from './energy-meter.ts'
import { energyViewOf, howMeasured, type EnergyPrice, type EnergyQuestion } from './energy-view.ts'
import type { WorkTotals } from './shares.ts'

export interface EnergySettings {
  /** Count also while nobody looks. */
  readonly isKept: boolean
  readonly price: EnergyPrice
}

export interface EnergyOptions {
  readonly file: string
  readonly log: Logger
  readonly settings: () => EnergySettings
  readonly power: () => PowerView | undefined
  /** What the servers of each service have counted since the agent began, by key. */
  readonly totals: () => ReadonlyMap<string, WorkTotals>
  /** Asks every server for its counters, and calls `workCounted`. Never rejects. */
  readonly countWork: () => Promise<void>
  readonly onSpending?: (spending: Spending) => void
  /** Monotonic, in milliseconds. */
  readonly now?: () => number
  readonly countEveryMs?: number | undefined
}

/** How often work is counted while nobody looks. */
const usualCountEveryMs = 60_000
/** A server that never answers holds up the others no longer. */
const longestWaitMs = 60_000
/** A share of power says nothing about now when it is older. */
const shareShownMs = 15_000

/** What this machine and each service draws and does: kept in a ledger, and as a share of the power now. */
export class Energy implements AsyncDisposable {
  readonly #options: EnergyOptions
  readonly #now: () => number
  readonly #meter = new EnergyMeter()
  readonly #account: EnergyAccount
  #ledger: EnergyLedger | undefined
  #timer: NodeJS.Timeout | undefined
  #isMeasuring = false
  /** A sample came, or measuring began or ended, since work was last counted. */
  #isDue = false
  #shares: { readonly watts: ReadonlyMap<string, number>; readonly atMs: number } | undefined

  constructor(options: EnergyOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
    this.#account = new EnergyAccount(this.#now())
  }

  /** Answers with what a person should know of the file. */
  async open(): Promise<string | undefined> {
    const { file, log } = this.#options
    this.#ledger = await EnergyLedger.open({ file, log })
    this.settingsChanged()
    return this.#ledger.notice
  }

  settingsChanged(): void {
    const { settings, countWork, countEveryMs = usualCountEveryMs } = this.#options
    if (!settings().isKept) {
      clearInterval(this.#timer)
      this.#timer = undefined
    } else this.#timer ??= setInterval(() => void countWork(), countEveryMs).unref()
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
    // So that no energy is given to what was done before or after.
    if (isOther) void this.#options.countWork()
  }

  /**
   * Servers were asked for their counters; complete: all of them answered. Between two samples of power nothing is shared out, and neither is
   * it while a server is too busy to answer: the energy would go to other work than what it was drawn for.
   */
  workCounted({ isComplete = true }: { readonly isComplete?: boolean } = {}): void {
    if (this.#isMeasuring && !this.#isDue) return
    if (isComplete || this.#now() - this.#account.closedAtMs >= longestWaitMs) this.#shareOut(isComplete)
  }

  #shareOut(isComplete: boolean): void {
    if (!this.#ledger) return
    this.#isDue = false
    const atMs = this.#now()
    const spending = this.#account.close(this.#options.totals(), atMs, isComplete)
    const { measured, services } = spending
    const wattsOf = (joules: number) => (joules * 1_000) / measured.ms
    const watts = new Map([...services].map(([key, { joules }]) => [key, wattsOf(joules)] as const))
    this.#shares = this.#isMeasuring && measured.ms > 0 ? { watts, atMs } : undefined
    this.#ledger.add(spending)
    this.#options.onSpending?.(spending)
  }

  /** An estimate of the part of the machine's power that a service draws; undefined where it is not known now. */
  shareWatts(key: string): number | undefined {
    if (!this.#shares || this.#now() - this.#shares.atMs > shareShownMs) return undefined
    return this.#shares.watts.get(key)
  }

  /** What was counted up to now. */
  async view(question: EnergyQuestion): Promise<EnergyView> {
    const { settings, power, countWork } = this.#options
    await countWork()
    const { isKept, price } = settings()
    const message = howMeasured(power(), isKept)
    return energyViewOf(this.#ledger?.kept ?? nothingKept, question, { price, message, now: Date.now() })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer)
    this.#shareOut(true)
    await this.#ledger?.[Symbol.asyncDispose]()
  }
}
