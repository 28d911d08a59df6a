import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { defaultModelStore } from '../../../src/agent-core/models/default-store.ts'
import { PersonSettings } from '../../../src/agent-core/settings/person-settings.ts'
import { agentSettings } from '../../../src/agent-core/settings/settings.ts'
import { parseRunArguments } from '../../../src/cli/run-settings.ts'
import { moveAgentKeys, readStartSettings } from '../../../src/main/agent/agent-keys.ts'
import { createAgentView, keepPreferences } from '../../../src/main/agent/agent-view.ts'
import { movedNotice } from '../../../src/main/notifications/news.ts'
import { newsWords } from '../../../src/main/words.ts'
import { defaultPreferences, readPreferences, writePreferences } from '../../../src/main/preferences.ts'
import { setAside } from '../../../src/agent-core/state/state-file.ts'
import { settingTexts } from '../../../src/renderer/words/setting-texts.ts'
import { startSettingTexts } from '../../../src/renderer/words/start-settings.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const host = { platform: 'darwin', env: {}, homeDir: '/home/me' } as const

/** Of an earlier build. */
async function moved(keys: Readonly<Record<string, unknown>>) {
  await using folder = await temporaryFolder()
  await writeFile(path.join(folder.dir, 'preferences.json'), JSON.stringify(keys))
  const places = { stateDir: folder.dir, ...host }
  const [read, before] = [await readPreferences(folder.dir), await readStartSettings(places)]
  if (!read.ok || !before.ok) throw new Error('not read')
  await moveAgentKeys(folder.dir, {
    keys: read.agent,
    settings: before.settings,
    ownAddresses: ['192.0.2.10'],
  })
  const start = await readStartSettings(places)
  if (!start.ok) throw new Error(start.message)
  const person = await PersonSettings.open(start.settings, path.join(folder.dir, 'settings.json'))
  return { started: start.settings, person }
}

test('without any file the app starts its agent as metal-agent without flags does, but for the format of its log', async () => {
  await using folder = await temporaryFolder()
  const places = { stateDir: folder.dir, modelStore: defaultModelStore(host.platform, host.env, host.homeDir) }
  const withoutFlags = parseRunArguments([], places, '/')
  const start = await readStartSettings({ stateDir: folder.dir, ...host })
  if (withoutFlags.kind !== 'run' || !start.ok) throw new Error('no settings')
  const startFile = { path: path.join(folder.dir, 'start-settings.json'), states: [] }
  expect(start.settings).toEqual({ ...withoutFlags.settings, logFormat: 'json', startFile })
  expect(await readPreferences(folder.dir)).toEqual({ ok: true, preferences: defaultPreferences, agent: {} })
})

test('what an earlier build kept in preferences counts as before, and may be chosen anew', async () => {
  const { started, person } = await moved({
    kubeconfig: '/k',
    context: 'lab',
    namespace: null,
    hostIp: '192.0.2.10',
    port: 0,
    logLevel: 'debug',
    llamaServer: '/l',
    llamaServerStartupTimeoutMs: 5_000,
    modelStore: '/m',
    inferenceServiceAllowlist: ['a'],
  })
  expect(person.current).toMatchObject({
    kubeconfig: '/k',
    context: 'lab',
    namespace: undefined,
    port: 0,
    logLevel: 'debug',
    llamaServer: '/l',
    startupStallMs: 5_000,
    modelStore: '/m',
    inferenceServiceAllowlist: ['a'],
  })
  expect(person.hostAddress).toEqual({ by: 'person', address: '192.0.2.10' })
  expect([person.hasContextFlag, person.statedByFlag({ namespace: 'x', llamaServer: '/o' })]).toEqual([
    false,
    undefined,
  ])
  expect([started.context, started.hostIp, started.namespace]).toEqual([undefined, undefined, 'default'])
})

test('settings that were moved are told by the names that the window has for them, each once', () => {
  const { llamaServerStartupTimeoutMs, context, hostIp, ...others } = newsWords.moved.titles
  const titles: Readonly<Record<string, { readonly title: string }>> = { ...settingTexts, ...startSettingTexts }
  const shown = Object.fromEntries(Object.keys(others).map((name) => [name, titles[name]?.title]))
  expect(others).toEqual(shown)
  expect([llamaServerStartupTimeoutMs, context, hostIp]).toEqual([
    settingTexts.startupStallMs.title,
    'Context',
    'Host address',
  ])
  expect(movedNotice(['kubeconfig', 'hostIp'])).toBe(
    'Moved from preferences.json to Settings, with the same values: Kubeconfig, Host address.',
  )
})

test('what a flag takes and a person may not set goes on counting too', async () => {
  const { person } = await moved({ llamaServer: 'llama-server', llamaServerStartupTimeoutMs: 500 })
  expect(person.current).toMatchObject({ llamaServer: 'llama-server', startupStallMs: 500 })
})

test('an address that this machine does not have, as behind a NAT, is stated as by a flag', async () => {
  const { person } = await moved({ hostIp: '203.0.113.7' })
  expect(person.hostAddress).toEqual({ by: 'flag', address: '203.0.113.7' })
})

test('keys that stood in no file are not written into any', async () => {
  const { person } = await moved({ port: 0 })
  expect(person.views().filter(({ from }) => from !== 'default')).toEqual([])
})

test('preferences are kept over a start', async () => {
  await using folder = await temporaryFolder()
  await writePreferences(folder.dir, { ...defaultPreferences, showTitle: true, onQuit: 'keep' })
  expect(await readPreferences(folder.dir)).toEqual({
    ok: true,
    preferences: { ...defaultPreferences, showTitle: true, onQuit: 'keep' },
    agent: {},
  })
})

test('what is chosen before the app has an agent of its own loses nothing that an earlier build kept for it', async () => {
  await using folder = await temporaryFolder()
  await writeFile(
    path.join(folder.dir, 'preferences.json'),
    JSON.stringify({ hostIp: '192.0.2.10', logLevel: 'debug' }),
  )
  const view = createAgentView()
  view.setState({ preferences: defaultPreferences })
  await keepPreferences(folder.dir, view)({ showTitle: true })
  expect(await readPreferences(folder.dir)).toEqual({
    ok: true,
    preferences: { ...defaultPreferences, showTitle: true },
    agent: { hostIp: '192.0.2.10', logLevel: 'debug' },
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
    { ok: true, preferences: defaultPreferences, agent: {} },
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
