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

/** Each needs a fifth more than its file and 512 MiB: the large one more than half of the budget, the other two less; all fit together. */
const settings = { memoryBudgetBytes: 1_200 * mib }
const sizes = { large: 100 * mib, middle: 20 * mib, small: mib } as const
type Name = keyof typeof sizes

/** Loading takes so long that two at once would be seen. */
const loadMs = 300

const fuseTrial = { gatherMs: 500 }

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

const serveAgain = (agent: RunningAgent) => agent.command({ name: 'serveAgain' })

test('after one disorderly end of the machine models start one by one, the largest last, until it has outlived that', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const before = await world.startAgent({ settings: { memoryBudgetBytes: 4_096 * mib }, memory: inBoot('one') })
  await applyModels(world, ['large', 'small', 'middle'])
  for (const name of ['large', 'small', 'middle']) await before.untilReady(name)
  await endMachineOf(before)

  const options = { settings: { memoryBudgetBytes: 4_096 * mib }, memory: inBoot('two') }
  const agent = await world.startAgent({ ...options, fuseTrial: { ...fuseTrial, outliveMs: 6_000 } })
  const waiting = await agent.until('large', ({ reason }) => reason === 'StartsInTurn')
  expect(waiting.message).toMatch(
    /^This machine went down without a clean shutdown while models were running, so models start one/,
  )
  expect(agent.snapshot.panicFuse?.state).toBe('inTurn')
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
  await eventually(() => agent.snapshot.panicFuse === undefined)
})

test('after two soon after a start large models are held, over a restart of the agent too, until a person serves them again', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const start = (bootId: string) => world.startAgent({ settings, memory: inBoot(bootId), fuseTrial })
  const first = await start('one')
  await applyModels(world, ['large', 'small'])
  await first.untilReady('large')
  await endMachineOf(first)
  const second = await start('two')
  await second.untilReady('large')
  await endMachineOf(second)

  const third = await start('three')
  const held = await third.until('large', ({ reason }) => reason === 'HeldAfterPanic')
  await third.untilReady('small')
  expect(held).toMatchObject({
    state: 'waiting',
    message: expect.stringContaining('metal-agent serve-again') as string,
  })
  expect(third.snapshot.panicFuse?.message).toContain(`Waiting: ${world.namespace}/large.`)
  await eventually(async () => (await world.condition('large')) === 'False HeldAfterPanic')
  expect((await world.eventReasons('large')).filter((reason) => reason === 'HeldAfterPanic')).toHaveLength(1)
  await third.leave()

  const fourth = await start('three')
  await fourth.until('large', ({ reason }) => reason === 'HeldAfterPanic')
  await eventually(async () => (await world.condition('large')) === 'False HeldAfterPanic')
  expect((await world.eventReasons('large')).filter((reason) => reason === 'HeldAfterPanic')).toHaveLength(1)
  expect(await serveAgain(fourth)).toMatchObject({ outcome: 'done' })
  await fourth.untilReady('large')
  expect(fourth.snapshot.panicFuse).toBeUndefined()
  expect(await serveAgain(fourth)).toMatchObject({ message: expect.stringMatching(/^No model is held back/) as string })
})

test('after one with the report of a panic large models are held at once', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const first = await world.startAgent({ settings, memory: inBoot('one'), fuseTrial })
  await applyModels(world, ['large'])
  await first.untilReady('large')
  await endMachineOf(first)
  const second = await world.startAgent({ settings, memory: inBoot('two', { hasPanicReport: true }), fuseTrial })
  const held = await second.until('large', ({ reason }) => reason === 'HeldAfterPanic')
  expect(held.message).toMatch(
    /^This machine went down with a kernel panic while models were running, so a model that needs 663 MB/,
  )
  expect(await told(second)).toContain('machineEnded')
})

test('neither an orderly shutdown nor a crash of the agent alone counts', async () => {
  await using sim = await KubeSim.start()
  await using world = await AgentWorld.open(sim.connection())
  const start = (bootId: string) => world.startAgent({ settings, memory: inBoot(bootId), fuseTrial })
  const first = await start('one')
  await applyModels(world, ['large'])
  await first.untilReady('large')
  // The agent alone, in the same boot.
  await endMachineOf(first)
  const second = await start('one')
  await second.untilReady('large')
  expect(second.snapshot.panicFuse).toBeUndefined()
  // Its servers run to the end of the machine.
  await second.leave()
  const third = await start('two')
  await third.untilReady('large')
  expect(third.snapshot.panicFuse).toBeUndefined()
  expect(await told(third)).not.toContain('machineEnded')
})
