import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { PersonSettings } from '../../../src/agent-core/settings/person-settings.ts'
import { agentSettings } from '../../../src/agent-core/settings/settings.ts'
import { settingNames, type SettingName } from '../../../src/contract/settings.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

/** As kept by an agent of schema 1, every setting in it and none at its default. */
const kept = {
  schema: 1,
  settings: {
    llamaServer: '/opt/llama-server',
    mlxLm: '/opt/mlx/mlx_lm.server',
    mlxServer: '/opt/mlx/mlx-server',
    vllmSwift: '/opt/mlx/vllm-swift',
    tensorfold: '/opt/mlx/tensorfold',
    ollamaBin: '/opt/ollama',
    ollamaStart: true,
    omlxBin: '/opt/omlx',
    omlxStart: true,
    namespace: null,
    kubeconfig: '/home/me/lab.kubeconfig',
    drainLimitMs: 1,
    startupStallMs: 5_000,
    downloadBytesPerSecond: 20_971_520,
    namespaceModelBytes: 0,
    hubEndpoint: 'http://mirror.lan/hub',
    hubTokenFile: '/home/me/token',
    caFile: '/home/me/ca.pem',
    memoryFraction: 0.5,
    memoryBudgetBytes: 1_048_576,
    memoryCheckMode: 'warn',
    evictionEnabled: true,
    listen: 'gateway',
    publish: 'relay',
    sleepPolicy: 'while-loaded',
    awakeOnBattery: true,
    applePowerEnabled: true,
    powerSource: 'macmon',
    macmonBin: '/opt/macmon',
    logLevel: 'debug',
  },
  context: 'lab',
}

const started = (givenByFlags: readonly SettingName[] = []) =>
  agentSettings.parse({ modelStore: '/models', stateDir: '/state', namespace: 'default', givenByFlags })

async function opened(givenByFlags: readonly SettingName[] = []) {
  await using folder = await temporaryFolder()
  const file = path.join(folder.dir, 'settings.json')
  await writeFile(file, JSON.stringify(kept))
  return await PersonSettings.open(started(givenByFlags), file)
}

test('the file of an earlier agent is read as it is, and its context too', async () => {
  const settings = await opened()
  expect(settings.notices).toEqual([])
  expect(settings.current).toEqual({ ...started(), ...kept.settings, namespace: undefined, context: 'lab' })
  expect(Object.keys(kept.settings).toSorted()).toEqual(settingNames.toSorted())
})

test('a row that this build does not take is named, left out alone, and in the file still for the build that takes it', async () => {
  await using folder = await temporaryFolder()
  const file = path.join(folder.dir, 'settings.json')
  const newer = { ...kept.settings, namespace: 'team-a', startupStallMs: 32, relayPort: 9443 }
  const hubEndpoint = 'ftp://me:secret@mirror.lan/hub'
  const context = { of: 'a newer build' }
  await writeFile(file, JSON.stringify({ ...kept, settings: { ...newer, hubEndpoint }, context, tabs: ['models'] }))
  const settings = await PersonSettings.open(started(), file)
  expect(settings.current).toEqual({
    ...started(),
    ...{ ...kept.settings, namespace: 'team-a' },
    startupStallMs: started().startupStallMs,
    hubEndpoint: started().hubEndpoint,
  })
  expect(settings.notices).toEqual([
    `${file}: "startupStallMs" must be from 1s to 24h, and is 32: it is ignored until it is set again.`,
    expect.stringMatching(/"hubEndpoint" must be .*, and is "ftp:\/\/mirror\.lan\/hub": it is ignored/),
    `${file}: this build has no setting "relayPort", which is kept for one that has it.`,
    `${file}: "context" must be the name of a context, and is {"of":"a newer build"}: it is ignored until it is set again.`,
  ])

  await settings.update({ memoryFraction: 0.3, drainLimitMs: null })
  const { drainLimitMs: _unset, ...others } = newer
  const after: unknown = JSON.parse(await readFile(file, 'utf8'))
  expect(after).toEqual({
    schema: 1,
    settings: { ...others, hubEndpoint, memoryFraction: 0.3 },
    context,
    tabs: ['models'],
  })
  await settings.update({ startupStallMs: 3_000 })
  expect((await PersonSettings.open(started(), file)).current.startupStallMs).toBe(3_000)
})

