/** The first amount of memory in a sentence, in bytes. */
export function parseGigabytes(sentence: string): number {
  const [, amount, unit = ''] = /(\d+(?:\.\d+)?) ([kMGT]?B)/.exec(sentence) ?? []
  const scale: Readonly<Record<string, number>> = { B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 }
  return Math.round(Number(amount) * (scale[unit] ?? Number.NaN))
}
