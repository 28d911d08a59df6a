/** How long each heartbeat value has stood still, on this machine's monotonic clock and only while its watch was live. */
export class HeartbeatWatch {
  readonly #now: () => number
  readonly #seen = new Map<string, { value: string; since: number }>()
  #live = true

  constructor({ monotonicNow }: { readonly monotonicNow: () => number }) {
    this.#now = monotonicNow
  }

  /** `alreadySilentMs` counts only where the key was never seen before: what the server's own stamps prove at a start. */
  observe(key: string, value: string, alreadySilentMs = 0): void {
    const known = this.#seen.get(key)
    if (known?.value === value) return
    this.#seen.set(key, { value, since: this.#now() - (known ? 0 : Math.max(0, alreadySilentMs)) })
  }

  hasSeen(key: string): boolean {
    return this.#seen.has(key)
  }

  /** 0 for what was never observed, and while the watch is down: silence there is our own deafness. */
  silentMs(key: string): number {
    const known = this.#seen.get(key)
    return known && this.#live ? this.#now() - known.since : 0
  }

  /** Heartbeats may have been missed (relist, sleep): every wait starts over. */
  watchGap(): void {
    for (const known of this.#seen.values()) known.since = this.#now()
  }

  setLive(live: boolean): void {
    if (live && !this.#live) this.watchGap()
    this.#live = live
  }

  forget(key: string): void {
    this.#seen.delete(key)
  }
}
