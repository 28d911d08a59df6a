import { mkdir, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import { fitView } from '../../src/contract/fit.ts'
import { connectToAgent } from '../../src/serve/client/agent-client.ts'
import { socketPathFor } from '../../src/agent-core/state/socket-path.ts'
import { startFakeHub } from '../support/fake-hub.ts'
import { writeGguf, writeLlamaGguf } from '../support/gguf-writer.ts'
import { maxHeld, watchedAgent } from '../support/event-loop/health-watch.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const apiVersion = 'inference.llmkube.dev/v1alpha1'
/** As many as all files of a model may have, over four. */
const perFile = 32_750

const numbered = (index: number, count: number) =>
  `many-F16-${String(index).padStart(5, '0')}-of-${String(count).padStart(5, '0')}.gguf`

test('a pasted repository of many files with many tensors never holds the event loop, and is refused where they are too many', async () => {
  await using folder = await temporaryFolder()
  await using sim = await KubeSim.start()
  await using hub = await startFakeHub()
  const further = path.join(folder.dir, 'further.gguf')
  await writeGguf(further, {
    metadata: { 'split.count': 5, 'split.no': 1 },
    weights: 'hole',
    tensors: Array.from({ length: perFile }, (_, at) => ({
      name: `blk.${at % 64}.expert.${at}.weight`,
      dimensions: [32],
    })),
  })
  const more = await readFile(further)
  const repository = async (count: number) => {
    const first = path.join(folder.dir, 'first.gguf')
    await writeLlamaGguf(first, { context: 2_097_152, metadata: { 'split.count': count, 'split.no': 0 } })
    const parts = [await readFile(first), ...Array.from({ length: count - 1 }, () => more)]
    return Object.fromEntries(parts.map((part, at) => [numbered(at + 1, count), part]))
  }
  await hub.addRepo('org/many', await repository(5))
  await hub.addRepo('org/too-many', await repository(6))
  await using watched = await watchedAgent({
    folder: folder.dir,
    kubeconfig: sim.kubeconfig(),
    args: ['--llama-server', sampleServerPath, '--hub-endpoint', hub.endpoint],
  })
  const { stateDir } = watched.agent
  await using client = await connectToAgent({ socketPath: socketPathFor(stateDir, tmpdir()), stateDir })
  const view = fitView.parse(await client.query({ name: 'fit', source: 'hf://org/many' }))
  expect(view).toMatchObject({ kind: 'model', parameters: expect.any(Number) as number })
  expect('contexts' in view && view.contexts.length).toBeGreaterThan(40)
  await expect(client.query({ name: 'fit', source: 'hf://org/too-many' })).rejects.toThrow(
    /^The 6 files claim more than 131072 tensors or 64 MiB of GGUF headers together, which no model has/,
  )
  expect(await watched.health.longest()).toBeLessThan(maxHeld)
}, 150_000)

test('as many overrides as are taken, of a model with as many tensors as there may be, never hold the event loop', async () => {
  await using folder = await temporaryFolder()
  await using sim = await KubeSim.start()
  const store = path.join(folder.dir, 'models')
  await mkdir(store, { mode: 0o700 })
  const source = path.join(store, 'many.gguf')
  const tensors = Array.from({ length: perFile }, (_, at) => ({ name: `blk.${at}.weight`, dimensions: [32] }))
  const metadata = {
    ...{ 'general.architecture': 'llama', 'llama.block_count': 50 },
    ...{ 'llama.embedding_length': 64, 'llama.attention.head_count': 1 },
  }
  await writeGguf(source, { metadata, weights: 'hole', tensors })
  const model = { source, format: 'gguf', hardware: { accelerator: 'metal' } }
  sim.create({ apiVersion, kind: 'Model', metadata: { name: 'many' }, spec: model })
  await using watched = await watchedAgent({
    folder: folder.dir,
    kubeconfig: sim.kubeconfig(),
    args: ['--llama-server', sampleServerPath, '--memory-budget', '1Mi'],
  })
  const distinct = Array.from({ length: 255 }, (_, at) => `never${at}=CPU`)
  const specs = {
    patterns: { tensorOverrides: [...distinct, String.raw`blk\.[01]\.=CPU`] },
    lists: { tensorOverrides: Array.from({ length: 200 }, () => distinct.slice(0, 60).join(',')) },
    endless: { tensorOverrides: ['(a*)*(b*)*(.*)*$=CPU'] },
  }
  for (const [name, spec] of Object.entries(specs)) {
    const metadata = { name }
    sim.create({ apiVersion, kind: 'InferenceService', metadata, spec: { modelRef: 'many', ...spec } })
  }
  for (const name of Object.keys(specs)) {
    await watched.agent.shows(
      ({ services }) =>
        services.some((one) => one.name === name && /^(InsufficientMemory|MemoryCheckFailed)$/.test(one.reason)),
      `the need of ${name}`,
    )
  }
  expect(await watched.health.longest()).toBeLessThan(maxHeld)
}, 150_000)
