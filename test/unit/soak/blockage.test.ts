import { expect, test } from 'vitest'
import { Blockage } from '../../soak/blockage.ts'

test('after an obstacle the agent has as long again to come back from its back-off, two seconds at least', () => {
  const blockage = new Blockage()
  expect(blockage.isClear(0)).toBe(true)
  blockage.begin(1_000)
  expect(blockage.isClear(5_000)).toBe(false)
  blockage.end(6_000)
  expect([blockage.isClear(10_999), blockage.isClear(11_000)]).toEqual([false, true])
  blockage.begin(20_000)
  blockage.end(20_100)
  expect([blockage.isClear(22_099), blockage.isClear(22_100)]).toEqual([false, true])
})

test('what is tried again every second has a second and a half to come back, however long the obstacle was there', () => {
  const blockage = new Blockage()
  expect(blockage.isUrgentlyClear(0)).toBe(true)
  blockage.begin(1_000)
  expect(blockage.isUrgentlyClear(5_000)).toBe(false)
  blockage.end(60_000)
  expect([blockage.isUrgentlyClear(61_499), blockage.isUrgentlyClear(61_500)]).toEqual([false, true])
})

test('obstacles at the same time, or close after another, count as one', () => {
  const blockage = new Blockage()
  blockage.begin(0)
  blockage.begin(2_000)
  blockage.end(3_000)
  expect(blockage.isClear(20_000)).toBe(false)
  blockage.end(4_000)
  blockage.begin(5_000)
  blockage.end(6_000)
  expect([blockage.isClear(11_999), blockage.isClear(12_000)]).toEqual([false, true])
})

test('no back-off is waited for longer than half a minute', () => {
  const blockage = new Blockage()
  blockage.begin(0)
  blockage.end(100_000)
  expect(blockage.isClear(130_000)).toBe(true)
})
