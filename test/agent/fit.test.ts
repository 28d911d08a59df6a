import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { CommandInput } from '../../src/contract/commands.ts'
import type { FittedModelView, FitView } from '../../src/contract/fit.ts'
import { query, type QueryInput } from '../../src/contract/queries.ts'
import { AgentWorld } from '../support/agent-world.ts'
import { startFakeHub } from '../support/fake-hub.ts'
import { writeLlamaGguf, writeLlamaShards } from '../support/gguf-writer.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { patienceMs, type RunningAgent } from '../support/running-agent.ts'
import { StatedMemory } from '../support/stated-memory.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { eventually } from '../support/eventually.ts'

const gib = 1024 ** 3

const fit = async (
  { agent }: RunningAgent,
  question: Omit<Extract<QueryInput, { name: 'fit' }>, 'name'>,
): Promise<FitView> => (await agent.query(query.parse({ name: 'fit', ...question }))) as FitView

async function fitted(agent: RunningAgent, question: Parameters<typeof fit>[1]): Promise<FittedModelView> {
  const view = await fit(agent, question)
  if (view.kind === 'choose') throw new Error(view.message)
  return view
}

const run = (agent: RunningAgent, input: CommandInput) => agent.command(input)

/** A Hub with models of real headers, and an agent that knows no other. */
async function hubWorld() {
  await using parts = new AsyncDisposableStack()
  const { dir } = parts.use(await temporaryFolder())
  const file = join(dir, 'tiny.gguf')
  await writeLlamaGguf(file, { context: 16_384 })
  const shards = await writeLlamaShards(join(dir, 'split'), 2)
  const gguf = await readFile(file)
  const hub = parts.use(await startFakeHub())
  await hub.addRepo('org/one', { 'tiny-Q8_0.gguf': gguf })
  await hub.addRepo('org/many', {
    'tiny-Q8_0.gguf': gguf,
    'split-F16-00001-of-00002.gguf': await readFile(shards[0] ?? ''),
    'split-F16-00002-of-00002.gguf': await readFile(shards[1] ?? ''),
    'q\u202exe.gguf': gguf,
  })
  const sim = parts.use(await KubeSim.start())
  const world = parts.use(await AgentWorld.open(sim.connection()))
  const memory = new StatedMemory()
  const start = (settings = {}) => world.startAgent({ memory, settings: { hubEndpoint: hub.endpoint, ...settings } })
  const kept = parts.move()
  return { hub, world, memory, start, file, gguf, [Symbol.asyncDispose]: () => kept.disposeAsync() }
}

test('a repository with several models offers them, and the source of each is that one', async () => {
  await using at = await hubWorld()
  const agent = await at.start()
  const many = await fit(agent, { source: 'org/many' })
  expect(many).toEqual({
    kind: 'choose',
    message: expect.stringMatching(/^org\/many has several models: /) as string,
    files: [
      {
        path: 'tiny-Q8_0.gguf',
        source: 'hf://org/many/tiny-Q8_0.gguf',
        sizeBytes: at.gguf.length,
        quantization: 'Q8_0',
        parts: 1,
      },
      {
        path: 'split-F16-00001-of-00002.gguf',
        source: 'hf://org/many/split-F16-00001-of-00002.gguf',
        sizeBytes: expect.any(Number) as number,
        quantization: 'F16',
        parts: 2,
      },
    ],
  })
  const split = await fitted(agent, { source: many.files[1]?.source ?? '' })
  const whole = await fitted(agent, { source: many.files[0]?.source ?? '' })
  expect([split.parameters, split.files]).toEqual([whole.parameters, []])
  expect(Math.abs(split.sizeBytes - (many.files[1]?.sizeBytes ?? 0))).toBeLessThan(1_000)

  const chosen = await fitted(agent, { source: 'hf://org/many', quantization: 'Q8_0' })
  expect([chosen.totalBytes, chosen.files]).toEqual([whole.totalBytes, many.files])
})

test('a model is known by its header alone, and at each context its memory is what a question about that context answers', async () => {
  await using at = await hubWorld()
  const agent = await at.start()
  const view = await fitted(agent, { source: 'hf://org/one', contextSize: 8_192 })
  expect(view).toMatchObject({
    source: 'hf://org/one',
    architecture: 'llama',
    sizeBytes: at.gguf.length,
    trainedContext: 16_384,
    contextSize: 8_192,
    isStored: false,
    verdict: 'fits',
    message: expect.stringMatching(/^It fits: it needs [\d.]+ MB\.$/) as string,
    unload: [],
    ways: [],
  })
  expect(view.totalBytes).toBe(Object.values(view.items).reduce<number>((sum, bytes = 0) => sum + bytes, 0))
  const sizes = view.contexts.map(({ contextSize }) => contextSize)
  expect([sizes[0], sizes.at(-1), sizes.length]).toEqual([512, 16_384, 21])
  const sent = at.hub.requests.length
  for (const point of [view.contexts[3], view.contexts[12], view.contexts.at(-1)]) {
    const asked = await fitted(agent, { source: 'hf://org/one', contextSize: point?.contextSize })
    expect([asked.totalBytes, asked.items.kv]).toEqual([point?.totalBytes, point?.kvBytes])
  }
  expect(view.contexts.find(({ contextSize }) => contextSize === 8_192)?.totalBytes).toBe(view.totalBytes)
  // The file itself was never fetched, and its header once.
  expect([at.hub.requests.length, await fitted(agent, { source: 'org/one' })]).toEqual([
    sent,
    expect.objectContaining({ source: 'hf://org/one' }),
  ])
})

