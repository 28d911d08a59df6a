import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { isShown, type AskedKey } from '../../../src/gateway/keys.ts'

const digest = (key: string): string => createHash('sha256').update(key).digest('hex')

test('what is shown is looked at for as long where nothing could fit, so that nobody learns which keys there are', () => {
  // Long enough that the look at it is all the time that there is.
  const [right, wrong] = ['a'.repeat(4_000_000), 'b'.repeat(4_000_000)]
  const asked: AskedKey = { key: digest(right), lastKey: undefined }
  const kinds: Record<string, [string, AskedKey | undefined]> = {
    right: [right, asked],
    wrong: [wrong, asked],
    'wrong, also for the one before': [wrong, { ...asked, lastKey: { sha256: digest('c'), until: 10 } }],
    'of nobody': [wrong, { key: 'nobody', lastKey: undefined }],
    'not known': [wrong, undefined],
  }
  const times = new Map<string, number[]>()
  for (let round = 0; round < 9; round += 1) {
    for (const [kind, [shown, what]] of Object.entries(kinds)) {
      const began = performance.now()
      expect(isShown(shown, what, 0)).toBe(kind === 'right')
      times.set(kind, [...(times.get(kind) ?? []), performance.now() - began])
    }
  }
  const medians = [...times.values()].map((one) => one.toSorted((a, b) => a - b)[4] ?? 0)
  // A look that is left out takes a thousandth of the time.
  expect(Math.max(...medians) / Math.min(...medians)).toBeLessThan(5)
})

test('nothing is nobody’s key', () => {
  expect(isShown('', { key: digest(''), lastKey: undefined }, 0)).toBe(false)
  expect(isShown('0'.repeat(64), undefined, 0)).toBe(false)
})
