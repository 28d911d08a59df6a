import { truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { answers } from '../../src/contract/queries.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { endMachineOf, inBoot } from '../support/machine-end.ts'
import type { RunningAgent } from '../support/running-agent.ts'

const mib = 1024 ** 2

/** All fit together. */
const settings = { memoryBudgetBytes: 4_096 * mib }
const sizes = { large: 100 * mib, middle: 20 * mib, small: mib } as const
type Name = keyof typeof sizes

/** Loading takes so long that two at once would be seen. */
const loadMs = 300

const turnsTrial = { gatherMs: 500, servedMs: 500 }

async function applyModels(world: AgentWorld, names: readonly Name[]): Promise<void> {
  for (const name of names) {
    const file = join(world.folder, `${name}.gguf`)
    await writeFile(file, 'GGUF and nothing more')
    await truncate(file, sizes[name])
    await world.apply(name, { source: file, script: { loadMs } })
  }
}

const told = async (agent: RunningAgent): Promise<string[]> => {
  const { entries } = answers.history.parse(await agent.agent.query({ name: 'history', limit: 100 }))
  return entries.toReversed().map(({ kind, service }) => (service ? `${kind} ${service.name}` : kind))
}

test('after an unclean end of the machine models start one by one, the largest last, each when the one before has served', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const before = await world.startAgent({ settings, memory: inBoot('one') })
  await applyModels(world, ['large', 'small', 'middle'])
  for (const name of ['large', 'small', 'middle']) await before.untilReady(name)
  await endMachineOf(before)

  const agent = await world.startAgent({ settings, memory: inBoot('two'), turnsTrial })
  const waiting = await agent.until('large', ({ reason }) => reason === 'StartsInTurn')
  expect(waiting.message).toMatch(
    /^This machine went down without a clean shutdown while models were running, so models start one/,
  )
  expect(agent.snapshot.notices).toContainEqual(expect.stringMatching(/^This machine went down without a clean/))
  await agent.untilReady('large')
  const story = await told(agent)
  expect(story.slice(story.lastIndexOf('machineEnded') + 1)).toEqual([
    'started small',
    'ready small',
    'started middle',
    'ready middle',
    'started large',
    'ready large',
  ])
  await eventually(() => agent.snapshot.notices.every((notice) => !notice.includes('clean shutdown')))
})

test('neither an orderly shutdown nor a crash of the agent alone counts', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const start = (bootId: string) => world.startAgent({ settings, memory: inBoot(bootId), turnsTrial })
  const first = await start('one')
  await applyModels(world, ['large'])
  await first.untilReady('large')
  // The agent alone, in the same boot.
  await endMachineOf(first)
  const second = await start('one')
  await second.untilReady('large')
  expect(await told(second)).not.toContain('machineEnded')
  // Its servers run to the end of the machine.
  await second.leave()
  const third = await start('two')
  await third.untilReady('large')
  expect(await told(third)).not.toContain('machineEnded')
})
