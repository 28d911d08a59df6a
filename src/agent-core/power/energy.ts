import type { EnergyView, PowerFigures, PowerView } from '../../contract/power.ts'
import type { Logger } from '../observability/logger.ts'
import { StateFile, StateFileError } from '../state/state-file.ts'
import { EnergyAccount, EnergyMeter, type Spending, type WorkTotals } from './energy-account.ts'
import {
  bounded,
  energyViewOf,
  keptEnergy,
  nothingKept,
  withSpending,
  type EnergyPrice,
  type EnergyQuestion,
  type KeptEnergy,
} from './kept-energy.ts'

export interface EnergySettings {
  /** Also while nobody looks. */
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
/** A server that does not answer delays the others no longer than this. */
const longestWaitMs = 60_000
/** An older share of power says nothing about now. */
const shareShownMs = 15_000

/** What this machine and each service draw and do: kept in a ledger, and as shares of the power now. */
export class Energy implements AsyncDisposable {
  readonly #options: EnergyOptions
  readonly #now: () => number
  readonly #meter = new EnergyMeter()
  readonly #account: EnergyAccount
  #ledger: EnergyLedger | undefined
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

  /** Resolves to what a person should know about the file. */
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
    // So that no energy is given to work done before or after.
    if (isOther) void this.#options.countWork()
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

  /** What was counted until now. */
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

/** One sentence: whether energy is counted, and what to turn on. */
function howMeasured(power: PowerView | undefined, isKept: boolean): string {
  if (!power)
    return `Power is not measured: ${turnOn('apple-power-enabled')} measures it while somebody views it; with ${turnOn('energy-ledger')}, all the time.`
  if (power.state === 'unavailable' || power.state === 'failed') return power.message
  return isKept
    ? 'Power is measured all the time.'
    : `Power is measured only while somebody views it: ${turnOn('energy-ledger')} measures it all the time.`
}

const turnOn = (setting: string): string => `\`metal-agent settings set ${setting} on\``

interface EnergyLedgerOptions {
  readonly file: string
  readonly log: Logger
  /** The wall clock: which hour something is counted to. */
  readonly now?: () => number
  readonly writeEveryMs?: number
}

/** Several times what the kept rows can take. */
const maxBytes = 8 * 1_024 * 1_024
/** What a crash of the agent may cost, for a file that grows to a megabyte. */
const usualWriteEveryMs = 300_000

/** What the machine and each service drew and did, kept over restarts; in memory where its file cannot be used. */
export class EnergyLedger implements AsyncDisposable {
  /** What a person should know about the file. */
  readonly notice: string | undefined
  readonly #options: EnergyLedgerOptions
  /** Undefined where the file cannot be read: it is not written over. */
  readonly #file: StateFile<KeptEnergy> | undefined
  #kept: KeptEnergy
  #timer: NodeJS.Timeout | undefined
  #isFailing = false

  private constructor(options: EnergyLedgerOptions, file: StateFile<KeptEnergy> | undefined, notice?: string) {
    this.#options = options
    this.#file = file
    this.#kept = bounded(file?.value ?? nothingKept)
    this.notice = notice ?? file?.notice
  }

  static async open(options: EnergyLedgerOptions): Promise<EnergyLedger> {
    const { file, now } = options
    try {
      const keeps = 'the energy counted before'
      const opened = await StateFile.open({
        ...{ file, schema: keptEnergy, initial: nothingKept, keeps, maxBytes },
        ...(now && { now }),
      })
      return new EnergyLedger(options, opened)
    } catch (error) {
      if (!(error instanceof StateFileError)) throw error
      return new EnergyLedger(options, undefined, `${error.message} What is counted now is lost when the agent exits.`)
    }
  }

  get kept(): KeptEnergy {
    return this.#kept
  }

  add(spending: Spending): void {
    const { now = Date.now, writeEveryMs = usualWriteEveryMs } = this.#options
    const kept = withSpending(this.#kept, spending, now())
    if (kept === this.#kept) return
    this.#kept = kept
    this.#timer ??= setTimeout(() => void this.#write(), writeEveryMs).unref()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#write()
  }

  /** Never rejects. */
  async #write(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    try {
      await this.#file?.update(() => this.#kept)
      this.#isFailing = false
    } catch (error) {
      // The next write has all of it.
      if (!this.#isFailing) this.#options.log.warn('energy not written', { file: this.#options.file, error })
      this.#isFailing = true
    }
  }
}
