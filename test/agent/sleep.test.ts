import { expect, test, vi } from 'vitest'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { SliceWatch } from '../support/slice-watch.ts'
import { StatedMemory, statedPlatform } from '../support/stated-memory.ts'

test('a sleep that was not announced is noticed by the clock, and withdraws nothing but what does not answer after it', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const agent = await world.startAgent()
  await world.apply('awake')
  await world.apply('silent')
  await agent.untilReady('awake')
  const silent = await agent.untilReady('silent')
  await using slices = new SliceWatch(sim.connection(), world.namespace)
  await Promise.all([slices.until('awake', 'ready'), slices.until('silent', 'ready')])
  const awakeAt = Date.now.bind(Date)
  process.kill(silent.pid, 'SIGSTOP')
  vi.spyOn(Date, 'now').mockImplementation(() => awakeAt() + 60_000)
  try {
    // The watch over the server, which takes twice as long, would give it another reason.
    await agent.until('silent', ({ reason }) => reason === 'Asleep')
    await slices.until('silent', 'not ready')
  } finally {
    vi.restoreAllMocks()
    process.kill(silent.pid, 'SIGCONT')
  }
  await slices.until('silent', 'ready')
  expect([slices.history('awake'), slices.history('silent')]).toEqual([['ready'], ['ready', 'not ready', 'ready']])
})

test('a machine that sleeps again before it was verified publishes nothing', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const { agent } = await world.serving('tiny')
  await agent.agent.suspend()
  const woken = agent.agent.resume()
  await agent.agent.suspend()
  await woken
  await agent.until('tiny', ({ message }) => message.startsWith('This machine sleeps'))
  expect((await world.published('tiny'))?.ready).toBe(false)
})

test('a machine that wakes in another network is published at the address that it has there', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  let address = '192.0.2.20'
  const interfaces = () => [
    { name: 'en0', address, family: 'IPv4' as const, netmask: '255.255.255.0', internal: false },
  ]
  const memory = new StatedMemory(statedPlatform(hostPlatform(), { interfaces }))
  const { agent } = await world.serving('tiny', { memory, settings: { hostIp: undefined } })
  await using slices = new SliceWatch(sim.connection(), world.namespace)
  await slices.until('tiny', 'ready')
  const before = await world.published('tiny')
  await agent.agent.suspend()
  await slices.until('tiny', 'not ready')
  address = '192.0.2.30'
  await agent.agent.resume()
  await slices.until('tiny', 'ready')
  expect([before?.address, (await world.published('tiny'))?.address]).toEqual(['192.0.2.20', '192.0.2.30'])
})
