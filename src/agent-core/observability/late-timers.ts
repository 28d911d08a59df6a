/** A busy machine is late by less. */
const lateMs = 1_000
/** Of the last minute, where a tick comes every five seconds. */
const ticksKept = 12
/** Fewer are a machine that was busy for a moment. */
const oftenLate = 4

/** Whether the timers of this agent come late again and again, as those of an app that macOS takes to be idle do (App Nap). */
export class LateTimers {
  #recent: readonly boolean[] = []

  /** A tick came so much later than it was due; answers whether that is late. */
  tick(byMs: number): boolean {
    const isLate = byMs > lateMs
    this.#recent = [...this.#recent, isLate].slice(-ticksKept)
    return isLate
  }

  /** A sentence while it is so. */
  get notice(): string | undefined {
    const late = this.#recent.filter(Boolean).length
    if (late < oftenLate) return undefined
    return (
      `Timers of this agent came more than a second late ${late} times within the last minute: macOS slows an app that it takes to be idle ` +
      '(App Nap), or this machine is overloaded. Heartbeats and health checks come as late.'
    )
  }
}
