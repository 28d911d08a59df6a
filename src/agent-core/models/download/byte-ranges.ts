/** From the first byte to the one after the last. */
export type ByteRange = readonly [start: number, end: number]

/** The ranges with another one, sorted and merged. */
export function withRange(ranges: readonly ByteRange[], added: ByteRange): ByteRange[] {
  if (added[0] >= added[1]) return [...ranges]
  let [start, end] = added
  const apart: ByteRange[] = []
  for (const range of ranges) {
    if (range[1] < start || range[0] > end) apart.push(range)
    else {
      start = Math.min(start, range[0])
      end = Math.max(end, range[1])
    }
  }
  return [...apart, [start, end] as const].sort((a, b) => a[0] - b[0])
}

/** The first part of [0, end) that sorted and merged ranges leave out. */
export function firstGap(ranges: readonly ByteRange[], end: number): ByteRange | undefined {
  let start = 0
  for (const range of ranges) {
    if (range[0] > start) break
    start = Math.max(start, range[1])
  }
  if (start >= end) return undefined
  const next = ranges.find((range) => range[0] > start)
  return [start, Math.min(end, next?.[0] ?? end)]
}

export function coveredBytes(ranges: readonly ByteRange[]): number {
  return ranges.reduce((sum, [start, end]) => sum + end - start, 0)
}

/** How far sorted and merged ranges reach from 0 on without a gap. */
export function prefixLength(ranges: readonly ByteRange[]): number {
  const [first] = ranges
  return first?.[0] === 0 ? first[1] : 0
}

/** What of the ranges lies in [0, end). */
export function clipped(ranges: readonly ByteRange[], end: number): ByteRange[] {
  return ranges.filter(([start]) => start < end).map(([start, last]) => [start, Math.min(last, end)] as const)
}
