import { execaSync } from 'execa'
import { stat } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { estimateLlamaServer } from '../../src/agent-core/memory/estimate/llama-server.ts'
import { readGgufHeader } from '../../src/agent-core/models/gguf/file-header.ts'
import { writeGguf } from '../support/gguf-writer.ts'
import { modelOf, type ModelShape, type SampleArchitecture } from '../support/memory/model-shapes.ts'
import { serverSizes } from '../support/memory/server-sizes.ts'
import { useLlamaServer } from '../support/skip.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const llamaServer = useLlamaServer()

/** Smaller items say nothing: rounding and fixed tables would decide. */
const leastCompared = 64 * 1024 ** 2
const tolerance = 0.05

const shape: ModelShape = {
  blocks: 8,
  embedding: 1024,
  heads: 16,
  kvHeads: 4,
  headLength: 64,
  feedForward: 4096,
  vocabulary: 2048,
}
const experts = (count: number, used: number, feedForward: number) => ({ experts: { count, used, feedForward } })
const common = ['-c', '16384', '-np', '1', '-ub', '1024', '-fa', 'on']

type Item = 'weights' | 'kv' | 'compute'
interface Case {
  readonly name: string
  readonly of: SampleArchitecture
  readonly shape?: Partial<ModelShape>
  readonly args: readonly string[]
}

const cases: readonly Case[] = [
  { name: 'one KV head for four heads', of: 'llama', args: common },
  {
    name: 'a KV head for every head',
    of: 'llama',
    shape: { kvHeads: 16, headLength: 128, feedForward: 256 },
    args: common,
  },
  { name: 'one KV head for all', of: 'llama', shape: { kvHeads: 1 }, args: ['-c', '65536', '-np', '1', '-ub', '1024'] },
  { name: 'wide heads', of: 'gemma3', shape: { headLength: 128 }, args: common },
  { name: 'a context that is no multiple of 256', of: 'qwen2', args: [...common, '-c', '20001'] },
  { name: 'the whole trained context', of: 'llama', shape: { context: 24_576 }, args: [...common, '-c', '0'] },
  { name: 'slots with a part of the context each', of: 'llama', args: [...common, '-np', '3'] },
  { name: 'as many slots as llama-server likes, sharing one cache', of: 'llama', args: ['-c', '16384', '-ub', '2048'] },
  { name: 'slots that share one cache', of: 'llama', args: [...common, '-np', '6', '--kv-unified'] },
  {
    name: 'keys in q8_0 and values in q4_0',
    of: 'llama',
    args: [...common, '-c', '65536', '-ctk', 'q8_0', '-ctv', 'q4_0'],
  },
  { name: 'keys in f32 and values in bf16', of: 'llama', args: [...common, '-ctk', 'f32', '-ctv', 'bf16'] },
  { name: 'q5_1 and iq4_nl', of: 'llama', args: [...common, '-c', '65536', '-ctk', 'q5_1', '-ctv', 'iq4_nl'] },
  {
    name: 'a sliding window',
    of: 'gemma3',
    shape: { blocks: 12, slidingWindow: 1024 },
    args: [...common, '-c', '65536'],
  },
  {
    name: 'a sliding window in a cache that slots share',
    of: 'gemma3',
    shape: { blocks: 12, slidingWindow: 2048 },
    args: [...common, '-np', '4', '-kvu', '-c', '32768'],
  },
  {
    name: 'a sliding window in parts',
    of: 'gemma3',
    shape: { blocks: 12, slidingWindow: 512, kvHeads: 8 },
    args: [...common, '-np', '4', '-c', '65536'],
  },
  {
    name: 'a window whose room is not saved',
    of: 'gemma3',
    shape: { blocks: 12, slidingWindow: 1024 },
    args: [...common, '--swa-full'],
  },
  {
    name: 'a pattern of windows in the header',
    of: 'gemma3',
    shape: {
      slidingWindow: 1024,
      metadata: { 'attention.sliding_window_pattern': [true, true, true, false, true, true, true, false] },
    },
    args: [...common, '-c', '65536'],
  },
  { name: 'many narrow experts', of: 'qwen3moe', shape: experts(16, 8, 384), args: common },
  { name: 'narrow experts whose answers fill what is free', of: 'qwen3moe', shape: experts(16, 8, 128), args: common },
  { name: 'few wide experts', of: 'qwen3moe', shape: experts(8, 2, 2048), args: common },
  { name: 'experts of a llama', of: 'llama', shape: { feedForward: 1024, ...experts(8, 2, 1024) }, args: common },
  { name: 'no flash attention', of: 'llama', args: ['-c', '16384', '-np', '1', '-ub', '512', '-fa', 'off'] },
  { name: 'no flash attention, but slots', of: 'llama', args: ['-c', '32768', '-np', '4', '-ub', '512', '-fa', 'off'] },
  {
    name: 'a wide feed-forward layer',
    of: 'llama',
    shape: { blocks: 4, feedForward: 16_384 },
    args: [...common, '-c', '32768', '-b', '512'],
  },
  {
    name: 'the outputs of an embedding model',
    of: 'llama',
    shape: { vocabulary: 65_536 },
    args: [...common, '--embedding', '--pooling', 'last'],
  },
]

