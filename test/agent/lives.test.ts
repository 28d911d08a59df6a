import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { AgentWorld, inferenceService } from '../support/agent-world.ts'
import { eventually } from '../support/eventually.ts'
import { KeysKept } from '../support/keys-kept.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import type { RunningAgent } from '../support/running-agent.ts'

const lives = 4

/** They keep a limited number of what is gone: uids that a late answer may name, and totals of servers that may come back. */
const bounded = ['/kube/object-cache.ts', '/figures/runtime-figures.ts']

test('of services that were served and deleted nothing is kept, in memory nor on the disk', async () => {
  const uids = new Set<string>()
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  using keys = new KeysKept((key) => /\blife-\d+/.test(key) || uids.has(key))
  const agent = await world.startAgent()
  const stopLooking = agent.agent.subscribe(() => agent.snapshot, 'window')
  await world.applyModel('model')
  for (let life = 0; life < lives; life += 1) {
    const name = `life-${life}`
    const service = { namespace: world.namespace, name }
    await world.applyService(name, { modelRef: 'model' })
    uids.add((await world.admin.get(inferenceService(name)))?.metadata.uid ?? '')
    await agent.untilReady(name)
    await agent.command({ name: 'protect', service, protect: true })
    await world.deleteService(name)
    await agent.untilNotShown(name)
  }
  await eventually(async () => expect(await readdir(join(agent.stateDir, 'runs'))).toEqual([]), { timeoutMs: 5_000 })
  await eventually(async () =>
    expect(JSON.parse(await readFile(join(agent.stateDir, 'absences.json'), 'utf8'))).toMatchObject({ protected: [] }),
  )
  await agent.agent.metrics.render()
  await eventually(
    () => expect([...keys.now().keys()].filter((where) => !bounded.some((file) => where.includes(file)))).toEqual([]),
    { timeoutMs: 10_000 },
  )
  stopLooking()
})

test('of services that were deleted while no agent ran nothing is kept, and of those in a namespace that is not looked at, all', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const agent = await world.startAgent()
  await world.applyModel('model')
  for (const name of ['kept', 'deleted']) {
    await world.applyService(name, { modelRef: 'model' })
    await agent.untilReady(name)
    await agent.command({ name: 'protect', service: { namespace: world.namespace, name }, protect: true })
  }
  const kept = agent.view('kept')?.uid
  const held = async (running: RunningAgent) => {
    const file = await readFile(join(running.stateDir, 'absences.json'), 'utf8')
    return (JSON.parse(file) as { protected: { uid: string }[] }).protected.map(({ uid }) => uid)
  }
  await agent.leave()
  await world.deleteService('deleted')
  const next = await world.startAgent()
  await eventually(async () => expect(await held(next)).toEqual([kept]))
  await next.leave()
  const elsewhere = await world.startAgent({ settings: { namespace: await world.createNamespace() } })
  await elsewhere.untilCluster('live')
  expect(await held(elsewhere)).toEqual([kept])
})
