import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { defaultModelStore } from '../../../src/agent-core/models/default-store.ts'
import { agentSettings } from '../../../src/agent-core/settings/settings.ts'
import { parseRunArguments } from '../../../src/cli/run-settings.ts'
import { readStartSettings } from '../../../src/main/agent/start-settings.ts'
import { defaultPreferences, readPreferences, writePreferences } from '../../../src/main/preferences.ts'
import { setAside } from '../../../src/agent-core/state/state-file.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const host = { platform: 'darwin', env: {}, homeDir: '/home/me' } as const

test('without any file the app starts its agent as metal-agent without flags does, but for its log', async () => {
  await using folder = await temporaryFolder()
  const places = { stateDir: folder.dir, modelStore: defaultModelStore(host.platform, host.env, host.homeDir) }
  const withoutFlags = parseRunArguments([], places, '/')
  const start = await readStartSettings({ stateDir: folder.dir, ...host })
  if (withoutFlags.kind !== 'run' || !start.ok) throw new Error('no settings')
  const startFile = { path: path.join(folder.dir, 'start-settings.json'), states: [] }
  const logFile = path.join(folder.dir, 'metalbar.log')
  expect(start.settings).toEqual({ ...withoutFlags.settings, startFile, logFile })
  expect(await readPreferences(folder.dir)).toEqual({ ok: true, preferences: defaultPreferences })
})

test('preferences are kept over a start', async () => {
  await using folder = await temporaryFolder()
  await writePreferences(folder.dir, { ...defaultPreferences, showTitle: true, onQuit: 'keep' })
  expect(await readPreferences(folder.dir)).toEqual({
    ok: true,
    preferences: { ...defaultPreferences, showTitle: true, onQuit: 'keep' },
  })
})

test.for<[string, string, RegExp]>([
  ['no JSON', '{', /cannot be used: /],
  ['a value that cannot be', '{"showTitle": "yes"}', /cannot be used: "showTitle" must be true or false; repair/],
  ['a key that is none', '{"shwTitle": true}', /cannot be used: .*shwTitle/],
  ['what is no object', '[]', /cannot be used: /],
  ['far too much', `{"a": "${'x'.repeat(200_000)}"}`, /cannot be used: /],
])('%s is said, and nothing of it counts', async ([, content, message]) => {
  await using folder = await temporaryFolder()
  const file = path.join(folder.dir, 'preferences.json')
  await writeFile(file, content)
  const read = await readPreferences(folder.dir)
  expect(read).toMatchObject({ ok: false, file, message: expect.stringMatching(message) as unknown })
  const aside = await setAside(file, () => 7)
  expect([await readFile(aside, 'utf8'), await readPreferences(folder.dir)]).toEqual([
    content,
    { ok: true, preferences: defaultPreferences },
  ])
})

test('start settings that cannot be used are said too, and a folder in place of the file', async () => {
  await using folder = await temporaryFolder()
  await writeFile(path.join(folder.dir, 'start-settings.json'), '{"inferenceServiceAllowlist": "a"}')
  await mkdir(path.join(folder.dir, 'preferences.json'))
  const read = [await readStartSettings({ stateDir: folder.dir, ...host }), await readPreferences(folder.dir)]
  expect(read).toMatchObject([
    { ok: false, message: expect.stringContaining('"inferenceServiceAllowlist"') as unknown },
    { ok: false, message: expect.stringContaining('EISDIR') as unknown },
  ])
})

test('start settings are those of the settings table', async () => {
  await using folder = await temporaryFolder()
  const keys = { portRange: { from: 30_000, to: 30_099 }, memoryFraction: 0.5, runtime: 'omlx' }
  await writeFile(path.join(folder.dir, 'start-settings.json'), JSON.stringify(keys))
  const read = await readStartSettings({ stateDir: folder.dir, ...host })
  expect(read.ok && agentSettings.parse(read.settings)).toMatchObject(keys)
})
