import { describe, expect, test } from 'vitest'
import { agentSettings, allRows } from '../../../src/agent-core/settings/settings.ts'
import { FlagError } from '../../../src/agent-core/util/go-flags.ts'
import { flagTable } from '../../../src/cli/flags.ts'
import { parseRunArguments } from '../../../src/cli/run-settings.ts'
import { patchOf, settingSpellings } from '../../../src/cli/settings-verbs.ts'
import { trustOf } from '../../../src/contract/commands.ts'
import type { SettingKind, SettingRow } from '../../../src/contract/settings-table.ts'
import { editableRow, settingNames, settingsPatch, spellingOf } from '../../../src/contract/settings.ts'

const places = { modelStore: '/models', stateDir: '/state' }
const rows = Object.entries<SettingRow>(allRows).map(([name, row]) => ({ name, row }))
const editable = settingNames.map((name) => ({ name, row: editableRow(name) }))

/** Values on both sides of every bound of that kind, as people write them. */
const samples: Readonly<Partial<Record<SettingKind, readonly string[]>>> = {
  duration: ['0', '500ms', '999ms', '1s', '9s', '10s', '1h', '3601s', '24h', '25h', '168h', '169h', '8760h', '8761h'],
  bytes: ['0', '1', '65535', '64Ki', '1023Ki', '1Mi', '10Gi', '11Gi', '1T', '1001G', '10T', '11T', '100T', '101T'],
  number: ['0', '0.32', '1000000', '1000001'],
  fraction: ['0', '0.5', '1', '1.01', '2'],
  switch: ['on', 'off'],
  path: ['/a', `/${'a'.repeat(999)}`, `/${'a'.repeat(1_000)}`],
  executable: ['/a', `/${'a'.repeat(999)}`],
  choice: ['enforce', 'warn', 'macmon', 'never', 'debug', 'info', 'error', 'gateway', 'relay'],
  text: ['a', 'a'.repeat(63), 'a'.repeat(64), 'https://hub.lan', 'ftp://hub.lan', `http://h/${'a'.repeat(1_000)}`],
}
const samplesOf = ({ kind, default: fallback }: SettingRow): readonly string[] =>
  (samples[kind] ?? []).filter((text) => fallback !== undefined || text !== '0')

const switchAsFlag: Readonly<Record<string, string>> = { on: 'true', off: 'false' }

/** What the agent is started with; undefined where the flag is refused. */
function byFlag(name: keyof typeof allRows, text: string): unknown {
  try {
    const request = parseRunArguments([`--${allRows[name].flag}=${switchAsFlag[text] ?? text}`], places, '/here')
    return request.kind === 'run' ? request.settings[name] : undefined
  } catch (error) {
    if (error instanceof FlagError) return undefined
    throw error
  }
}

const bySettingsSet = (name: (typeof settingNames)[number], text: string): unknown =>
  settingsPatch.safeParse(patchOf(spellingOf(name), text)).data?.[name]

describe('the table of settings', () => {
  test('each setting has a flag of its own, and each flag states a setting, is an action or says why it changes nothing', () => {
    const flags = Object.entries(flagTable(places))
    const stated = flags.flatMap(([, { setting, aliasOf }]) => (aliasOf === undefined && setting ? [setting] : []))
    const others = flags.filter(([, flag]) => !flag.setting && !flag.aliasOf && !flag.notInEffect).map(([name]) => name)
    expect(stated.toSorted()).toEqual([...Object.keys(allRows), 'namespace', 'publish', 'portRange'].toSorted())
    expect(others).toEqual(['version'])
    expect(new Set(settingSpellings).size).toBe(settingNames.length)
  })

  test.each(rows)('$name: its schema takes its default, and says of no value what it takes', ({ row }) => {
    if (row.default !== undefined) expect(row.schema.safeParse(row.default).data).toEqual(row.default)
    expect(row.schema.safeParse(undefined).error?.issues[0]?.message).toMatch(/^must /)
  })

  test.each(editable)(
    '$name takes the same by its flag, by settings set and as the agent reads it',
    ({ name, row }) => {
      const results = samplesOf(row).map((text) => ({ text, set: bySettingsSet(name, text), flag: byFlag(name, text) }))
      const accepted = results.filter(({ set }) => set !== undefined)
      expect(accepted).not.toEqual([])
      // The flag may take more where the row says so, but never less.
      expect(row.flagTakes ? accepted : results).toEqual(
        (row.flagTakes ? accepted : results).map(({ text, set }) => ({ text, set, flag: set })),
      )
      for (const { set } of accepted) expect(agentSettings.parse({ ...places, [name]: set })[name]).toEqual(set)
    },
  )

  test('what a page in a browser may not set chooses what is run, read, trusted, served or opened to a network, or has root do something', () => {
    const onlyByShell = settingNames.filter(
      (name) => trustOf({ name: 'updateSettings', settings: { [name]: null } }) === 'shell',
    )
    const power = ['applePowerEnabled', 'powerSource', 'macmonBin']
    const shell = [
      'kubeconfig',
      'namespace',
      'llamaServer',
      'mlxLm',
      'mlxServer',
      'vllmSwift',
      'tensorfold',
      'ollamaBin',
      'omlxBin',
      'hubEndpoint',
      'hubTokenFile',
      'caFile',
      'listen',
      'publish',
      ...power,
    ]
    expect(onlyByShell).toEqual(shell)
  })
})
