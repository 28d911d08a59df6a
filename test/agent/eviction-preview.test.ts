import { expect, test } from 'vitest'
import type { EvictionPreview } from '../../src/contract/memory.ts'
import type { SettingsPatch } from '../../src/contract/settings.ts'
import { AgentWorld, fakeGguf, untilGone } from '../support/agent-world.ts'
import { useKubeSim } from '../support/api-worlds/api-worlds.ts'
import type { RunningAgent } from '../support/running-agent.ts'
import { StatedMemory } from '../support/stated-memory.ts'

const mib = 1024 ** 2
const gib = 1024 * mib

/** By the Go agent's rule for a model whose header says nothing: a fifth more than its size, and 512 MiB. */
const needBytes = Math.ceil(fakeGguf.length * 1.2) + 512 * mib

/** On the simulated cluster alone: nothing of it depends on the API server. */
const api = useKubeSim()

type Previewed = Parameters<typeof preview>[1]

async function preview(agent: RunningAgent, settings: Pick<SettingsPatch, 'memoryFraction' | 'evictionAtAdmission'>) {
  return (await agent.agent.query({ name: 'evictionPreview', settings })) as EvictionPreview
}

const set = (agent: RunningAgent, settings: Previewed) => agent.command({ name: 'updateSettings', settings })

const names = (services: EvictionPreview['starts']) => services.map(({ name, bytes }) => [name, bytes])

/** With room for one of the models of the tests. */
async function opened() {
  const memory = new StatedMemory()
  memory.totalBytes = 4 * gib
  memory.availableBytes = 3.5 * gib
  const world = await AgentWorld.open(api().connection)
  const agent = await world.startAgent({ memory, settings: { memoryFraction: 0.2 } })
  return { world, agent }
}

test('a larger budget starts the services that its preview names, and nothing before it is applied', async () => {
  const { world, agent } = await opened()
  await using _ = world
  await world.apply('first')
  await agent.untilReady('first')
  await world.apply('second')
  await agent.until('second', ({ reason }) => reason === 'InsufficientMemory')
  const [same, larger] = [await preview(agent, {}), await preview(agent, { memoryFraction: 0.5 })]
  expect([same.budgetBytes, names(same.starts), names(same.waits)]).toEqual([
    Math.floor(0.2 * 4 * gib),
    [],
    [['second', needBytes]],
  ])
  expect([larger.budgetBytes, names(larger.starts), names(larger.waits), larger.unfit]).toEqual([
    2 * gib,
    [['second', needBytes]],
    [],
    [],
  ])
  expect([larger.modelsBytes, agent.starts]).toEqual([needBytes, 1])
  await set(agent, { memoryFraction: 0.5 })
  await agent.untilReady('second')
  expect(agent.view('first')?.state).toBe('ready')
})

test('the service that a preview says has to give way is the one that does, once it is applied', async () => {
  const { world, agent } = await opened()
  await using _ = world
  await world.apply('low', { spec: { priority: 'low' } })
  const low = await agent.untilReady('low')
  await world.apply('high', { spec: { priority: 'high' } })
  await agent.until('high', ({ reason }) => reason === 'InsufficientMemory')
  const shown = await preview(agent, { evictionAtAdmission: true })
  expect([shown.evicted.map(({ name, winner }) => [name, winner]), names(shown.starts), shown.unfit]).toEqual([
    [['low', `${world.namespace}/high`]],
    [['high', needBytes]],
    [],
  ])
  await set(agent, { evictionAtAdmission: true })
  await agent.untilReady('high')
  await untilGone(low.pid)
})

test('a budget that is too small ends no server, and the one that its preview names does not start again', async () => {
  const { world, agent } = await opened()
  await using _ = world
  await world.apply('first')
  const first = await agent.untilReady('first')
  const shown = await preview(agent, { memoryFraction: 0.1 })
  expect([shown.evicted, shown.starts, shown.unfit]).toEqual([
    [],
    [],
    [{ namespace: world.namespace, name: 'first', bytes: needBytes, isTooLarge: true }],
  ])
  await set(agent, { memoryFraction: 0.1 })
  expect(agent.view('first')).toMatchObject({ state: 'ready', pid: first.pid })
  const service = { namespace: world.namespace, name: 'first' }
  const ask = (name: 'evict' | 'bringBack') => agent.command({ name, service })
  await ask('evict')
  await untilGone(first.pid)
  await ask('bringBack')
  await agent.until('first', ({ reason }) => reason === 'InsufficientMemory')
})
