/** What was drawn in a span of time, as far as it was measured. */
export interface Measured {
  readonly joules: number
  /** How long was measured. */
  readonly ms: number
}

export interface PowerReading {
  /** Absent where it is not reported, or cannot be true. */
  readonly watts?: number | undefined
  /** When it was read, by a monotonic clock. */
  readonly atMs: number
  /** How often it is read. */
  readonly intervalMs: number
}

/** A sample that comes so many intervals after the one before says nothing of the time between: the machine slept, or the source hung. */
const longestGap = 3

const nothing: Measured = { joules: 0, ms: 0 }

/**
 * Joules out of samples of power. Each sample is the mean of the time since the one before, as powermetrics and macmon measure it, so that
 * watts times that time is the energy, however the power changed meanwhile. What is left of error is by how much a line is read late: it
 * moves energy from one sample to the next and is gone from the sum. The time before the first sample, without a figure, or in a gap counts
 * as not measured.
 */
export class EnergyMeter {
  #lastMs: number | undefined

  /** The energy since the sample before. */
  add({ watts, atMs, intervalMs }: PowerReading): Measured {
    const ms = this.#lastMs === undefined ? 0 : atMs - this.#lastMs
    this.#lastMs = atMs
    if (watts === undefined || !(watts >= 0 && watts < Infinity)) return nothing
    return ms > 0 && ms <= longestGap * intervalMs ? { joules: (watts * ms) / 1_000, ms } : nothing
  }

  /** No samples come any more: the next one begins anew. */
  stop(): void {
    this.#lastMs = undefined
  }
}
