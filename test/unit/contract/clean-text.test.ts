import { describe, expect, test } from 'vitest'
import { cleanLines, cleanText, cleanTexts, cutText } from '../../../src/contract/clean-text.ts'

test.each([
  ['plain text, as it is', 'plain text, as it is'],
  ['ünïcode ✓ 漢字 👩‍👩‍👧', 'ünïcode ✓ 漢字 👩‍👩‍👧'],
  ['a\u001b[2Jb', 'a [2Jb'],
  ['a\r\n\tb\u0007\u0000c', 'a b c'],
  ['csi\u009b31mred', 'csi 31mred'],
  ['gpj.\u202eexe', 'gpj. exe'],
  ['\u2066isolate\u2069 \u200fmark\u2028line\u061c', ' isolate   mark line '],
])('%j is told as %j', (text, told) => {
  expect(cleanText(text)).toBe(told)
})

test('lines keep their ends and tabs, and nothing else that steers', () => {
  expect(cleanLines('a\tb\nc\r\u001b[2J\u202ed')).toBe('a\tb\nc [2J d')
})

test('every text in an answer is cleaned, however deep', () => {
  const answer = { message: 'a\u001bb', rows: [{ n: 1, lines: ['\u202ex', null, true] }], none: undefined }
  expect(cleanTexts(answer)).toEqual({ message: 'a b', rows: [{ n: 1, lines: [' x', null, true] }], none: undefined })
})

describe('a text that is cut', () => {
  const bytes = (text: string) => Buffer.byteLength(text)

  test.each(['x'.repeat(5_000), '漢'.repeat(5_000), '👩'.repeat(5_000), `${'x'.repeat(98)}漢漢`])(
    'is no longer than it may be, and whole in its characters',
    (text) => {
      const cut = cutText(text, 100)
      expect(bytes(cut)).toBeLessThanOrEqual(100)
      expect(bytes(cut)).toBeGreaterThan(92)
      expect(cut.endsWith('…')).toBe(true)
      expect(text.startsWith(cut.slice(0, -1))).toBe(true)
      expect(cut.isWellFormed()).toBe(true)
    },
  )

  test('is as it was where it fits', () => {
    expect([cutText('x'.repeat(100), 100), cutText('漢'.repeat(33), 100)]).toEqual(['x'.repeat(100), '漢'.repeat(33)])
  })
})
