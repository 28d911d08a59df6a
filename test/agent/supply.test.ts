import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import type { PowerSupply } from '../../src/agent-core/platform/power-supply.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { askAgainAndAgain } from '../support/endless-requests.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { SliceWatch } from '../support/slice-watch.ts'
import { StatedMemory, statedPlatform } from '../support/stated-memory.ts'

/** Runs on what a test says, and is kept awake by a process that is found by its mark. */
function machine() {
  const mark = randomUUID()
  const facts: { supply: PowerSupply } = { supply: { source: 'mains', charge: 0.84, lowPowerMode: false } }
  const memory = new StatedMemory(
    statedPlatform(hostPlatform(), {
      powerSupply: () => Promise.resolve(facts.supply),
      awakeProgram: () => ({ command: '/bin/sh', args: ['-c', 'cat; exit 0', mark] }),
    }),
  )
  const isHeld = async () =>
    (await hostPlatform().processes()).some(({ commandLine }) => commandLine.endsWith(`cat; exit 0 ${mark}`))
  return { facts, memory, isHeld }
}

test('the system is kept awake while a model loads and while a request runs, and let go within five seconds', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const { memory, isHeld } = machine()
  const agent = await world.startAgent({ memory })
  await world.apply('tiny', { script: { loadMs: 1_500, tokenMs: 200 } })
  await eventually(isHeld)
  expect(agent.snapshot.supply).toMatchObject({ isKeptAwake: true })
  const { port } = await agent.untilReady('tiny')
  {
    await using asking = askAgainAndAgain(port, { tokens: 50 })
    await eventually(isHeld)
    expect(asking.failed).toEqual([])
  }
  const endedAt = performance.now()
  await eventually(async () => !(await isHeld()))
  expect(performance.now() - endedAt).toBeLessThan(5_000)
  expect(agent.snapshot.supply).toMatchObject({ isKeptAwake: false })
})

test('on battery the system is kept awake only where a person wants that', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const { facts, memory, isHeld } = machine()
  facts.supply = { source: 'battery', charge: 0.5, lowPowerMode: false }
  const { agent } = await world.serving('tiny', { memory, settings: { sleepPolicy: 'while-loaded' } })
  expect([await isHeld(), agent.snapshot.supply]).toMatchObject([false, { source: 'battery', isKeptAwake: false }])
  await agent.command({ name: 'updateSettings', settings: { awakeOnBattery: true } })
  await eventually(isHeld)
})

test('on battery the node pauses where a person set it so, shows why, and serves again on mains', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const { facts, memory } = machine()
  const { agent, pid } = await world.serving('tiny', { memory, supplyEveryMs: 100 })
  facts.supply = { source: 'battery', charge: 0.5, lowPowerMode: true }
  await eventually(() => agent.snapshot.supply?.source === 'battery')
  expect(agent.view('tiny')?.state).toBe('ready')

  const set = (pauseOnBattery: boolean) => agent.command({ name: 'updateSettings', settings: { pauseOnBattery } })
  expect(await set(true)).toMatchObject({ outcome: 'done' })
  const paused = await agent.until('tiny', ({ reason }) => reason === 'Paused')
  expect(paused.message).toMatch(
    /^This machine is on battery, and is set to pause on battery: the model stays in memory/,
  )
  await eventually(async () => (await world.published('tiny'))?.ready === false)
  expect(agent.snapshot.supply).toMatchObject({ source: 'battery', charge: 0.5, lowPowerMode: true, isPaused: true })
  expect(agent.snapshot.notices.join()).toContain('This machine is on battery and is set to pause on battery')

  facts.supply = { source: 'mains', charge: 0.5, lowPowerMode: false }
  expect((await agent.untilReady('tiny')).pid).toBe(pid)
  await eventually(async () => (await world.published('tiny'))?.ready === true)
  expect(agent.snapshot.notices.join()).not.toContain('battery')
})

test('a machine that wakes on battery, and is set to pause then, is not published for a moment either', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const { facts, memory } = machine()
  // Only the wake can tell.
  const { agent } = await world.serving('tiny', {
    memory,
    supplyEveryMs: 3_600_000,
    settings: { pauseOnBattery: true },
  })
  await using slices = new SliceWatch(sim.connection(), world.namespace)
  await slices.until('tiny', 'ready')
  await agent.agent.suspend()
  await slices.until('tiny', 'not ready')
  facts.supply = { source: 'battery', charge: 0.5, lowPowerMode: false }
  await agent.agent.resume()
  await agent.until('tiny', ({ reason }) => reason === 'Paused')
  expect(slices.history('tiny')).toEqual(['ready', 'not ready'])
})
