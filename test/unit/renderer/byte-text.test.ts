import { expect, test } from 'vitest'
import { parseByteCount } from '../../../src/contract/format.ts'
import { byteTextOf, joinByteText, splitByteText } from '../../../src/renderer/settings-draft.ts'

test.each([
  [0, '0'],
  [1_234_567, '1234567'],
  [20 * 2 ** 20, '20Mi'],
  [24 * 2 ** 30, '24Gi'],
  [24e9, '24G'],
  [1_500_000, '1500k'],
  [1e13, '10T'],
])('%d bytes are %s, and read back as they were', (bytes, text) => {
  expect(byteTextOf(bytes)).toBe(text)
  expect(parseByteCount(text)).toBe(bytes)
})

test.each([
  ['24Gi', { amount: '24', unit: 'Gi' }],
  ['24G', { amount: '24', unit: 'G' }],
  ['1234567', { amount: '1234567', unit: '' }],
  ['0', { amount: '0', unit: undefined }],
  ['', { amount: '', unit: undefined }],
  ['muchM', { amount: 'much', unit: 'M' }],
])('%j is shown as its number and its unit', (text, parts) => expect(splitByteText(text)).toEqual(parts))

test.each([
  ['24', 'G', '24G'],
  ['24', '', '24'],
  ['', 'G', ''],
  [' 24 GiB ', 'M', '24Gi'],
  ['24Mi', 'G', '24Mi'],
  ['24 MB', 'G', '24M'],
  ['much', 'G', 'muchG'],
] as const)('%j written beside %j means %j', (written, unit, text) => expect(joinByteText(written, unit)).toBe(text))
