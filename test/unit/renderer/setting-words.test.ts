import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { startRows } from '../../../src/agent-core/settings/start-rows.ts'
import {
  editableRow,
  type SettingName,
  settingNames,
  type SettingsPatch,
  startSettingNames,
  type StartSettingView,
} from '../../../src/contract/settings.ts'
import { isFound } from '../../../src/renderer/settings-draft.ts'
import { matches } from '../../../src/renderer/history.ts'
import { activityWords } from '../../../src/renderer/words/activity.ts'
import { settingTexts } from '../../../src/renderer/words/setting-texts.ts'
import { settingWords } from '../../../src/renderer/words/settings.ts'
import { startSettingTexts } from '../../../src/renderer/words/start-settings.ts'

const started = (name: StartSettingView['name'], facts: Partial<StartSettingView> = {}): StartSettingView => ({
  ...{
    name,
    section: startRows[name].section,
    value: '',
    from: 'default',
    flag: '--x=1',
    line: '"x": 1',
  },
  ...facts,
})

test('each setting has a title of its own in words', () => {
  const titles = [
    ...settingNames.map((name) => settingWords.titleOf(name)),
    ...startSettingNames.map((name) => settingWords.startTitle(started(name))),
  ]
  expect(new Set(titles).size).toBe(settingNames.length + startSettingNames.length)
  for (const title of titles) expect(title).toMatch(/^[A-Z][A-Za-z -]{4,50}['A-Za-z -]*$/)
})

/** Of the small text on a row, in two lines at 400 px. */
const mostHelp = 110

test('each setting says in a short sentence what it does, and all else only once its row is opened', () => {
  const texts = [
    ...settingNames.map((name) => settingTexts[name]),
    ...startSettingNames.map((name) => startSettingTexts[name]),
  ]
  for (const { help, more = 'Nothing.' } of texts) {
    expect(help).toMatch(/^[A-Z\d/].*\.$/)
    expect(more).toMatch(/^[A-Z\d/].*\.$/)
    expect([help, help.length <= mostHelp]).toEqual([help, true])
    expect(help).not.toMatch(/command line|takes effect/)
  }
})

test('a setting is found by its title, its help and its flag, each word of a search somewhere in them', () => {
  const foundBy = (text: string) =>
    settingNames.filter((name) =>
      isFound(text, settingWords.searched({ name, value: null, from: 'default', help: '' })),
    )
  expect([
    foundBy('downloads limit'),
    foundBy('  NO limit '),
    foundBy('--drain-timeout'),
    foundBy('teapot'),
    isFound('ports firewall', settingWords.searched(started('portRange'))),
  ]).toEqual([['downloadBytesPerSecond'], ['downloadBytesPerSecond'], ['drainLimitMs'], [], true])
})

describe('what a field asks for', () => {
  test.each(settingNames.map((name) => ({ name, row: editableRow(name) })))(
    '$name',
    ({ name, row: { kind, schema } }) => {
      const problem = settingWords.problem(name)
      expect(problem).toMatch(/^It must be .*\.$/)
      expect(problem).not.toContain('something else')
      if (kind === 'choice' && schema instanceof z.ZodEnum) {
        expect(Object.keys(settingTexts[name].choices ?? {})).toEqual(schema.options)
      } else expect(settingTexts[name].choices).toBeUndefined()
    },
  )

  test.each<[SettingName, string]>([
    ['drainLimitMs', 'It must be a time from 0s to 1h, such as 30s, 2m or 1h30m.'],
    ['memoryBudgetBytes', 'It must be a size from 1.0 MB to 100 TB (93132.3 GiB), as a number with its unit.'],
    ['memoryFraction', 'It must be a fraction from 0 to 1, such as 0.75.'],
    ['llamaServer', 'It must be an absolute path, which begins with /, of at most 1000 characters.'],
  ])('%s: %s', (name, problem) => expect(settingWords.problem(name)).toBe(problem))
})

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
  const view = (name: SettingName, value: string | number | boolean | null) => ({
    ...{ name, value, from: 'flag' as const, help: '' },
  })
  expect([
    settingWords.value(view('memoryBudgetBytes', 24 * 2 ** 30)),
    settingWords.value(view('memoryCheckMode', 'warn')),
    settingWords.value(view('drainLimitMs', 90_000)),
    settingWords.value(view('caFile', null)),
  ]).toEqual(['25.8 GB (24 GiB)', 'Let it start', '1m30s', 'not set'])
})

test('a setting of the start says its value, and how another is stated', () => {
  const file = '/state/start-settings.json'
  expect([
    settingWords.startValue(started('portRange')),
    settingWords.startValue(started('portRange', { value: '1-2' })),
    settingWords.startWhy(started('portRange'), undefined),
    settingWords.startWhy(started('portRange'), file),
    settingWords.startWhy({ ...started('stateDir'), line: undefined }, file),
  ]).toEqual([
    'any free port',
    '1-2',
    'The agent reads it only when it starts, so it cannot be changed here. Start the agent with:',
    `The agent reads it only when it starts, so it cannot be changed here. Add this line to ${file} and open the app again:`,
    'The app sets it when it starts the agent, so it cannot be changed here.',
  ])
})
