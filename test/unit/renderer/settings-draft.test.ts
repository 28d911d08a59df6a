import { expect, test } from 'vitest'
import { withoutSent } from '../../../src/renderer/settings-draft.ts'

test('what was written after a draft was sent outlasts that it was applied', () => {
  const sent = { drainLimitMs: '45s', memoryFraction: null, logLevel: 'debug' }
  const now = { drainLimitMs: '50s', memoryFraction: null, logLevel: 'debug', evictionEnabled: 'on' }
  expect(withoutSent(now, sent)).toEqual({ drainLimitMs: '50s', evictionEnabled: 'on' })
})
