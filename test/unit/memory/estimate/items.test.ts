import { expect, test } from 'vitest'
import { estimateOf, type MemoryItems } from '../../../../src/agent-core/memory/estimate/items.ts'

const items: MemoryItems = { weights: 100, kv: 20.2, compute: 10, promptCache: 5, mmproj: 0, overhead: 1 }

test('the total is that of all items, each rounded up to a byte', () => {
  expect(estimateOf(items, { notes: [] })).toEqual({ items: { ...items, kv: 21 }, total: 137, notes: [] })
})

test.each([
  ['less than nothing', { kv: -1 }],
  ['less than nothing, though all together take something', { weights: 1e9, compute: -5 }],
  ['no number', { kv: NaN }],
  ['without end', { kv: Infinity }],
  ['more than can be counted', { weights: Number.MAX_SAFE_INTEGER }],
])('an item that is %s is refused', (_, changes) => {
  expect(() => estimateOf({ ...items, ...changes }, { notes: [] })).toThrow(/^The header of the model is wrong/)
})
