/** What may arrive at once after a pause. */
const burstMs = 250

/** A limit that all downloads share: a download that received bytes waits until they fit into it. */
export class Bandwidth {
  #bytesPerSecond = 0
  #takenBytes = 0
  readonly #now: () => number
  /** When all that was taken is paid for. */
  #paidAt = 0
  #waiting: { readonly bytes: number; readonly go: () => void }[] = []
  #timer: NodeJS.Timeout | undefined

  /** Bytes per second; 0 or undefined = no limit. */
  constructor(bytesPerSecond?: number, { now = () => performance.now() }: { now?: () => number } = {}) {
    this.#now = now
    this.limit(bytesPerSecond)
  }

  get bytesPerSecond(): number | undefined {
    return this.#bytesPerSecond === 0 ? undefined : this.#bytesPerSecond
  }

  /** All that downloads have received. */
  get takenBytes(): number {
    return this.#takenBytes
  }

  /** Takes effect at once, also for downloads that wait. */
  limit(bytesPerSecond: number | undefined): void {
    this.#bytesPerSecond = Math.max(0, bytesPerSecond ?? 0)
    this.#paidAt = this.#now()
    this.#serve()
  }

  /** Waits, first come first served, until so many bytes may go; undefined = they may now. Rejects with the signal's reason. */
  take(bytes: number, signal: AbortSignal): Promise<void> | undefined {
    this.#takenBytes += bytes
    if (this.#bytesPerSecond === 0) return undefined
    if (this.#waiting.length === 0 && this.#mayGo()) {
      this.#pay(bytes)
      return undefined
    }
    const { promise, resolve, reject } = Promise.withResolvers<undefined>()
    const waiting = { bytes, go: () => resolve(undefined) }
    const leave = (): void => {
      this.#waiting = this.#waiting.filter((other) => other !== waiting)
      reject(signal.reason)
    }
    if (signal.aborted) {
      leave()
      return promise
    }
    signal.addEventListener('abort', leave, { once: true })
    this.#waiting.push(waiting)
    this.#serve()
    return promise.finally(() => signal.removeEventListener('abort', leave))
  }

  #mayGo(): boolean {
    return this.#bytesPerSecond === 0 || this.#paidAt <= this.#now()
  }

  #pay(bytes: number): void {
    if (this.#bytesPerSecond === 0) return
    this.#paidAt = Math.max(this.#paidAt, this.#now() - burstMs) + (bytes * 1000) / this.#bytesPerSecond
  }

  #serve(): void {
    clearTimeout(this.#timer)
    while (this.#waiting.length > 0 && this.#mayGo()) {
      const next = this.#waiting.shift()
      this.#pay(next?.bytes ?? 0)
      next?.go()
    }
    if (this.#waiting.length > 0) this.#timer = setTimeout(() => this.#serve(), Math.ceil(this.#paidAt - this.#now()))
  }
}
