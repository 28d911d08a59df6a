import { expect, test } from 'vitest'
import { settingNames } from '../../../src/contract/settings.ts'
import { startSettingNames } from '../../../src/agent-core/settings/start-rows.ts'
import { VerbError } from '../../../src/cli/agent-session.ts'
import { agentSettings, startViews } from '../../../src/agent-core/settings/settings.ts'
import {
  patchOf,
  settingSpellings,
  spelledSetting,
  spelledStartSetting,
  startSpellings,
} from '../../../src/cli/settings-verbs.ts'

test('values are written as people write them, and printed the same way', () => {
  const written = [
    ['drain-timeout', '1m30s'],
    ['download-limit', '20Mi'],
    ['log-level', 'debug'],
    ['llama-server', '/opt/homebrew/bin/llama-server'],
  ] as const
  const patches = written.map(([spelled, text]) => patchOf(spelled, text))
  expect(patches).toEqual([
    { drainLimitMs: 90_000 },
    { downloadBytesPerSecond: 20_971_520 },
    { logLevel: 'debug' },
    { llamaServer: '/opt/homebrew/bin/llama-server' },
  ])
  const printed = patches.flatMap((patch) =>
    settingNames.flatMap((name) => {
      const value = patch[name]
      return value === undefined || value === null ? [] : [spelledSetting({ name, value, from: 'person' })]
    }),
  )
  expect(printed.map(({ spelled, text }) => [spelled, text])).toEqual(written)
})

test.each([
  ['1.5Mi', 1_572_864],
  ['5M', 5_000_000],
  ['5000', 5_000],
])('sizes are understood as by the flags: %s', (text, downloadBytesPerSecond) => {
  expect(patchOf('download-limit', text)).toEqual({ downloadBytesPerSecond })
})

test('the word default gives a setting back', () => {
  expect(patchOf('drain-timeout', 'default')).toEqual({ drainLimitMs: null })
})

test('every setting of the contract has a spelling', () => {
  const spelled = settingNames.map((name) => spelledSetting({ name, value: null, from: 'default' }).spelled)
  expect(spelled.toSorted()).toEqual(settingSpellings.toSorted())
})

test('every setting that counts from the start has a spelling, a value and says that it takes a restart', () => {
  const views = startViews(agentSettings.parse({ modelStore: '/models', stateDir: '/state' }), {})
  const spelled = views.map(spelledStartSetting)
  expect(spelled.map((one) => one.spelled)).toEqual(startSpellings)
  expect(spelled).toHaveLength(startSettingNames.length)
  for (const { text, help } of spelled) {
    expect(text).not.toBe('')
    expect(help).toMatch(/^[A-Z\d].*\. A change takes effect at the next start of the agent\.$/)
  }
  expect(spelled.find((one) => one.spelled === 'port-range')).toMatchObject({
    ...{ text: '-', help: expect.stringContaining(' - = any free port.') as string },
  })
})

test.each([
  [
    'port-range',
    '30000-30099',
    'port-range takes effect at the next start of the agent: start the agent with --port-range, or in the app set it in start-settings.json.',
  ],
  ['drain-timout', '30s', 'There is no setting drain-timout: did you mean drain-timeout?'],
  ['drain-timeout', 'soon', 'drain-timeout wants a duration such as 30s or 2m, not "soon".'],
  ['download-limit', '20 MiBs', 'download-limit wants a size such as 20Mi, not "20 MiBs".'],
])('%s %s is refused in one sentence', (name, value, sentence) => {
  expect(() => patchOf(name, value)).toThrow(new VerbError(sentence))
})
