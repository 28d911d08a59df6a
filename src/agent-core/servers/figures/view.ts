import { formatDecimal, formatShare, formatTokenRate } from '../../../contract/format.ts'
import type { RuntimeFigures } from '../../../contract/service.ts'
import type { RuntimeCounters } from '../activity.ts'
import type { Slowness } from './own-pace.ts'

interface Known {
  readonly counters: RuntimeCounters
  readonly rates: { readonly prompt?: number; readonly generation?: number }
  readonly lastRequestAt: string | undefined
  readonly slowness: Slowness | undefined
}

/** As people are shown it. */
export function figuresOf({ counters, rates, lastRequestAt, slowness }: Known): RuntimeFigures {
  const { requestsRunning, requestsWaiting, kvUse } = counters
  return {
    state: 'reported',
    ...(rates.prompt !== undefined && { promptTokensPerSecond: tenths(rates.prompt) }),
    ...(rates.generation !== undefined && { generatedTokensPerSecond: tenths(rates.generation) }),
    ...(requestsRunning !== undefined && { requestsRunning: Math.round(requestsRunning) }),
    ...(requestsWaiting !== undefined && { requestsWaiting: Math.round(requestsWaiting) }),
    ...(kvUse !== undefined && { kvUse: Math.round(kvUse * 1_000) / 1_000 }),
    ...(lastRequestAt !== undefined && { lastRequestAt }),
    ...(slowness && { slow: slowSentence(slowness) }),
  }
}

/** So that it stays the same while nothing changes that a person can tell. */
const tenths = (rate: number): number => Math.round(rate * 10) / 10

const slowSentence = ({ perSecond, usual }: Slowness): string =>
  `Generates ${formatTokenRate(perSecond)}, ${formatShare(1 - perSecond / usual)} less than the ${formatDecimal(usual)} it reached before: this machine may be too hot, or something else uses its GPU.`
