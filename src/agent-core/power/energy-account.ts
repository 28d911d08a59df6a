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

/** A sample that comes more than this many intervals late says nothing of the time before it: the machine slept, or the source hung. */
const longestGap = 3

const nothing: Measured = { joules: 0, ms: 0 }

/**
 * Turns samples of power into joules. Each sample is the mean of the time since the one before, as powermetrics and macmon measure it, so
 * watts times that time is the energy, however the power changed meanwhile. A line that is read late only moves energy from one sample to
 * the next. The time before the first sample, without a figure, or in a gap counts as not measured.
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

  /** No samples follow: the next one is a first sample again. */
  stop(): void {
    this.#lastMs = undefined
  }
}

/** What the servers of a service have counted; each figure only rises, and is absent where its runtime does not count it. */
export interface WorkTotals {
  readonly promptTokens?: number | undefined
  readonly generatedTokens?: number | undefined
  /** Runs of the model, each over one batch. */
  readonly decodes?: number | undefined
}

const workCounts = ['promptTokens', 'generatedTokens', 'decodes'] as const

/**
 * A prompt token takes about a tenth of the GPU time of a generated one, since prompt tokens are computed many at once: llama.cpp's table
 * for Apple silicon has 8 to 13 times as many of them a second (7B, Q4_0).
 */
const promptTokenWeight = 0.1

/**
 * How much of the GPU's time some work may have had, in generated tokens. llama-server counts generated tokens only when a request ends, and
 * runs of its model at once: these are known while a long answer is still written.
 */
export const weightOf = ({ promptTokens = 0, generatedTokens = 0, decodes }: WorkTotals): number =>
  (decodes ?? generatedTokens) + promptTokenWeight * promptTokens

/** Splits joules in proportion to the work; nothing where no service worked. The shares add up to the whole. */
export function sharesOf(joules: number, work: ReadonlyMap<string, WorkTotals>): Map<string, number> {
  const weights = [...work].map(([key, done]) => [key, weightOf(done)] as const).filter(([, weight]) => weight > 0)
  const sum = weights.reduce((total, [, weight]) => total + weight, 0)
  return new Map(weights.map(([key, weight]) => [key, joules * (weight / sum)]))
}

/** What was counted between two looks. A total that fell has started again at 0. */
function risesOf(now: WorkTotals, before: WorkTotals = {}): WorkTotals {
  const rises = workCounts.flatMap((name) => {
    const [from = 0, to] = [before[name], now[name]]
    return to === undefined ? [] : [[name, to >= from ? to - from : to] as const]
  })
  return Object.fromEntries(rises)
}

/** What was drawn in a span of time. */
export interface Spending {
  /** By CPU, GPU and ANE, other programs included. */
  readonly measured: Measured
  /** The estimated share of each service in joules, by key. The rest is the machine's own. */
  readonly services: ReadonlyMap<string, number>
}

/** A sample below this multiple of what the machine drew while no service worked is not work of a service. */
const workIsAbove = 1.25
/** Eight minutes at the shortest interval; beyond that the samples are added up into one. */
const maxSamples = 1_000

/**
 * Gives the energy between two looks at the services' work to those that worked. Where none worked it is the machine's own, and so are
 * samples no higher than that: the look before may be a minute ago, and a request may take a second of it.
 */
export class EnergyAccount {
  #samples: Measured[] = []
  #totals: ReadonlyMap<string, WorkTotals> = new Map()
  #closedAtMs: number
  /** What the machine drew when it was last measured while no service worked. */
  #ownWatts: number | undefined

  /** Times are by a monotonic clock; totals count from now on. */
  constructor(nowMs: number) {
    this.#closedAtMs = nowMs
  }

  add(sample: Measured): void {
    if (this.#samples.length >= maxSamples) this.#samples = [sum(this.#samples)]
    this.#samples.push(sample)
  }

  get closedAtMs(): number {
    return this.#closedAtMs
  }

  /** Closes the span since the call before. Not complete: some servers did not answer, so what was drawn may be for unknown work. */
  close(totals: ReadonlyMap<string, WorkTotals>, nowMs: number, isComplete = true): Spending {
    const work = new Map([...totals].map(([key, now]) => [key, risesOf(now, this.#totals.get(key))] as const))
    const samples = this.#samples
    const measured = sum(samples)
    this.#totals = new Map(totals)
    this.#samples = []
    this.#closedAtMs = nowMs
    const hasWork = [...work.values()].some((done) => weightOf(done) > 0)
    if (isComplete && !hasWork && measured.ms > 0) this.#ownWatts = wattsOf(measured)
    const shares = sharesOf(this.#workIn(samples).joules, work)
    return { measured, services: new Map([...work.keys()].map((key) => [key, shares.get(key) ?? 0])) }
  }

  #workIn(samples: readonly Measured[]): Measured {
    const own = this.#ownWatts
    const above = own === undefined ? samples : samples.filter((sample) => wattsOf(sample) > workIsAbove * own)
    return sum(above.length === 0 ? samples : above)
  }
}

const wattsOf = ({ joules, ms }: Measured): number => (joules * 1_000) / ms

const sum = (samples: readonly Measured[]): Measured =>
  samples.reduce((total, { joules, ms }) => ({ joules: total.joules + joules, ms: total.ms + ms }), nothing)
