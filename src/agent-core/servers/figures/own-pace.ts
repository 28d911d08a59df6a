/** Requests of one server that were counted together; with one request at a time a single one. */
export interface Observation {
  /** Milliseconds of a clock that never goes back. */
  readonly at: number
  /** Digest of the server: with another model, quantisation or flag paces are not comparable. */
  readonly digest: string
  /** Tokens of prompt and answer together. */
  readonly contextTokens: number
  readonly generatedTokens: number
  readonly seconds: number
}

export interface Slowness {
  readonly perSecond: number
  /** What the same server reached before, in tokens per second. */
  readonly usual: number
}

/** Shorter answers are mostly overhead. */
const leastTokens = 64
/** Requests that come closer together count as one, so that a burst is not taken for a state. */
const apartMs = 15_000
/** So far apart, they are of a minute at least. */
const judgedBy = 5
const usualPercentile = 0.9
/** 30 % below what is usual. */
const slowShare = 0.7
/** Without a request for so long nothing is said about now. */
const saidForMs = 600_000
/** In tokens: generation slows with the context that it attends to. */
const bandEnds = [1_024, 4_096, 16_384, 65_536]
const maxPaces = 64
const maxEarlier = 100

interface Sample {
  readonly from: number
  generatedTokens: number
  seconds: number
}

interface Pace {
  readonly digest: string
  /** The latest, the oldest first. */
  readonly recent: Sample[]
  /** Tokens per second before those, the oldest first; none of the time in which it was slow. */
  readonly earlier: number[]
  lastAt: number
  slowness: Slowness | undefined
}

/**
 * Tells whether a model generates slower than it did itself, as a Mac that throttles for heat does whatever its system's level says: the
 * median of five requests over at least a minute against the 90th percentile of those before, for the same served digest and about the
 * same context.
 */
export class OwnPace {
  /** The latest used last. */
  readonly #paces = new Map<string, Pace>()

  add(observation: Observation): void {
    const { at, digest, generatedTokens, seconds } = observation
    if (generatedTokens < leastTokens || seconds <= 0) return
    const key = `${digest} ${bandOf(observation)}`
    const pace = this.#paces.get(key) ?? { digest, recent: [], earlier: [], lastAt: at, slowness: undefined }
    this.#paces.delete(key)
    this.#paces.set(key, pace)
    const [leastUsed] = this.#paces.keys()
    if (this.#paces.size > maxPaces && leastUsed !== undefined) this.#paces.delete(leastUsed)
    pace.lastAt = at
    const latest = pace.recent.at(-1)
    if (latest && at - latest.from < apartMs) {
      latest.generatedTokens += generatedTokens
      latest.seconds += seconds
    } else pace.recent.push({ from: at, generatedTokens, seconds })
    const oldest = pace.recent.length > judgedBy ? pace.recent.shift() : undefined
    if (oldest && !pace.slowness) pace.earlier.push(perSecondOf(oldest))
    if (pace.earlier.length > maxEarlier) pace.earlier.shift()
    pace.slowness = slownessOf(pace)
  }

  /** How slow the latest requests were; undefined if they were as fast as usual, or too few to tell. */
  slowness(digest: string, now: number): Slowness | undefined {
    const pace = [...this.#paces.values()].findLast((one) => one.digest === digest)
    return pace && now - pace.lastAt <= saidForMs ? pace.slowness : undefined
  }
}

const bandOf = ({ contextTokens }: Observation): number => bandEnds.filter((end) => contextTokens > end).length

const perSecondOf = ({ generatedTokens, seconds }: Sample): number => generatedTokens / seconds

function slownessOf({ recent, earlier }: Pace): Slowness | undefined {
  if (recent.length < judgedBy || earlier.length < judgedBy) return undefined
  const perSecond = percentile(recent.map(perSecondOf), 0.5)
  const usual = percentile(earlier, usualPercentile)
  return perSecond <= slowShare * usual ? { perSecond, usual } : undefined
}

/** The nearest rank. */
function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0
}
