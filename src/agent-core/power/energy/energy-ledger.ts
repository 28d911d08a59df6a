import type { Logger } from '../../observability/logger.ts'
import { StateFile, StateFileError } from '../../state/state-file.ts'
import { bounded, keptEnergy, nothingKept, withSpending, type KeptEnergy } from './buckets.ts'
import type { Spending } from './energy-account.ts'

export interface EnergyLedgerOptions {
  readonly file: string
  readonly log: Logger
  /** The wall clock: which hour something is counted to. */
  readonly now?: () => number
  readonly writeEveryMs?: number
}

/** Several times what the rows that are kept can take. */
const maxBytes = 8 * 1_024 * 1_024
/** What a crash of the agent may cost, for a file that grows to a megabyte. */
const usualWriteEveryMs = 300_000

/** What the machine and each service drew and did, kept over restarts. No trouble with its file stops anything: then it counts in memory. */
export class EnergyLedger implements AsyncDisposable {
  /** What a person should know of the file. */
  readonly notice: string | undefined
  readonly #options: EnergyLedgerOptions
  /** Undefined where the file cannot be read: what may be in it is not written over. */
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
      return new EnergyLedger(options, undefined, `${error.message} Energy is counted only until the agent ends.`)
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
      // The next one has all of it.
      if (!this.#isFailing) this.#options.log.warn('energy not written', { file: this.#options.file, error })
      this.#isFailing = true
    }
  }
}
