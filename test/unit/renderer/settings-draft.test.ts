import { expect, test } from 'vitest'
import type { SettingName, SettingView } from '../../../src/contract/settings.ts'
import {
  changedIn,
  patchOfDraft,
  textOf,
  withoutSent,
  withWritten,
  type Draft,
} from '../../../src/renderer/settings-draft.ts'

const view = (name: SettingName, value: SettingView['value'], from: SettingView['from'] = 'person'): SettingView => ({
  name,
  value,
  from,
})

test('what was written after a draft was sent outlasts that it was applied', () => {
  const sent: Draft = { drainLimitMs: '45s', memoryFraction: null, logLevel: 'debug' }
  const now: Draft = { drainLimitMs: '50s', memoryFraction: null, logLevel: 'debug', evictionEnabled: 'on' }
  expect(withoutSent(now, sent)).toEqual({ drainLimitMs: '50s', evictionEnabled: 'on' })
})

test('a field is in the draft while it says something else than the setting', () => {
  const before = view('drainLimitMs', 30_000)
  const draft = withWritten({}, before, '45s')
  expect(draft).toEqual({ drainLimitMs: '45s' })
  expect(withWritten(draft, before, '30s')).toEqual({})
  expect(withWritten({}, view('drainLimitMs', 30_000, 'default'), null)).toEqual({})
  expect(changedIn(draft, [view('drainLimitMs', 45_000)])).toEqual({})
})

test('a number of bytes is the same in another unit, and is no change then', () => {
  const before = view('memoryBudgetBytes', 2 ** 30)
  expect(textOf(before)).toBe('1Gi')
  expect(withWritten({}, before, '1024 MiB')).toEqual({})
  expect(withWritten({}, before, '1G')).toEqual({ memoryBudgetBytes: '1G' })
})

test('the fields that are not right are named, whether they cannot be read or are out of bounds', () => {
  const draft: Draft = { drainLimitMs: 'soon', memoryFraction: '1.7', logLevel: 'debug' }
  expect(patchOfDraft(draft).problems).toEqual(['drainLimitMs', 'memoryFraction'])
  expect(patchOfDraft({ memoryBudgetBytes: '24G', drainLimitMs: '', logLevel: null })).toEqual({
    problems: [],
    patch: { memoryBudgetBytes: 24e9, drainLimitMs: null, logLevel: null },
  })
})
