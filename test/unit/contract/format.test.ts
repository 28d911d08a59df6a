import { expect, test } from 'vitest'
import { formatSpan } from '../../../src/contract/format.ts'

test.each([
  [-5_000, '0 s'],
  [59_999, '59 s'],
  [60_000, '1 min'],
  [3_599_999, '59 min'],
  [3_600_000, '1 h'],
  [12_000_000, '3 h 20 min'],
  [172_800_000, '2 days'],
])('%i ms are %s', (ms, words) => {
  expect(formatSpan(ms)).toBe(words)
})
