import { expect, test } from 'vitest'
import type { SettingName, SettingsPatch } from '../../../src/contract/settings.ts'
import { matches } from '../../../src/renderer/history.ts'
import { activityWords } from '../../../src/renderer/words/activity.ts'
import { settingWords, valueText, whyFixed } from '../../../src/renderer/words/settings.ts'

test.each<[SettingName, string]>([
  ['drainLimitMs', 'It must be a duration such as 30s or 2m, from 0 to 1h.'],
  ['memoryBudgetBytes', 'It must be a size such as 20Mi, from 1Mi to 100T.'],
  ['memoryFraction', 'It must be a fraction such as 0.75, from 0 (automatic) to 1.'],
  ['llamaServer', 'It must be an absolute path.'],
  ['namespace', 'It must be the name of a namespace, of at most 63 characters.'],
])('%s: %s', (name, problem) => expect(settingWords.problem(name)).toBe(problem))

test.each<[SettingsPatch, string]>([
  [
    { drainLimitMs: 45_000, evictionEnabled: true },
    'Time for requests to finish is set to 45s and takes effect for servers that start after it. Evict models when memory runs out is set to on and takes effect at once.',
  ],
  [{ memoryCheckMode: 'warn' }, 'Model with unknown memory need is now “Let it start” and takes effect at once.'],
  [{ startupStallMs: null }, 'set back to the default'],
  [{ namespace: null }, 'Namespace is left empty and takes effect at once.'],
])('%j was set: %s', (settings, told) => expect(settingWords.changed(settings)).toContain(told))

test('a change of settings is told by what the window calls them, and found by that', () => {
  const entry = {
    ...{ id: 1, at: '2026-01-01T00:00:00.000Z', kind: 'settingsChanged' as const, message: 'drain-timeout is set.' },
    settings: { drainLimitMs: 45_000 },
  }
  expect([
    activityWords.message(entry),
    matches(entry, 'requests to finish 45s'),
    matches(entry, 'drain-timeout'),
  ]).toEqual([
    'Set by a person: Time for requests to finish is set to 45s and takes effect for servers that start after it.',
    true,
    false,
  ])
})

test('a value that cannot be set here is said in the same words as one that can', () => {
  expect([
    valueText('memoryBudgetBytes', 24 * 2 ** 30),
    valueText('memoryCheckMode', 'warn'),
    valueText('drainLimitMs', 90_000),
    valueText('caFile', null),
  ]).toEqual(['25.8 GB (24 GiB)', 'Let it start', '1m30s', 'not set'])
})

test('a page in a browser is told the line for a terminal where a setting takes a shell, and a flag wins over all', () => {
  const told = (from: 'default' | 'flag', trust: 'page' | 'shell') => {
    const { why = '', line } = whyFixed({ name: 'kubeconfig', value: null, from }, trust) ?? {}
    return [why.split('.')[0], line]
  }
  expect([told('default', 'shell'), told('default', 'page'), told('flag', 'page')]).toEqual([
    ['', undefined],
    ['A page in a browser cannot change this', 'metal-agent settings set kubeconfig VALUE'],
    ['The agent was started with this flag, which wins', undefined],
  ])
})
