import { awakeTimeout, type AwakeTimeout } from '../../util/awake-timeout.ts'

/** Of half an hour no more needs to be known; each step is a wake of the processor. */
const longestStepMs = 30_000

interface NextStart {
  readonly at: number
  /** Of the time awake, after the one that is waited for. */
  readonly outlivedAfterMs: number
}

/** Says of starts of models that the machine, awake, lived on for so long after them. A later start takes nothing from an earlier one. */
export class OutlivedStarts implements Disposable {
  readonly #outliveMs: number
  readonly #onOutlived: (startedAt: number) => void
  #running: AwakeTimeout | undefined
  /** The latest since the one that is waited for. */
  #next: NextStart | undefined

  constructor(outliveMs: number, onOutlived: (startedAt: number) => void) {
    this.#outliveMs = outliveMs
    this.#onOutlived = onOutlived
  }

  started(at: number, agoMs = 0): void {
    const outlivedAfterMs = Math.max(0, this.#outliveMs - agoMs)
    if (this.#running) this.#next = { at, outlivedAfterMs: Math.max(0, outlivedAfterMs - this.#running.leftMs) }
    else this.#wait({ at, outlivedAfterMs })
  }

  [Symbol.dispose](): void {
    this.#running?.clear()
  }

  #wait({ at, outlivedAfterMs }: NextStart): void {
    const onDue = () => {
      const next = this.#next
      this.#running = undefined
      this.#next = undefined
      if (next) this.#wait(next)
      this.#onOutlived(at)
    }
    this.#running = awakeTimeout(onDue, outlivedAfterMs, { longestStepMs })
  }
}
