import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import type { PowerSupply } from '../../src/agent-core/platform/power-supply.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { askAgainAndAgain } from '../support/endless-requests.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
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

test('the system is kept awake while a model loads and while a request runs, and let go afterwards', async () => {
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
  await eventually(async () => !(await isHeld()))
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
