import { expect, test } from 'vitest'
import type { SettingName, SettingView } from '../../../src/contract/settings.ts'
import {
  changedIn,
  isConflict,
  patchOfDraft,
  textOf,
  withoutSent,
  withWritten,
  type Draft,
} from '../../../src/renderer/settings-draft.ts'

const view = (name: SettingName, value: SettingView['value'], from: SettingView['from'] = 'person'): SettingView => ({
  ...{ name, value, from, help: '' },
})

const draftOf = (texts: Readonly<Partial<Record<SettingName, string | null>>>): Draft =>
  Object.fromEntries(
    Object.entries(texts).map(([name, text]) => [name, { text, over: view(name as SettingName, null, 'default') }]),
  )

test('what was written after a draft was sent outlasts that it was applied', () => {
  const sent = draftOf({ drainLimitMs: '45s', memoryFraction: null, logLevel: 'debug' })
  const now = draftOf({ drainLimitMs: '50s', memoryFraction: null, logLevel: 'debug', evictionEnabled: 'on' })
  expect(withoutSent(now, sent)).toEqual(draftOf({ drainLimitMs: '50s', evictionEnabled: 'on' }))
})

test('a field is in the draft while it says something else than the setting', () => {
  const before = view('drainLimitMs', 30_000)
  const draft = withWritten({}, before, '45s')
  expect(draft).toEqual({ drainLimitMs: { text: '45s', over: before } })
  expect(withWritten(draft, before, '30s')).toEqual({})
  expect(withWritten(draft, before, undefined)).toEqual({})
  expect(withWritten({}, view('drainLimitMs', 30_000, 'default'), null)).toEqual({})
  expect(changedIn(draft, [view('drainLimitMs', 45_000)])).toEqual({})
})

test('a setting that somebody else set since a person began to write is a conflict, until that is taken', () => {
  const before = view('drainLimitMs', 30_000)
  const begun = withWritten({}, before, '45s')
  const elsewhere = view('drainLimitMs', 60_000)
  const goneOn = withWritten(begun, elsewhere, '46s')
  const isOne = (draft: Draft, now: SettingView) => draft.drainLimitMs && isConflict(draft.drainLimitMs, now)
  expect([isOne(begun, before), isOne(begun, elsewhere), isOne(goneOn, elsewhere)]).toEqual([false, true, true])
  expect(isOne(withWritten(withWritten(goneOn, elsewhere, undefined), elsewhere, '47s'), elsewhere)).toBe(false)
})

test('a number of bytes is the same in another unit, and is no change then', () => {
  const before = view('memoryBudgetBytes', 2 ** 30)
  expect(textOf(before)).toBe('1Gi')
  expect(withWritten({}, before, '1024Mi')).toEqual({})
  expect(withWritten({}, before, '1G')).toMatchObject({ memoryBudgetBytes: { text: '1G' } })
})

test('the fields that are not right are named, whether they cannot be read or are out of bounds', () => {
  expect(patchOfDraft(draftOf({ drainLimitMs: 'soon', memoryFraction: '1.7', logLevel: 'debug' }))).toEqual({
    ok: false,
    problems: ['drainLimitMs', 'memoryFraction'],
  })
  expect(patchOfDraft(draftOf({ memoryBudgetBytes: '24G', drainLimitMs: '', logLevel: null }))).toEqual({
    ok: true,
    patch: { memoryBudgetBytes: 24e9, drainLimitMs: null, logLevel: null },
  })
})
