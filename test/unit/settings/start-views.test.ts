import { describe, expect, test } from 'vitest'
import { agentSettings, startViews } from '../../../src/agent-core/settings/settings.ts'
import { notInStartFile, startRows, type StartSettingName } from '../../../src/agent-core/settings/start-rows.ts'
import { parseRunArguments } from '../../../src/cli/run-settings.ts'
import { maxShownBytes, startSettingView } from '../../../src/contract/settings.ts'
import { startSettingNames } from '../../../src/agent-core/settings/start-rows.ts'

const places = { modelStore: '/models', stateDir: '/state' }
const started = (stated: object = {}) => agentSettings.parse({ ...places, ...stated })
const views = startViews(started(), {})

/** As a shell would give the words on. */
const unquoted = (flag: string): string => flag.replaceAll(/'([^']*)'/g, '$1')

function byFlag(flag: string) {
  const request = parseRunArguments([unquoted(flag)], places, '/')
  if (request.kind !== 'run') throw new Error('no run')
  return request.settings
}

describe('each setting that counts from the start', () => {
  test('is told, in the order of the table', () => {
    expect(views.map(({ name }) => name)).toEqual(Object.keys(startRows))
    expect(Object.keys(startRows)).toEqual([...startSettingNames])
  })

  test.each(views)('$name: $flag is a flag that the agent takes, and says what counts', ({ name, value, flag }) => {
    const given = byFlag(flag)
    expect(given.givenByFlags).toEqual([name])
    const [told] = startViews(given, {}).filter((one) => one.name === name)
    expect(told).toMatchObject({ from: 'flag', flag })
    if (value !== '') expect(told).toMatchObject({ value })
  })

  test.each(views)('$name: $line is a line of the start file that the app takes', ({ name, flag, line }) => {
    if (line === undefined) {
      expect(notInStartFile).toHaveProperty(name)
      return
    }
    const stated = JSON.parse(`{${line}}`) as object
    expect(Object.keys(stated)).toEqual([name])
    expect(started(stated)[name as StartSettingName]).toEqual(byFlag(flag)[name as StartSettingName])
  })
})

test('the origin is the flag, then the start file, then what a person chose', () => {
  const path = '/state/start-settings.json'
  const settings = started({
    ...{ port: 1, ingressPort: 9_444, givenByFlags: ['port'] },
    startFile: { path, states: ['ingressPort'] },
  })
  const told = startViews(settings, { context: 'lab', hostIp: '192.0.2.7' })
  const origin = (name: string) => told.filter((one) => one.name === name).map(({ value, from }) => [value, from])[0]
  expect([origin('port'), origin('ingressPort'), origin('context'), origin('hostIp'), origin('clientPort')]).toEqual([
    ['1', 'flag'],
    ['9444', 'startFile'],
    ['lab', 'person'],
    ['192.0.2.7', 'person'],
    ['9999', 'default'],
  ])
  const [stated] = startViews(started({ context: 'prod', givenByFlags: ['context'] }), { context: 'lab' })
  expect(stated).toMatchObject({ name: 'context', value: 'prod', from: 'flag' })
})

test('a list without an end is cut, and fits what a page takes', () => {
  const inferenceServiceAllowlist = Array.from({ length: 5_000 }, (_, index) => `ümläut-${index}`)
  for (const view of startViews(started({ inferenceServiceAllowlist }), {})) {
    expect(startSettingView.parse(view)).toEqual(view)
    expect(Buffer.byteLength(view.value)).toBeLessThanOrEqual(maxShownBytes)
  }
})
