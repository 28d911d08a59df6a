export interface Statistics {
  readonly median: number
  readonly min: number
  readonly max: number
  readonly runs: number
}

/** Throws where there is no value. */
export function statisticsOf(values: readonly number[]): Statistics {
  const sorted = values.toSorted((a, b) => a - b)
  const [min, max] = [sorted.at(0), sorted.at(-1)]
  if (min === undefined || max === undefined) throw new Error('There is no median of nothing.')
  const middle = sorted.slice(Math.ceil(sorted.length / 2) - 1, Math.floor(sorted.length / 2) + 1)
  return { median: middle.reduce((sum, value) => sum + value, 0) / middle.length, min, max, runs: sorted.length }
}
