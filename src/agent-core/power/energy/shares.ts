/** What the servers of a service have counted; each figure only rises, and is absent where its runtime does not count it. */
export interface WorkTotals {
  readonly promptTokens?: number | undefined
  readonly generatedTokens?: number | undefined
  readonly requests?: number | undefined
  /** Runs of the model, each over one batch. */
  readonly decodes?: number | undefined
}

/** What a service did in a span of time. */
export type Work = WorkTotals

const counts = ['promptTokens', 'generatedTokens', 'requests', 'decodes'] as const

/**
 * A token of a prompt takes about a tenth of the GPU time of a generated one, since those of a prompt are computed many at once: llama.cpp's
 * table for Apple silicon has 8 to 13 times as many of them a second (7B, Q4_0).
 */
const promptTokenWeight = 0.1

/**
 * How much of the GPU's time a service may have had, in generated tokens. llama-server counts generated tokens only when a request ends,
 * runs of its model at once: of a long answer these are known while it is written.
 */
export const weightOf = ({ promptTokens = 0, generatedTokens = 0, decodes }: Work): number =>
  (decodes ?? generatedTokens) + promptTokenWeight * promptTokens

/** Splits joules in proportion to the work; nothing where no service worked. The sum of the shares is the whole. */
export function sharesOf(joules: number, work: ReadonlyMap<string, Work>): Map<string, number> {
  const weights = [...work].map(([key, done]) => [key, weightOf(done)] as const).filter(([, weight]) => weight > 0)
  const sum = weights.reduce((total, [, weight]) => total + weight, 0)
  return new Map(weights.map(([key, weight]) => [key, joules * (weight / sum)]))
}

/** What was counted between two looks. Totals begin at 0, and what fell began anew. */
export function workBetween(
  before: ReadonlyMap<string, WorkTotals>,
  now: ReadonlyMap<string, WorkTotals>,
): Map<string, Work> {
  return new Map([...now].map(([key, totals]) => [key, risesOf(totals, before.get(key) ?? {})]))
}

function risesOf(now: WorkTotals, before: WorkTotals): Work {
  const rises = counts.flatMap((name) => {
    const [from = 0, to] = [before[name], now[name]]
    return to === undefined ? [] : [[name, to >= from ? to - from : to] as const]
  })
  return Object.fromEntries(rises)
}
