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

  // What would be a flag of the whole daemon is said to the service, which is served on by the same process.
  await world.applyService('kiwis', {
    ...{ annotations: { 'metalbar.dev/runtime': 'omlx' }, spec: { hotCacheMaxSize: '8MB' } },
  })
  const told = await second.shows(
    ({ services }) => services.find(({ name, message }) => name === 'kiwis' && message.includes('hotCacheMaxSize')),
    'what kiwis runs without',
  )
  expect(told.message).toContain('It runs without spec.hotCacheMaxSize: oMLX serves all its models with one set of')
  expect([told.state, told.restarts, await listener(), await answers('kiwis')]).toEqual(['ready', 0, pid, 'kiwis'])

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
