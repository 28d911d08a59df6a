import PQueue from 'p-queue'

/** Lets a few downloads run at a time, in the order in which they came. */
export class DownloadTurns {
  readonly #atOnce: () => number
  readonly #queue: PQueue
  /** In order; told their place whenever it may have changed. */
  readonly #waiting = new Set<(ahead: number) => void>()

  /** `atOnce` is asked at each new download. */
  constructor(atOnce: () => number) {
    this.#atOnce = atOnce
    this.#queue = new PQueue({ concurrency: atOnce() })
  }

  /** `onPlace`: how many downloads go first, each time that changes; not called where none does. Throws the signal's reason. */
  async take<T>(signal: AbortSignal, onPlace: (ahead: number) => void, work: () => Promise<T>): Promise<T> {
    const turn = { hasCome: false }
    this.#queue.concurrency = this.#atOnce()
    const leave = (): void => {
      if (!this.#waiting.delete(onPlace)) return
      this.#tellPlaces()
    }
    this.#waiting.add(onPlace)
    signal.addEventListener('abort', leave, { once: true })
    try {
      const done = this.#queue.add(
        async () => {
          turn.hasCome = true
          this.#waiting.delete(onPlace)
          signal.throwIfAborted()
          return await work()
        },
        { signal },
      )
      if (!turn.hasCome) onPlace(this.#ahead(onPlace))
      return await done
    } finally {
      signal.removeEventListener('abort', leave)
      leave()
      this.#tellPlaces()
    }
  }

  #tellPlaces(): void {
    for (const onPlace of this.#waiting) onPlace(this.#ahead(onPlace))
  }

  #ahead(onPlace: (ahead: number) => void): number {
    return this.#queue.pending + [...this.#waiting].indexOf(onPlace)
  }
}