test.each(settingNames)(
  '%s: a flag wins over a person, a person over the default, and the origin is told',
  async (name) => {
    const byPerson = await opened()
    const byFlag = await opened([name])
    const view = (settings: PersonSettings) => settings.views().find((one) => one.name === name)
    expect(view(byPerson)).toMatchObject({ value: kept.settings[name], from: 'person' })
    expect(view(byFlag)).toMatchObject({ value: started()[name] ?? null, from: 'flag' })
    expect(byFlag.statedByFlag({ [name]: null })).toBe(name)
  },
)

test('the context of a flag wins over the one that a person chose, and so does its address', async () => {
  await using folder = await temporaryFolder()
  const open = (flags: object) =>
    PersonSettings.open({ ...started(), ...flags }, path.join(folder.dir, 'settings.json'))
  const settings = await open({})
  await settings.chooseContext('lab')
  await settings.chooseHostAddress('192.0.2.7')
  expect([settings.current.context, settings.hostAddress]).toEqual(['lab', { by: 'person', address: '192.0.2.7' }])
  const stated = await open({ context: 'prod', hostIp: '192.0.2.9' })
  expect([stated.current.context, stated.hostAddress]).toEqual(['prod', { by: 'flag', address: '192.0.2.9' }])
})

test('null goes back to the default, but for the namespace, where it means all of them', async () => {
  await using folder = await temporaryFolder()
  const file = path.join(folder.dir, 'settings.json')
  await writeFile(file, JSON.stringify(kept))
  const settings = await PersonSettings.open(started(), file)
  await settings.update(Object.fromEntries(settingNames.map((name) => [name, null])))
  const origins = Object.fromEntries(settings.views().map(({ name, value, from }) => [name, [value, from]]))
  const expected = settingNames.map((name) => [name, [started()[name] ?? null, 'default']])
  expect(origins).toEqual({ ...Object.fromEntries(expected), namespace: [null, 'person'] })
})

test('the address of a mirror is told without the password that may stand in it', async () => {
  await using folder = await temporaryFolder()
  const settings = await PersonSettings.open(started(), path.join(folder.dir, 'settings.json'))
  await settings.update({ hubEndpoint: 'https://me:secret@mirror.lan/hub' })
  const told = settings.views().find(({ name }) => name === 'hubEndpoint')
  expect([told?.value, settings.current.hubEndpoint]).toEqual([
    'https://mirror.lan/hub',
    'https://me:secret@mirror.lan/hub',
  ])
  expect(settings.personsOf({ hubEndpoint: 'https://mirror.lan/other' })).toBeUndefined()
})

test('what a person had set is known before it is set anew, and null where that was the default', async () => {
  await using folder = await temporaryFolder()
  const file = path.join(folder.dir, 'settings.json')
  await writeFile(file, JSON.stringify(kept))
  const settings = await PersonSettings.open(started(), file)
  const before = settings.personsOf({ drainLimitMs: 9, evictionEnabled: false })
  await settings.update({ drainLimitMs: null })
  expect([before, settings.personsOf({ drainLimitMs: 9 }), settings.personsOf({})]).toEqual([
    { drainLimitMs: 1, evictionEnabled: true },
    { drainLimitMs: null },
    {},
  ])
})

test('a setting that was never set, and whose null is a choice, cannot be set back', async () => {
  await using folder = await temporaryFolder()
  const settings = await PersonSettings.open(started(), path.join(folder.dir, 'settings.json'))
  expect([settings.personsOf({ namespace: 'team' }), settings.personsOf({ drainLimitMs: 9 })]).toEqual([
    undefined,
    { drainLimitMs: null },
  ])
})
