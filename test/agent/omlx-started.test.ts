import { readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { expect, inject, test } from 'vitest'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { untilGone } from '../support/agent-world.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { lentWorld } from '../support/lent-world.ts'
import { writeMlxModel } from '../support/mlx-writer.ts'
import { sampleOmlxPath } from '../support/omlx.ts'
import { missingNetworkNamespaces, skipWhen } from '../support/skip.ts'

const controlPlane = inject('controlPlane')
skipWhen('missing' in controlPlane ? controlPlane.missing : missingNetworkNamespaces())

test('an oMLX that the agent starts has a key and a folder of its own, serves models of the store and of lent folders, outlives the agent, and ends with it', async () => {
  if ('missing' in controlPlane) return
  await using place = await lentWorld(controlPlane.connection)
  const { world, lent, folder } = place
  const stored = path.join(folder, 'models', 'plums')
  await writeMlxModel(path.join(lent, 'kiwis'))
  await writeMlxModel(stored)
  const [port, clientPort] = [await freePort(), await freePort()]
  const ports = ['--omlx-port', String(port), '--client-port', String(clientPort)]
  const start = () => place.start(['--omlx-bin', sampleOmlxPath, ...ports])
  const platform = hostPlatform()
  const listener = async () => (await platform.portListeners(port, -1)).others[0]?.pid
  const pidOf = () => eventually(listener)
  const answers = async (model: string) => {
    const asked = JSON.stringify({ model, max_tokens: 2, messages: [{ role: 'user', content: 'hello' }] })
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(`http://127.0.0.1:${clientPort}/v1/chat/completions`, {
      ...{ method: 'POST', headers, body: asked },
    })
    return z.object({ model: z.string() }).parse(await answer.json()).model
  }

  await using first = await start()
  await world.applyModel('kiwis', { source: path.join(lent, 'kiwis'), format: 'mlx' })
  await world.applyService('kiwis', { annotations: { 'metalbar.dev/runtime': 'omlx' } })
  await first.shows(
    ({ services }) => services.find(({ name, message }) => name === 'kiwis' && message.includes('--omlx-start')),
    'what it waits for',
  )
  expect((await first.run('settings', 'set', 'omlx-start', 'on')).code).toBe(0)
  await first.service('kiwis', 'ready')
  await world.applyModel('plums', { source: stored, format: 'mlx' })
  await world.applyService('plums', { annotations: { 'metalbar.dev/runtime': 'omlx' } })
  await first.service('plums', 'ready')
  expect([await answers('kiwis'), await answers('plums')]).toEqual(['kiwis', 'plums'])
  const home = path.join(first.stateDir, 'daemons', 'omlx')
  expect((await readdir(path.join(home, 'models'))).toSorted()).toEqual(['kiwis', 'plums'])
  const pid = await pidOf()

  await first.run('shutdown', '--keep-serving')
  await first.exited
  expect([await listener(), await answers('kiwis')]).toEqual([pid, 'kiwis'])
  await using second = await start()
  for (const name of ['kiwis', 'plums']) expect((await second.service(name, 'ready')).restarts).toBe(0)
  expect([await listener(), await answers('kiwis')]).toEqual([pid, 'kiwis'])

  // Two that disagree: the one that came first has what it asks for, and the other follows once they agree.
  const omlx = { annotations: { 'metalbar.dev/runtime': 'omlx' } }
  await world.applyService('kiwis', { ...omlx, spec: { hotCacheMaxSize: '8MB' } })
  await untilGone(pid)
  await second.service('kiwis', 'ready')
  await second.service('plums', 'ready')
  const commandLine = async () => (await platform.process(await pidOf()))?.commandLine
  expect(await commandLine()).toContain('--hot-cache-max-size 8MB')
  const before = await pidOf()
  await world.applyService('plums', { ...omlx, spec: { hotCacheMaxSize: '4MB' } })
  const told = await second.shows(
    ({ services }) => services.find(({ name, message }) => name === 'plums' && message.includes('4MB')),
    'whom plums disagrees with',
  )
  expect(told.message).toContain(`spec.hotCacheMaxSize is 4MB here and 8MB in ${world.namespace}/kiwis, and one oMLX`)
  expect([await answers('kiwis'), await listener()]).toEqual(['kiwis', before])
  await world.applyService('kiwis', omlx)
  await untilGone(before)
  for (const name of ['kiwis', 'plums']) await second.service(name, 'ready')
  expect(await commandLine()).toContain('--hot-cache-max-size 4MB')

  const last = await pidOf()
  expect((await second.run('settings', 'set', 'omlx-start', 'off')).code).toBe(0)
  await untilGone(last)
  await second.shows(({ services }) => services.every(({ state }) => state !== 'ready'), 'that nothing serves')
  expect((await second.run('settings', 'set', 'omlx-start', 'on')).code).toBe(0)
  await second.service('kiwis', 'ready')
  const left = await pidOf()
  await second.run('shutdown', '--keep-serving')
  await second.exited

  // Switched off while no agent runs, it is asked with its own key for its models before it ends.
  const settingsFile = path.join(second.stateDir, 'settings.json')
  const { settings, ...kept } = z
    .looseObject({ settings: z.looseObject({}) })
    .parse(JSON.parse(await readFile(settingsFile, 'utf8')))
  await writeFile(settingsFile, JSON.stringify({ ...kept, settings: { ...settings, omlxStart: false } }))
  await using third = await start()
  await untilGone(left)
  expect(JSON.stringify(third.log)).toContain('"msg":"server exited"')
  expect(JSON.stringify(third.log)).not.toContain('cannot tell whether the model left memory')

  expect((await third.run('settings', 'set', 'omlx-start', 'on')).code).toBe(0)
  await third.service('kiwis', 'ready')
  const ended = await pidOf()
  expect((await third.run('shutdown')).code).toBe(0)
  await third.exited
  await untilGone(ended)
  expect((await readdir(stored)).includes('model.safetensors')).toBe(true)
})

test('a service that cannot be served asks nothing of the oMLX that others use, and sizes that this machine does not have are refused', async () => {
  if ('missing' in controlPlane) return
  await using place = await lentWorld(controlPlane.connection)
  const { world, lent } = place
  for (const name of ['kiwis', 'plums', 'giants']) await writeMlxModel(path.join(lent, name))
  const [port, clientPort] = [await freePort(), await freePort()]
  const ports = ['--omlx-port', String(port), '--client-port', String(clientPort), '--omlx-start']
  await using agent = await place.start(['--omlx-bin', sampleOmlxPath, ...ports])
  const platform = hostPlatform()
  const running = async () => {
    const pid = (await platform.portListeners(port, -1)).others[0]?.pid
    return { pid, commandLine: pid === undefined ? '' : ((await platform.process(pid))?.commandLine ?? '') }
  }
  const omlx = { annotations: { 'metalbar.dev/runtime': 'omlx' } }
  const apply = async (
    name: string,
    spec: Readonly<Record<string, unknown>>,
    { source = path.join(lent, name), hardware = {} } = {},
  ) => {
    await world.applyModel(name, { source, format: 'mlx', hardware })
    await world.applyService(name, { ...omlx, spec })
  }
  const told = (name: string, words: string) =>
    agent.shows(
      ({ services }) => services.find((one) => one.name === name && one.message.includes(words)),
      `what ${name} is told`,
    )
  await apply('kiwis', {})
  await agent.service('kiwis', 'ready')
  const { pid } = await running()

  await apply('ghosts', { hotCacheMaxSize: '8MB' }, { source: path.join(lent, 'nowhere') })
  await told('ghosts', 'does not exist')
  await apply('giants', { hotCacheMaxSize: '9TB' })
  await told('giants', 'spec.hotCacheMaxSize: 9TB is refused: ')
  await apply('giants', { pagedSSDCacheMaxSize: '900TB' })
  await told('giants', 'spec.pagedSSDCacheMaxSize: 900TB is refused: ')
  await apply('giants', { hotCacheMaxSize: '8MB' }, { hardware: { memoryBudget: '1Mi' } })
  expect((await told('giants', 'the budget of its Model')).state).toBe('waiting')
  expect(await running()).toMatchObject({ pid })
  await apply('plums', { hotCacheMaxSize: '4MB' })
  await agent.service('plums', 'ready')
  const after = await running()
  expect([after.commandLine.includes('--hot-cache-max-size 4MB'), after.pid === pid]).toEqual([true, false])

  // One that is served and edited so is served on, and told.
  await apply('plums', { hotCacheMaxSize: '9TB' })
  const edited = await told(
    'plums',
    'It runs without the settings that it asks oMLX for: spec.hotCacheMaxSize: 9TB is refused',
  )
  expect([edited.state, await running()]).toEqual(['ready', after])
})
