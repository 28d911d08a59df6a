import type { Measured } from './energy-meter.ts'
import { sharesOf, weightOf, workBetween, type Work, type WorkTotals } from './shares.ts'

/** What one service did, and its share of the energy: an estimate. */
export interface ServiceSpending extends Omit<Work, 'decodes'> {
  readonly joules: number
  /** Of the generated tokens those that the energy belongs to: some are generated while nothing is measured. */
  readonly measuredTokens?: number | undefined
}

/** What was drawn and done in a span of time. */
export interface Spending {
  /** Of CPU, GPU and ANE, other programs included. The shares of the services are part of it; the rest is the machine's own. */
  readonly measured: Measured
  /** By key. */
  readonly services: ReadonlyMap<string, ServiceSpending>
}

/** A sample below so many times what the machine drew when no service worked is no work of a service. */
const workIsAbove = 1.25
/** Eight minutes at the shortest interval; older samples are one. */
const maxSamples = 1_000

/**
 * Gives the energy between two looks at the services' work to those that worked. Where none did it is the machine's own, and so are
 * samples that are no higher than that: a look may be a minute after the one before, and a request in it take a second.
 */
export class EnergyAccount {
  #samples: Measured[] = []
  #totals: ReadonlyMap<string, WorkTotals> = new Map()
  #closedAtMs: number
  /** How much longer the samples were than the spans they came in. */
  #aheadMs = 0
  /** What the machine drew when it was last measured while no service worked. */
  #ownWatts: number | undefined

  /** Times are by a monotonic clock; totals count from now on. */
  constructor(nowMs: number) {
    this.#closedAtMs = nowMs
  }

  add(sample: Measured): void {
    if (this.#samples.length >= maxSamples) this.#samples = [sum(this.#samples)]
    if (sample.ms > 0) this.#samples.push(sample)
  }

  get closedAtMs(): number {
    return this.#closedAtMs
  }

  /** Closes the span since the call before. Where work is not known as a whole, what was drawn in it may be that of work. */
  close(totals: ReadonlyMap<string, WorkTotals>, nowMs: number, isComplete = true): Spending {
    const work = workBetween(this.#totals, totals)
    const samples = this.#samples
    const measured = sum(samples)
    const measuredPart = this.#measuredPart(measured.ms, Math.max(1, nowMs - this.#closedAtMs))
    this.#totals = new Map(totals)
    this.#samples = []
    this.#closedAtMs = nowMs
    const hasWork = [...work.values()].some((done) => weightOf(done) > 0)
    if (isComplete && !hasWork && measured.ms > 0) this.#ownWatts = wattsOf(measured)
    const shares = sharesOf(this.#workIn(samples).joules, work)
    const services = [...work].map(([key, { promptTokens, generatedTokens, requests }]) => {
      const measuredTokens = generatedTokens === undefined ? undefined : generatedTokens * measuredPart
      const joules = shares.get(key) ?? 0
      return [key, { joules, promptTokens, generatedTokens, requests, measuredTokens }] as const
    })
    return { measured, services: new Map(services) }
  }

  /** Looks and samples come at times of their own: what was measured beyond one span belongs to the next. */
  #measuredPart(measuredMs: number, spanMs: number): number {
    const knownMs = measuredMs === 0 ? 0 : measuredMs + this.#aheadMs
    this.#aheadMs = Math.min(measuredMs, Math.max(0, knownMs - spanMs))
    return Math.min(1, knownMs / spanMs)
  }

  #workIn(samples: readonly Measured[]): Measured {
    const own = this.#ownWatts
    const above = own === undefined ? samples : samples.filter((sample) => wattsOf(sample) > workIsAbove * own)
    return sum(above.length === 0 ? samples : above)
  }
}

const wattsOf = ({ joules, ms }: Measured): number => (joules * 1_000) / ms

const sum = (samples: readonly Measured[]): Measured =>
  samples.reduce((total, { joules, ms }) => ({ joules: total.joules + joules, ms: total.ms + ms }), {
    joules: 0,
    ms: 0,
  })
