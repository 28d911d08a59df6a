import { ModelError } from '../errors.ts'

/** A server that sends nothing for this long is taken for gone: slow disks and proxies answer well within it. */
export const downloadStallMs = 60_000

/** Slower than this over the same time is as good as nothing. */
const minBytesPerSecond = 1024

/** Ends a request whose server goes quiet or only drips. Time in which no read waits for the server does not count. */
export class PaceGuard {
  readonly #ending = new AbortController()
  readonly #stallMs: number
  readonly #shown: string
  readonly #timer: NodeJS.Timeout
  #waitingSince: number | undefined
  #windowMs = 0
  #windowBytes = 0

  constructor(stallMs: number, shown: string) {
    this.#stallMs = stallMs
    this.#shown = shown
    this.#timer = setInterval(() => this.#look(), Math.max(10, Math.min(1000, stallMs / 5)))
  }

  /** For the request; its reason is the error of the stall. */
  get signal(): AbortSignal {
    return this.#ending.signal
  }

  waiting(): void {
    this.#waitingSince = performance.now()
  }

  received(bytes: number): void {
    this.#windowMs += this.#waitedMs()
    this.#windowBytes += bytes
    this.#waitingSince = undefined
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    this.#ending.abort()
  }

  #waitedMs(): number {
    return this.#waitingSince === undefined ? 0 : performance.now() - this.#waitingSince
  }

  #look(): void {
    const waitedMs = this.#waitedMs()
    if (waitedMs >= this.#stallMs) this.#end('sent nothing')
    const windowMs = this.#windowMs + waitedMs
    if (windowMs < this.#stallMs) return
    if (this.#windowBytes < (minBytesPerSecond * windowMs) / 1000) this.#end(`sent only ${this.#windowBytes} bytes`)
    this.#windowMs = -waitedMs
    this.#windowBytes = 0
  }

  #end(what: string): void {
    const seconds = Math.round(this.#stallMs / 1000)
    this.#ending.abort(
      new ModelError('transient', 'Stalled', `${this.#shown} ${what} for ${seconds} s: the agent tries again.`),
    )
  }
}
