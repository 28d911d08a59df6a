import type { Progress } from '../../../contract/service.ts'

/** As often as a window or a terminal shows progress. */
const progressIntervalMs = 250

/** Reports at once and then at an interval, bytes or not, so that the rate of a stalled download falls. */
export class ProgressReport {
  readonly #now: () => number
  #doneBytes: () => number = () => 0
  readonly #onProgress: ((progress: Progress) => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #last: { doneBytes: number; at: number; rate: number | undefined } | undefined
  #totalBytes: number | undefined
  #message: string | undefined
  #phase: Progress['phase']
  /** In the phase `verifying`, in place of what arrived. */
  #verified: { doneBytes: number; totalBytes: number } | undefined

  constructor(now: () => number, onProgress: ((progress: Progress) => void) | undefined) {
    this.#now = now
    this.#onProgress = onProgress
  }

  /** Says from now on what has arrived. */
  follow(doneBytes: () => number): void {
    this.#doneBytes = doneBytes
  }

  /** Bytes arrive from now on. */
  downloading(totalBytes: number | undefined): void {
    if (this.#phase !== undefined || this.#last === undefined || this.#totalBytes !== totalBytes) {
      this.#begin(undefined, totalBytes)
    }
  }

  verifying(doneBytes: number, totalBytes: number): void {
    this.#verified = { doneBytes, totalBytes }
    if (this.#phase !== 'verifying') this.#begin('verifying', totalBytes)
  }

  waiting(message: string): void {
    this.#message = message
    this.#begin('waiting', this.#totalBytes)
  }

  /** Said with every report from now on, until something else is said. */
  say(message: string | undefined): void {
    this.#message = message
  }

  report(): void {
    const verified = this.#phase === 'verifying' ? this.#verified : undefined
    const doneBytes = verified?.doneBytes ?? this.#doneBytes()
    const totalBytes = verified?.totalBytes ?? this.#totalBytes
    const at = this.#now()
    const last = this.#last ?? { doneBytes, at, rate: undefined }
    const elapsedMs = at - last.at
    const rate = elapsedMs > 0 ? nextRate(last.rate, Math.max(0, doneBytes - last.doneBytes), elapsedMs) : last.rate
    this.#last = { doneBytes, at, rate }
    this.#onProgress?.({
      doneBytes,
      bytesPerSecond: Math.round(rate ?? 0),
      ...(totalBytes !== undefined && { totalBytes }),
      ...(this.#phase !== undefined && { phase: this.#phase }),
      ...(this.#message !== undefined && { message: this.#message }),
    })
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }

  #begin(phase: Progress['phase'], totalBytes: number | undefined): void {
    if (phase !== this.#phase) this.#last = undefined
    this.#phase = phase
    this.#totalBytes = totalBytes
    clearInterval(this.#timer)
    this.#timer = setInterval(() => this.report(), progressIntervalMs)
    this.report()
  }
}

/** Long enough to be readable, short enough to show that a download slowed down. */
const timeConstantMs = 3_000

/** The moving average after `bytes` more in `elapsedMs`, which is not 0: older samples fade with a time constant of 3 s. */
export function nextRate(previous: number | undefined, bytes: number, elapsedMs: number): number {
  const current = (bytes * 1000) / elapsedMs
  if (previous === undefined) return current
  return previous + (1 - Math.exp(-elapsedMs / timeConstantMs)) * (current - previous)
}
