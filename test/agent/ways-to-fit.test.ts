import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { CommandInput } from '../../src/contract/commands.ts'
import type { FittedModelView } from '../../src/contract/fit.ts'
import { query } from '../../src/contract/queries.ts'
import { AgentWorld, commandLineOf, untilGone } from '../support/agent-world.ts'
import { startFakeHub } from '../support/fake-hub.ts'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import type { RunningAgent } from '../support/running-agent.ts'
import { StatedMemory } from '../support/stated-memory.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const gib = 1024 ** 3
const source = 'hf://org/one'
const contextSize = 16_384

const run = (agent: RunningAgent, input: CommandInput) => agent.command(input)

/** A Hub with a model, and an agent whose budget is so many times what the model needs, less one byte. */
async function tight(times: number) {
  await using parts = new AsyncDisposableStack()
  const { dir } = parts.use(await temporaryFolder())
  const file = join(dir, 'tiny.gguf')
  await writeLlamaGguf(file, { context: contextSize })
  const hub = parts.use(await startFakeHub())
  await hub.addRepo('org/one', { 'tiny-Q8_0.gguf': await readFile(file) })
  const sim = parts.use(await KubeSim.start())
  const world = parts.use(await AgentWorld.open(sim.connection()))
  const memory = new StatedMemory()
  memory.totalBytes = 8 * gib
  const agent = await world.startAgent({ memory, settings: { hubEndpoint: hub.endpoint } })
  const { totalBytes } = (await agent.agent.query(query.parse({ name: 'fit', source, contextSize }))) as FittedModelView
  const memoryBudgetBytes = Math.floor(times * totalBytes) - 1
  expect((await run(agent, { name: 'updateSettings', settings: { memoryBudgetBytes } })).outcome).toBe('done')
  const add = async (name: string) => {
    const service = { namespace: world.namespace, name }
    const { outcome } = await run(agent, { name: 'applyModel', application: { ...service, source, contextSize } })
    expect(outcome).toBe('done')
    return service
  }
  const kept = parts.move()
  return { agent, add, memoryBudgetBytes, [Symbol.asyncDispose]: () => kept.disposeAsync() }
}

test('a service that does not fit is served with the smaller context that it names', async () => {
  await using at = await tight(1)
  const service = await at.add('one')
  const waiting = await at.agent.until('one', ({ reason }) => reason === 'InsufficientMemory')
  const smaller = waiting.memory?.waysToFit?.find(
    ({ change }) => change?.contextSize !== undefined && change.cacheType === undefined,
  )?.change?.contextSize
  expect(smaller).toBeLessThan(contextSize)
  expect(at.agent.starts).toBe(0)
  expect(await run(at.agent, { name: 'setContextSize', service, contextSize: smaller ?? 0 })).toMatchObject({
    outcome: 'done',
  })
  const { pid, memory } = await at.agent.untilReady('one')
  expect(await commandLineOf(pid)).toContain(`--ctx-size ${smaller}`)
  expect(memory?.needBytes).toBeLessThanOrEqual(at.memoryBudgetBytes)
})

test('a service that does not fit is served once the one that it names is evicted', async () => {
  await using at = await tight(1.5)
  await at.add('one')
  const { pid } = await at.agent.untilReady('one')
  const { namespace } = await at.add('two')
  const waiting = await at.agent.until('two', ({ reason }) => reason === 'InsufficientMemory')
  const evict = waiting.memory?.waysToFit?.find(({ kind }) => kind === 'evict')?.evict
  expect(evict).toEqual([`${namespace}/one`])
  expect(await run(at.agent, { name: 'evict', service: { namespace, name: 'one' } })).toMatchObject({
    outcome: 'done',
  })
  await at.agent.untilReady('two')
  await untilGone(pid)
  expect(at.agent.view('one')).toMatchObject({ state: 'stopped', hold: { cause: 'evicted' } })
})
