import PQueue from 'p-queue'

/** Lets a few downloads run at a time, in the order in which they came. */
export class DownloadTurns {
  readonly #atOnce: () => number
  readonly #queue: PQueue
  /** In order; told their place whenever it may have changed. */
  readonly #waiting = new Set<(ahead: number) => void>()

  constructor(atOnce: () => number) {
    this.#atOnce = atOnce
    this.#queue = new PQueue({ concurrency: atOnce() })
  }

  /** After a change of `atOnce`: starts what waits where more may run; ends nothing where fewer may. */
  settingsChanged(): void {
    this.#queue.concurrency = this.#atOnce()
    this.#tellPlaces()
  }

  /**
   * `onPlace`: how many downloads go first, each time that changes; not called where none does. Throws the signal's reason at
   * once while it waits; work that has begun ends itself, and keeps its turn until then.
   */
  async take<T>(signal: AbortSignal, onPlace: (ahead: number) => void, work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted()
    const turn = { hasCome: false }
    const tell = (ahead: number): void => onPlace(ahead)
    // The queue would let go of running work at an abort.
    const waiting = new AbortController()
    const leave = (): void => {
      if (!this.#waiting.delete(tell)) return
      waiting.abort(signal.reason)
      this.#tellPlaces()
    }
    this.#waiting.add(tell)
    signal.addEventListener('abort', leave, { once: true })
    try {
      const done = this.#queue.add(
        async () => {
          turn.hasCome = true
          this.#waiting.delete(tell)
          signal.throwIfAborted()
          return await work()
        },
        { signal: waiting.signal },
      )
      if (!turn.hasCome) tell(this.#ahead(tell))
      return await done
    } finally {
      signal.removeEventListener('abort', leave)
      leave()
      this.#tellPlaces()
    }
  }

  #tellPlaces(): void {
    for (const tell of this.#waiting) tell(this.#ahead(tell))
  }

  #ahead(tell: (ahead: number) => void): number {
    return this.#queue.pending + [...this.#waiting].indexOf(tell)
  }
}
