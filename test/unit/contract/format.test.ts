import { expect, test } from 'vitest'
import {
  formatBytes,
  formatCount,
  formatDay,
  formatDecimal,
  formatMemory,
  formatMoment,
  formatNumber,
  formatRoundWatts,
  formatShare,
  formatSpan,
  formatTime,
  formatTokenRate,
  formatTokens,
  formatWeights,
} from '../../../src/contract/format.ts'

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

test.each([
  [0, '0 B'],
  [996, '996 B'],
  [999.6, '1.0 kB'],
  [4_120_000_000, '4.1 GB'],
  [99_960_000_000, '100 GB'],
  [999_960_000, '1.0 GB'],
  [2_500_000_000_000_000, '2,500 TB'],
])('%d bytes are %s', (bytes, words) => {
  expect(formatBytes(bytes)).toBe(words)
})

test.each([
  [formatCount(131_072), '131,072'],
  [formatNumber(-1_234_567.891_25), '-1,234,567.891'],
  [formatNumber(0.32), '0.32'],
  [formatDecimal(52.34), '52.3'],
  [formatDecimal(99.96), '100'],
  [formatTokens(1), '1 token'],
  [formatTokens(8_192), '8,192 tokens'],
  [formatTokenRate(1_024.4), '1,024 tok/s'],
  [formatShare(0.366), '37 %'],
  [formatMemory(96e9), '96.0 GB (89.4 GiB)'],
  [formatWeights(3.82e9), '3.8B'],
  [formatWeights(8.03e9), '8B'],
  [formatWeights(361e6), '361M'],
  [formatRoundWatts(1.52), '1.5 W'],
  [formatRoundWatts(41.2), '41 W'],
])('a figure reads %s', (text, words) => {
  expect(text).toBe(words)
})

test('times are of 24 hours, and the day is named where it is another one', () => {
  const now = new Date(2026, 0, 2, 15, 0)
  expect([
    formatTime(new Date(2026, 0, 2, 0, 5)),
    formatDay(now),
    formatMoment(new Date(2026, 0, 2, 14, 5), now),
    formatMoment(new Date(2026, 0, 1, 23, 59), now),
  ]).toEqual(['00:05', 'Friday 2 January', '14:05', '1 January, 23:59'])
})
