import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  type ByteRange,
  clipped,
  coveredBytes,
  firstGap,
  prefixLength,
  withRange,
} from '../../../../src/agent-core/models/download/partial-file.ts'

const size = 40
const range = fc.tuple(fc.nat(size), fc.nat(size)).map(([a, b]): ByteRange => [Math.min(a, b), Math.max(a, b)])

test('ranges agree with a plain map of the bytes, whatever is added in whatever order', () => {
  fc.assert(
    fc.property(fc.array(range, { maxLength: 12 }), fc.nat(size), (added, end) => {
      const bytes = new Set<number>()
      for (const [start, last] of added) for (let at = start; at < last; at += 1) bytes.add(at)
      const ranges = added.reduce<readonly ByteRange[]>(withRange, [])
      const missing = Array.from({ length: end }, (_, at) => at).filter((at) => !bytes.has(at))
      const gapStart = missing[0]
      const afterGap = Array.from({ length: end }, (_, at) => at).find((at) => at > (gapStart ?? end) && bytes.has(at))
      let prefix = 0
      while (bytes.has(prefix)) prefix += 1
      expect({
        covered: coveredBytes(ranges),
        prefix: prefixLength(ranges),
        gap: firstGap(ranges, end),
        clipped: coveredBytes(clipped(ranges, end)),
      }).toEqual({
        covered: bytes.size,
        prefix,
        gap: gapStart === undefined ? undefined : [gapStart, afterGap ?? end],
        clipped: [...bytes].filter((at) => at < end).length,
      })
    }),
  )
})
