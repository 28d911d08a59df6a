import type { Platform } from '../platform/platform.ts'

/** A busy machine is late by less. */
const lateMs = 1_000
/** What stands still for longer slept: App Nap holds timers back by less. */
const sleptMs = 60_000
const ticksKept = 12
/** Fewer are a machine that was busy for a moment. */
const oftenLate = 4

const causes: Record<Platform['name'], string> = {
  darwin: 'macOS slows an app that it believes to be idle (App Nap), or this machine is overloaded.',
  linux: 'this machine is overloaded.',
}

/** Whether the timers of this agent come late again and again, as those of an app that macOS takes to be idle do (App Nap). */
export class LateTimers {
  readonly #system: Platform['name']
  #recent: readonly boolean[] = []

  constructor(system: Platform['name']) {
    this.#system = system
  }

  /** A tick came so much later than it was due; answers whether that is late. */
  tick(byMs: number): boolean {
    if (byMs > sleptMs) {
      this.slept()
      return false
    }
    const isLate = byMs > lateMs
    this.#recent = [...this.#recent, isLate].slice(-ticksKept)
    return isLate
  }

  /** What was before a sleep says nothing of the time after it. */
  slept(): void {
    this.#recent = []
  }

  /** A sentence while it is so. */
  get notice(): string | undefined {
    const late = this.#recent.filter(Boolean).length
    if (late < oftenLate) return undefined
    const often = `${late} of the last ${this.#recent.length} times`
    return (
      `Timers of this agent fired more than a second late ${often}: ${causes[this.#system]} ` +
      'Heartbeats and health checks are just as late.'
    )
  }
}
