/**
 * How long each heartbeat value has stood still, on this machine's monotonic clock. Time in which the watch is
 * down does not count, since no heartbeat can arrive then. The count goes on where it was afterwards: a watch that is opened again
 * brings the heartbeats that came meanwhile.
 */
export class HeartbeatWatch {
  readonly #now: () => number
  /** `since` is on the clock of {@link HeartbeatWatch.#heardMs}. */
  readonly #seen = new Map<string, { value: string; since: number }>()
  /** Time with a live watch before the present one. */
  #heardBeforeMs = 0
  /** Undefined = the watch is down. */
  #liveSince: number | undefined

  constructor({ monotonicNow }: { readonly monotonicNow: () => number }) {
    this.#now = monotonicNow
    this.#liveSince = monotonicNow()
  }

  /** `alreadySilentMs` counts only where the key was never seen before: what the server's own stamps prove at a start. */
  observe(key: string, value: string, alreadySilentMs = 0): void {
    const known = this.#seen.get(key)
    if (known?.value === value) return
    this.#seen.set(key, { value, since: this.#heardMs() - (known ? 0 : Math.max(0, alreadySilentMs)) })
  }

  hasSeen(key: string): boolean {
    return this.#seen.has(key)
  }

  /** 0 for a holder that was never observed, and while the watch is down: no heartbeat could reach us then. */
  silentMs(key: string): number {
    const known = this.#seen.get(key)
    return known && this.#liveSince !== undefined ? this.#heardMs() - known.since : 0
  }

  /** For an unknown time nothing could be heard, and the clock ran on (sleep): every wait starts over. */
  watchGap(): void {
    for (const known of this.#seen.values()) known.since = this.#heardMs()
  }

  get isLive(): boolean {
    return this.#liveSince !== undefined
  }

  setLive(live: boolean): void {
    if (live) {
      this.#liveSince ??= this.#now()
      return
    }
    this.#heardBeforeMs = this.#heardMs()
    this.#liveSince = undefined
  }

  forget(key: string): void {
    this.#seen.delete(key)
  }

  #heardMs(): number {
    return this.#heardBeforeMs + (this.#liveSince === undefined ? 0 : this.#now() - this.#liveSince)
  }
}
