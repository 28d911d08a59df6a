import crypto, { createHash } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import { isShown, type AskedKey } from '../../../src/gateway/keys.ts'

const digest = (key: string): string => createHash('sha256').update(key).digest('hex')

test('what is shown is compared as often where nothing could fit, so that nobody learns which keys there are', () => {
  const asked: AskedKey = { key: digest('right'), lastKey: undefined }
  const kinds: [shown: string, asked: AskedKey | undefined][] = [
    ['right', asked],
    ['wrong', asked],
    ['right', { ...asked, lastKey: { sha256: digest('c'), until: 10 } }],
    ['wrong', { ...asked, lastKey: { sha256: digest('c'), until: 10 } }],
    ['wrong', { key: 'nobody', lastKey: undefined }],
    ['wrong', undefined],
    ['', undefined],
  ]
  using compared = vi.spyOn(crypto, 'timingSafeEqual')
  using digested = vi.spyOn(crypto, 'createHash')
  for (const [at, [shown, what]] of kinds.entries()) {
    expect(isShown(shown, what, 0)).toBe(shown === 'right')
    expect([compared.mock.calls.length, digested.mock.calls.length]).toEqual([2 * (at + 1), at + 1])
  }
})

test('nothing is nobody’s key', () => {
  expect(isShown('', { key: digest(''), lastKey: undefined }, 0)).toBe(false)
  expect(isShown('0'.repeat(64), undefined, 0)).toBe(false)
})
