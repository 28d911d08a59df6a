import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseQuantity } from '../../../src/agent-core/memory/budget.ts'

test.each([
  ['24Gi', 24 * 2 ** 30],
  ['24G', 24_000_000_000],
  ['1.5e9', 1_500_000_000],
  ['1.5E9', 1_500_000_000],
  ['2E', undefined],
  ['1e3', 1000],
  ['1024', 1024],
  ['0.1Gi', 107_374_183],
  ['.5Ki', 512],
  ['5.', 5],
  ['100k', 100_000],
  ['500m', 1],
  ['1500m', 2],
  ['2000m', 2],
  ['3u', 1],
  ['+1Mi', 2 ** 20],
  ['-1Mi', -(2 ** 20)],
  ['-1500m', -1],
  ['-500m', 0],
  ['1.1e9', 1_100_000_000],
  ['1e-3', 1],
  ['0', 0],
])('%s', (text, bytes) => {
  expect(parseQuantity(text)).toBe(bytes)
})

test.each([
  '',
  ' ',
  '24 Gi',
  ' 24Gi',
  '24Gi ',
  '24gi',
  '24GB',
  '24GiB',
  'Gi',
  '1K',
  '1e',
  '1e3k',
  '1,5Gi',
  '0x10',
  'NaN',
  'Infinity',
  '1e999',
  '9Pi9',
  '٣',
])('%j is no quantity', (text) => {
  expect(parseQuantity(text)).toBeUndefined()
})

test('any whole number with any suffix stands for itself times the suffix', () => {
  const suffixes = { '': 1, k: 1e3, M: 1e6, G: 1e9, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30 } as const
  const suffix = fc.constantFrom(...(Object.keys(suffixes) as (keyof typeof suffixes)[]))
  fc.assert(
    fc.property(fc.nat(8_000_000), suffix, (count, name) => {
      expect(parseQuantity(`${count}${name}`)).toBe(count * suffixes[name])
    }),
  )
})
