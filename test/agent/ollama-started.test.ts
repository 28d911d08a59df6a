import path from 'node:path'
import { expect, inject, test } from 'vitest'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { untilGone } from '../support/agent-world.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { lentWorld } from '../support/lent-world.ts'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { missingNetworkNamespaces, skipWhen, useOllama } from '../support/skip.ts'

const controlPlane = inject('controlPlane')
const ollamaProgram = useOllama()
skipWhen('missing' in controlPlane ? controlPlane.missing : missingNetworkNamespaces())

test('an Ollama that the agent starts serves again after a crash, outlives the agent, is ended when it is switched off, and with the agent', async () => {
  if ('missing' in controlPlane) return
  await using place = await lentWorld(controlPlane.connection)
  const { world, lent } = place
  const gguf = path.join(lent, 'tiny.gguf')
  await writeLlamaGguf(gguf)
  const port = await freePort()
  const start = () => place.start(['--ollama-bin', ollamaProgram, '--ollama-port', String(port)])
  const platform = hostPlatform()
  const listener = async () => (await platform.portListeners(port, -1)).others[0]?.pid
  const pidOf = (but?: number) =>
    eventually(async () => {
      const pid = await listener()
      return pid !== but && pid
    })
  const loaded = async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/api/ps`, { headers: { connection: 'close' } })
    return ((await answer.json()) as { models: readonly object[] | null }).models?.length ?? 0
  }

  await using first = await start()
  await world.applyModel('pears', { source: gguf })
  await world.applyService('pears', { annotations: { 'metalbar.dev/runtime': 'ollama' } })
  const waiting = await first.shows(
    ({ services }) => services.find(({ name, message }) => name === 'pears' && message.includes('--ollama-start')),
    'what it waits for',
  )
  const { runtimes = [] } = await first.snapshot()
  expect([waiting.runtime, runtimes.find(({ name }) => name === 'ollama')?.start]).toEqual(['ollama', 'ollamaStart'])

  expect((await first.run('settings', 'set', 'ollama-start', 'on')).code).toBe(0)
  await first.service('pears', 'ready')
  const started = await pidOf()
  expect(await loaded()).toBe(1)

  process.kill(started, 'SIGKILL')
  await eventually(async () => (await first.service('pears', 'ready')).restarts > 0)
  await first.service('pears', 'ready')
  const again = await pidOf(started)
  expect(await loaded()).toBe(1)

  await first.run('shutdown', '--keep-serving')
  await first.exited
  expect([await listener(), await loaded()]).toEqual([again, 1])
  await using second = await start()
  await second.service('pears', 'ready')
  expect([await listener(), await loaded()]).toEqual([again, 1])

  expect((await second.run('settings', 'set', 'ollama-start', 'off')).code).toBe(0)
  await untilGone(again)
  await second.shows(
    ({ services }) => services.find(({ name, state }) => name === 'pears' && state !== 'ready'),
    'that it does not serve',
  )
  expect((await second.run('settings', 'set', 'ollama-start', 'on')).code).toBe(0)
  await second.service('pears', 'ready')
  const last = await pidOf()
  expect((await second.run('shutdown')).code).toBe(0)
  await second.exited
  await untilGone(last)
})
