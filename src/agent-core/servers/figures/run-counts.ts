import type { RuntimeCounters } from '../probe.ts'

/** The counters that only rise while a server runs. */
const risingCounters = [
  'promptTokens',
  'promptSeconds',
  'cachedTokens',
  'generatedTokens',
  'generationSeconds',
  'decodes',
] as const

/** What is not counted is absent. */
export type RisingCounts = Pick<RuntimeCounters, (typeof risingCounters)[number]>

/** What all servers of a service have counted since the agent began; only ever rises. */
export type RuntimeTotals = RisingCounts

export function addTo(totals: RuntimeTotals, more: RisingCounts): RuntimeTotals {
  const sums = risingCounters.flatMap((name) => {
    const [known, added] = [totals[name], more[name]]
    return known === undefined && added === undefined ? [] : [[name, (known ?? 0) + (added ?? 0)] as const]
  })
  return Object.fromEntries(sums)
}

/** What one server said of its work. Times are milliseconds of a clock that never goes back. */
export interface Reading {
  readonly counters: RuntimeCounters
  readonly askedAt: number
  readonly at: number
}

/** What was counted between two readings of one server; what it does not count is absent. */
export interface Stretch extends RisingCounts {
  readonly from: number
  readonly at: number
  /** A single request at a time was worked on in all of it. */
  readonly isOneRequest: boolean
  /** Tokens of the prompts and answers of the requests that ended in this stretch. */
  readonly contextTokens: number
}

interface Rate {
  readonly perSecond: number
  readonly at: number
}

/** Over a longer one a rate says nothing about now. */
const longestStretchMs = 300_000
/** How long a rate is shown after the work that it was measured over. */
const rateShownMs = 30_000
/** Shorter, and how long the answers took on their way shows in the rate. */
const leastLiveMs = 1_000
const leastLiveDecodes = 8
/** The mean of slots is told with six digits, so that a difference of two is a little off. */
const oneSlot = { from: 0.9, to: 1.1 }

/** The work of one server, from the readings of its counters. */
export class RunCounts {
  #last: Reading | undefined
  #prompt: Rate | undefined
  #generation: Rate | undefined
  #movedAt: number | undefined
  /** One request runs, and its prompt is read: from here on each decode is a token. */
  #isGenerating = false
  /** Tokens of the requests that have not ended. */
  #contextTokens = 0

  get last(): Reading | undefined {
    return this.#last
  }

  /** When the counters last rose, as far as they were read. */
  get movedAt(): number | undefined {
    return this.#movedAt
  }

  /**
   * Answers with what was counted since the reading before. Undefined for the first reading, and for one that was asked for before the
   * last one came: the answers may have come in another order.
   */
  add(reading: Reading): Stretch | undefined {
    const before = this.#last
    if (before && reading.askedAt < before.at) return undefined
    this.#last = reading
    if (!before) return undefined
    const stretch = this.#stretch(before, reading)
    if (hasMoved(stretch)) this.#movedAt = stretch.at
    if (stretch.at - stretch.from <= longestStretchMs) this.#measure(stretch, before, reading)
    return stretch
  }

  /** Tokens per second, of what was worked on lately. */
  rates(now: number): { readonly prompt?: number; readonly generation?: number } {
    const [prompt, generation] = [this.#prompt, this.#generation].map((rate) =>
      rate && now - rate.at <= rateShownMs ? rate.perSecond : undefined,
    )
    return { ...(prompt !== undefined && { prompt }), ...(generation !== undefined && { generation }) }
  }

  #stretch(before: Reading, after: Reading): Stretch {
    const counted = risesBetween(before, after)
    const { promptTokens = 0, cachedTokens = 0, generatedTokens = 0 } = counted
    const contextTokens = this.#contextTokens + promptTokens + cachedTokens + generatedTokens
    this.#contextTokens = generatedTokens > 0 ? 0 : contextTokens
    return { ...counted, from: before.at, at: after.at, isOneRequest: isOneRequest(before, after), contextTokens }
  }

  #measure(stretch: Stretch, before: Reading, after: Reading): void {
    const { at, promptTokens, promptSeconds, generatedTokens, generationSeconds } = stretch
    const prompt = perSecond(promptTokens, promptSeconds)
    if (prompt !== undefined) this.#prompt = { perSecond: prompt, at }
    const generation = perSecond(generatedTokens, generationSeconds) ?? this.#live(stretch, before, after)
    if (generation !== undefined) this.#generation = { perSecond: generation, at }
  }

  /** llama-server counts generated tokens when a request ends: during a long request its calls of llama_decode tell how fast it is. */
  #live({ from, at, ...counted }: Stretch, before: Reading, after: Reading): number | undefined {
    const isAlone = before.counters.requestsRunning === 1 && after.counters.requestsRunning === 1
    const hasRead = (counted.promptTokens ?? 0) > 0
    const hasDrafted = (after.counters.draftedTokens ?? 0) > 0
    const wasGenerating = this.#isGenerating
    this.#isGenerating =
      after.counters.requestsRunning === 1 && (counted.generatedTokens ?? 0) === 0 && (hasRead || wasGenerating)
    if (!isAlone || !wasGenerating || !this.#isGenerating || hasRead || hasDrafted) return undefined
    const { decodes = 0 } = counted
    return at - from < leastLiveMs || decodes < leastLiveDecodes ? undefined : decodes / ((at - from) / 1_000)
  }
}

/** A counter that went down was reset: its whole value came since. */
function risesBetween(before: Reading, after: Reading): RisingCounts {
  const rises = risingCounters.flatMap((name) => {
    const [from, to] = [before.counters[name], after.counters[name]]
    return from === undefined || to === undefined ? [] : [[name, to >= from ? to - from : to] as const]
  })
  return Object.fromEntries(rises)
}

const hasMoved = ({ promptTokens = 0, cachedTokens = 0, generatedTokens = 0, decodes = 0 }: Stretch): boolean =>
  promptTokens + cachedTokens + generatedTokens + decodes > 0

function isOneRequest({ counters: before }: Reading, { counters: after }: Reading): boolean {
  if ((before.requestsRunning ?? 0) > 1 || (after.requestsRunning ?? 0) > 1) return false
  const decodes = (after.decodes ?? 0) - (before.decodes ?? 0)
  if (decodes <= 0 || before.slotsPerDecode === undefined || after.slotsPerDecode === undefined) return false
  const slots = (after.decodes ?? 0) * after.slotsPerDecode - (before.decodes ?? 0) * before.slotsPerDecode
  return slots / decodes >= oneSlot.from && slots / decodes <= oneSlot.to
}

const perSecond = (tokens = 0, seconds = 0): number | undefined =>
  tokens > 0 && seconds > 0 ? tokens / seconds : undefined