test.each(cases)('what llama-server says it allocated is what was estimated: $name', async ({ of, args, ...one }) => {
  await using folder = await temporaryFolder()
  const file = path.join(folder.dir, 'model.gguf')
  await writeGguf(file, modelOf(of, { ...shape, ...one.shape }))
  const argv = ['-m', file, ...mapped(), ...args]

  const { items } = estimateLlamaServer({
    header: await readGgufHeader(file),
    fileBytes: (await stat(file)).size,
    argv,
    host: { metal: false },
  })
  const said = await serverSizes(llamaServer, argv)

  const compared: readonly Item[] = ['weights', 'kv', 'compute']
  const sizes: Record<Item, readonly [estimated: number, real: number]> = {
    weights: [items.weights, said.weights],
    kv: [items.kv, said.kv + said.recurrent],
    compute: [items.compute, said.compute],
  }
  const off = compared.map((item) => {
    const [estimated, real] = sizes[item]
    return { item, isLarge: real >= leastCompared, isClose: Math.abs(estimated - real) <= tolerance * real }
  })
  const figures = compared.map(
    (item) => `${item} ${sizes[item].map((bytes) => (bytes / 1024 ** 2).toFixed(2)).join(' of ')} MiB`,
  )
  expect(off, figures.join(', ')).toEqual(compared.map((item) => ({ item, isLarge: true, isClose: true })))
})

test('what llama-server says it allocated for a draft model is what was estimated for it', async () => {
  await using folder = await temporaryFolder()
  const [file, drafter] = [path.join(folder.dir, 'model.gguf'), path.join(folder.dir, 'draft.gguf')]
  await writeGguf(file, modelOf('llama', { ...shape, blocks: 2 }))
  await writeGguf(drafter, modelOf('llama', shape))
  const alone = ['-m', file, ...mapped(), '-c', '16384', '-np', '2', '-ctk', 'q4_0']
  const argv = [...alone, '-md', drafter, '-ctkd', 'q8_0']
  const draft = { header: await readGgufHeader(drafter), fileBytes: (await stat(drafter)).size }
  const { items } = estimateLlamaServer({
    header: await readGgufHeader(file),
    fileBytes: (await stat(file)).size,
    ...{ argv, draft, host: { metal: false } },
  })
  const [without, said] = [await serverSizes(llamaServer, alone), await serverSizes(llamaServer, argv)]
  const real = said.weights - without.weights + said.kv - without.kv + said.compute - without.compute
  expect(items.draft, `${items.draft} of ${real}`).toBeGreaterThan((1 - tolerance) * real)
  expect(items.draft, `${items.draft} of ${real}`).toBeLessThan((1 + tolerance) * real)
})

/** Never locked into memory: the weights are holes, but pages nevertheless. */
function mapped(): string[] {
  const { stdout } = execaSync(llamaServer, ['--help'])
  return stdout.includes('--load-mode') ? ['--load-mode', 'mmap'] : []
}