test('a namespace that this machine does not watch is not asked for', async () => {
  await using at = await hubWorld()
  const agent = await at.start()
  const sent = at.hub.requests.length
  await expect(fit(agent, { source: 'hf://org/one', namespace: 'elsewhere' })).rejects.toThrow(
    `This machine watches only the namespace ${at.world.namespace}, so it checks no model for elsewhere.`,
  )
  expect(at.hub.requests.length).toBe(sent)
})

test('what is said to fit needs as much once it is added', async () => {
  await using at = await hubWorld()
  const agent = await at.start()
  const { totalBytes, items } = await fitted(agent, { source: 'hf://org/one', contextSize: 4_096 })
  const application = { namespace: at.world.namespace, name: 'one', source: 'hf://org/one', contextSize: 4_096 }
  await run(agent, { name: 'applyModel', application })
  await agent.untilReady('one')
  expect(agent.view('one')?.memory).toMatchObject({ needBytes: totalBytes, items })
  expect(
    await fitted(agent, { source: 'hf://org/one', namespace: at.world.namespace, contextSize: 512 }),
  ).toMatchObject({
    isStored: true,
  })
})

test('beside what runs it says what must leave memory, or what the budget must be; done, it fits', async () => {
  await using at = await hubWorld()
  const alone = await at.start()
  const { totalBytes } = await fitted(alone, { source: 'hf://org/one' })
  await alone.stop()
  at.memory.totalBytes = 8 * gib
  const agent = await at.start({ memoryBudgetBytes: Math.ceil(totalBytes * 1.5) })
  const service = { namespace: at.world.namespace, name: 'one' }
  await run(agent, { name: 'applyModel', application: { ...service, source: 'hf://org/one' } })
  await agent.untilReady('one')

  const beside = await fitted(agent, { source: 'hf://org/many', quantization: 'Q8_0' })
  expect(beside).toMatchObject({
    verdict: 'afterUnloading',
    unload: [{ ...service, freesBytes: totalBytes }],
    message: expect.stringMatching(/and fits when .*\/one leaves memory, which frees [\d.]+ MB\.$/) as string,
  })
  const raise = beside.ways.find(({ kind }) => kind === 'budget')?.budget
  expect(raise).toEqual({ of: 'machine', bytes: expect.any(Number) as number })
  expect(
    (await run(agent, { name: 'updateSettings', settings: { memoryBudgetBytes: raise?.bytes ?? 0 } })).outcome,
  ).toBe('done')
  expect((await fitted(agent, { source: 'hf://org/many', quantization: 'Q8_0' })).verdict).toBe('fits')
  await run(agent, { name: 'updateSettings', settings: { memoryBudgetBytes: Math.floor(totalBytes * 1.5) } })
  await run(agent, { name: 'evict', service })
  await eventually(
    async () => (await fitted(agent, { source: 'hf://org/many', quantization: 'Q8_0' })).verdict === 'fits',
    { timeoutMs: patienceMs },
  )
})

test('alone too large, it fits after raising the budget, or with a smaller context, or not at all', async () => {
  await using at = await hubWorld()
  const first = await at.start()
  const large = await fitted(first, { source: 'hf://org/one', contextSize: 16_384 })
  const small = await fitted(first, { source: 'hf://org/one', contextSize: 2_048 })
  await first.stop()
  at.memory.totalBytes = 8 * gib
  const agent = await at.start({ memoryBudgetBytes: large.totalBytes - 1 })
  const view = await fitted(agent, { source: 'hf://org/one', contextSize: 16_384 })
  expect(view).toMatchObject({ verdict: 'afterRaising', unload: [] })
  const smaller = view.ways.find(({ change }) => change?.contextSize !== undefined && change.cacheType === undefined)
  expect(smaller?.change).toEqual({ contextSize: 15_360 })
  expect((await fitted(agent, { source: 'hf://org/one', contextSize: 15_360 })).verdict).toBe('fits')
  expect(view.contexts.map(({ verdict }) => verdict)).toEqual([
    ...Array.from({ length: 20 }, () => 'fits'),
    'afterRaising',
  ])
  await agent.stop()

  at.memory.totalBytes = small.totalBytes
  at.memory.availableBytes = small.totalBytes / 2
  const tiny = await at.start({ memoryBudgetBytes: small.totalBytes / 2 })
  expect(await fitted(tiny, { source: 'hf://org/one', contextSize: 2_048 })).toMatchObject({
    verdict: 'doesNotFit',
    message: expect.stringMatching(
      /^It needs .* more than the budget and .* more than this machine has available\. It does not fit\.$/,
    ) as string,
  })
})

test('files of this machine are looked at only where a Model may name them, in the same words whether they exist or not', async () => {
  await using at = await hubWorld()
  await using lent = await temporaryFolder()
  const agent = await at.start({ allowedModelRoots: [lent.dir] })
  const refusalOf = (source: string) =>
    fit(agent, { source }).then(
      () => 'answered',
      (error: unknown) => String(error),
    )
  const said = await Promise.all([at.file, `${at.file}.none`, '/etc/passwd'].map(refusalOf))
  expect(said.map((text) => text.replace(/\/\S+ is/, 'X is'))).toEqual(
    Array(3).fill(expect.stringMatching(/X is neither in the model store nor below a folder of --allowed-model-roots/)),
  )
  await writeLlamaGguf(join(lent.dir, 'mine.gguf'))
  expect(await fitted(agent, { source: join(lent.dir, 'mine.gguf') })).toMatchObject({
    isStored: true,
    architecture: 'llama',
  })
})
