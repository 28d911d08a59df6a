import { formatBytes, formatSpan } from '../../contract/format.ts'
import type { Progress } from '../../contract/service.ts'

/** Shorter downloads are over before a person has read of their first quarter. */
const longDownloadMs = 5 * 60_000
const quarters = [25, 50, 75]

export interface DownloadNote {
  readonly reason: 'Fetching' | 'Fetched'
  readonly message: string
}

/** What of a download is worth an Event: its start, the quarters of a long one, its end. */
export class DownloadStory {
  readonly #now: () => number
  readonly #what: string
  #begun: { readonly at: number; readonly fromBytes: number } | undefined
  #reportedPercent = 0

  /** `what`: the model, as a sentence names it. */
  constructor({ now, what = 'model' }: { readonly now: () => number; readonly what?: string }) {
    this.#now = now
    this.#what = what
  }

  /** Undefined where there is nothing new to tell. */
  progress({ doneBytes, totalBytes, phase }: Progress): DownloadNote | undefined {
    if (phase !== undefined) return undefined
    const of = totalBytes === undefined ? '' : ` of ${formatBytes(totalBytes)}`
    if (!this.#begun) {
      this.#begun = { at: this.#now(), fromBytes: doneBytes }
      this.#reportedPercent = percentOf(doneBytes, totalBytes)
      const message =
        doneBytes > 0
          ? `The download of the ${this.#what} continues at ${formatBytes(doneBytes)}${of}.`
          : `The download of the ${this.#what} begins${totalBytes === undefined ? '' : `: ${formatBytes(totalBytes)}`}.`
      return { reason: 'Fetching', message }
    }
    const percent = percentOf(doneBytes, totalBytes)
    const reached = quarters.findLast((quarter) => percent >= quarter)
    if (totalBytes === undefined || reached === undefined || reached <= this.#reportedPercent || percent >= 100)
      return undefined
    this.#reportedPercent = reached
    if (this.#wholeMs(doneBytes, totalBytes) < longDownloadMs) return undefined
    return { reason: 'Fetching', message: `${reached} % of the ${this.#what} is here: ${formatBytes(doneBytes)}${of}.` }
  }

  /** Undefined where nothing was downloaded. */
  done(sizeBytes: number): DownloadNote | undefined {
    if (!this.#begun) return undefined
    return {
      reason: 'Fetched',
      message: `The ${this.#what} is here: ${formatBytes(sizeBytes)}, downloaded in ${formatSpan(this.#now() - this.#begun.at)}.`,
    }
  }

  /** How long all of it takes at the rate so far. */
  #wholeMs(doneBytes: number, totalBytes: number): number {
    const { at, fromBytes } = this.#begun ?? { at: this.#now(), fromBytes: 0 }
    const arrived = doneBytes - fromBytes
    return arrived <= 0 ? 0 : ((this.#now() - at) / arrived) * (totalBytes - fromBytes)
  }
}

const percentOf = (done: number, total: number | undefined): number =>
  total === undefined || total === 0 ? 0 : (100 * done) / total
