const windowMs = 60_000
/** More attempts than a person needs who pastes an old URL. */
const freeOfCharge = 10

/** Counts wrong tokens and bearers, so that guessing is slowed down; a right one is taken however many were wrong before. */
export class WrongKeys {
  readonly #now: () => number
  #times: number[] = []

  /** `now`: monotonic milliseconds. */
  constructor(now: () => number) {
    this.#now = now
  }

  /** Whether there were too many of late. */
  add(): boolean {
    const now = this.#now()
    this.#times = [...this.#times.filter((at) => at > now - windowMs), now].slice(-freeOfCharge - 1)
    return this.#times.length > freeOfCharge
  }
}
