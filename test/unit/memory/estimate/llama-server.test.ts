import { expect, test } from 'vitest'
import { estimateLlamaServer } from '../../../../src/agent-core/memory/estimate/llama-server.ts'
import { noMatches, type TensorMatches } from '../../../../src/agent-core/memory/estimate/server-arguments.ts'
import { llamaServerArgv, type LlamaServerSpec } from '../../../../src/agent-core/runtimes/llama-server.ts'
import { headerWith } from '../../../support/memory/header.ts'

const mebibyte = 1024 ** 2
const gibibyte = 1024 ** 3

const tensors = {
  'token_embd.weight': 100,
  'output_norm.weight': 1,
  'output.weight': 200,
  'blk.0.attn_q.weight': 10,
  'blk.0.ffn_up_exps.weight': 1000,
  'blk.1.attn_q.weight': 20,
  'blk.1.ffn_up_exps.weight': 3000,
}
const keys = { block_count: 2, embedding_length: 1024, context_length: 4096, 'attention.head_count': 8 }
const header = headerWith('llama', keys, tensors)
const all = 4331
const mac = { metal: true }

/** On the GPU, what is not weights being left out. */
function onGpu(argv: readonly string[], model = header, matches: TensorMatches = noMatches) {
  const whole = estimateLlamaServer({
    header: model,
    fileBytes: 5000,
    argv: ['-c', '256', ...argv],
    matches,
    host: mac,
  })
  return (whole.gpuBytes ?? 0) - whole.items.kv - whole.items.compute
}

test('weights are those of all tensors, wherever they lie; the GPU holds its layers and never the input', () => {
  expect(estimateLlamaServer({ header, fileBytes: 5000, argv: [], host: mac }).items.weights).toBe(all)
  expect(onGpu([])).toBe(all - 100)
  expect(onGpu(['-ngl', '1'])).toBe(201)
  expect(onGpu(['-ngl', '2'])).toBe(201 + 3020)
  expect(onGpu(['--cpu-moe'])).toBe(all - 100 - 4000)
  expect(onGpu(['--n-cpu-moe', '1'])).toBe(all - 100 - 1000)
  const second = ['blk.1.attn_q.weight', 'blk.1.ffn_up_exps.weight']
  const matches = { deciding: new Map(second.map((name) => [name, 'blk.1.'])), readable: new Set(['blk.1.']) }
  expect(onGpu(['-ot', 'blk.1.=CPU'], header, matches)).toBe(all - 100 - 3020)
})

test('experts that stay with the CPU take memory all the same, which a note says', () => {
  const { items, notes } = estimateLlamaServer({ header, fileBytes: 5000, argv: ['--cpu-moe'], host: mac })
  expect(items.weights).toBe(all)
  expect(notes[0]).toBe(
    '4.0 kB of the weights stay with the CPU: on a Mac that frees nothing, but it does not count against the limit of the GPU.',
  )
})

test('without a GPU nothing counts against its limit', () => {
  expect(estimateLlamaServer({ header, fileBytes: 5000, argv: [], host: { metal: false } }).gpuBytes).toBeUndefined()
  expect(estimateLlamaServer({ header, fileBytes: 5000, argv: ['-ngl', '0'], host: mac }).gpuBytes).toBeUndefined()
})

test('a KV cache that stays with the CPU takes memory, but not the GPU’s', () => {
  const argv = ['-c', '65536', '-nkvo']
  const { items, gpuBytes, notes } = estimateLlamaServer({ header, fileBytes: 5000, argv, host: mac })
  expect(items.kv).toBe(2 * 2 * 1024 * 65_536 * 2)
  expect(gpuBytes).toBe(all - 100 + items.compute)
  expect(notes[0]).toMatch(/^The KV cache stays with the CPU/)
})

test('an input that serves as output too is on the GPU as well, as a second copy where the file is not mapped', () => {
  const { 'output.weight': _, ...without } = tensors
  const tied = headerWith('llama', keys, without)
  expect(onGpu([], tied)).toBe(all - 200)
  const weights = (argv: readonly string[]) =>
    estimateLlamaServer({ header: tied, fileBytes: 5000, argv, host: mac }).items.weights
  expect([weights([]), weights(['--no-mmap'])]).toEqual([all - 200, all - 200 + 100])
})

test('whether the file is mapped is told, with and without a header', () => {
  const isMapped = (argv: readonly string[], of?: typeof header) =>
    estimateLlamaServer({ header: of, fileBytes: 5000, argv, host: mac }).mappedBytes === (of ? all : 5000)
  expect([[], ['--no-mmap'], ['--load-mode', 'mlock']].map((argv) => [isMapped(argv, header), isMapped(argv)])).toEqual(
    [
      [true, true],
      [false, false],
      [false, false],
    ],
  )
})

test('of a split model all files count, with or without the headers of the others', () => {
  const first = headerWith('llama', { ...keys, 'split.count': 2 }, { 'blk.0.attn_q.weight': 10 })
  const second = headerWith('llama', { 'split.count': 2 }, { 'blk.1.attn_q.weight': 30 })
  const weights = (shards?: (typeof second)[]) =>
    estimateLlamaServer({ header: first, ...(shards && { shards }), fileBytes: 9000, argv: [], host: mac }).items
      .weights
  expect([weights(), weights([second])]).toEqual([9000, 40])
})

/** One slot that can hold 16384 tokens: 64 MiB of cache. */
const long = ['-c', '16384', '-np', '1']
const copy = 2 * 2 * 1024 * 16_384 * 2

test.each([
  ['none where it is off', ['--cache-ram', '0'], 0, undefined],
  ['all that somebody allowed', ['-cram', '2048'], 2 * gibibyte, undefined],
  ['as many tokens as the context where nobody limits its bytes', ['--cache-ram', '-1'], copy, undefined],
  ['half a gibibyte at least', [], 512 * mebibyte, 512],
  ['a copy of the cache', ['-c', '262144'], 16 * copy, 2048],
  ['no more than llama-server’s own limit', ['-c', '2097152'], 8 * gibibyte, undefined],
])('the prompt cache is counted: %s', (_, argv, promptCache, cacheRamThatHolds) => {
  const estimate = estimateLlamaServer({ header, fileBytes: 5000, argv: [...long, ...argv], host: mac })
  expect(estimate.items.promptCache).toBe(promptCache)
  expect(estimate.cacheRamThatHolds).toBe(cacheRamThatHolds)
  expect(estimate.notes.some((note) => note.includes('--cache-ram'))).toBe(cacheRamThatHolds !== undefined)
})

test('the limit that is said to hold the prompt cache changes nothing but the note', () => {
  const estimate = (argv: readonly string[]) => estimateLlamaServer({ header, fileBytes: 5000, argv, host: mac })
  const { items, cacheRamThatHolds } = estimate(long)
  expect(estimate([...long, '--cache-ram', String(cacheRamThatHolds)])).toMatchObject({
    items,
    notes: expect.not.arrayContaining([expect.stringContaining('prompt cache')]) as string[],
  })
})

test('checkpoints of a recurrent model lie with each slot, as many as a full context has room for', () => {
  const mamba = { ...keys, 'ssm.conv_kernel': 4, 'ssm.inner_size': 2048, 'ssm.state_size': 16 }
  const promptCache = (argv: readonly string[]) =>
    estimateLlamaServer({
      header: headerWith('mamba', mamba),
      fileBytes: 5000,
      argv: [...argv, '--cache-ram', '0'],
      host: mac,
    }).items.promptCache
  const state = 2 * (3 * 2048 + 16 * 2048) * 4
  expect(promptCache(long)).toBe((2 + 3) * state)
  expect(promptCache([...long, '-np', '4'])).toBe(4 * (1 + 3) * state)
  expect(promptCache([...long, '--ctx-checkpoints', '2'])).toBe(2 * state)
  expect(promptCache(['-c', '1048576', '-np', '1'])).toBe(32 * state)
})

test('a projector counts with its file and the buffers of one picture', () => {
  const clip = headerWith('clip', {
    'vision.image_size': 336,
    'vision.patch_size': 14,
    'vision.embedding_length': 1024,
    'vision.feed_forward_length': 4096,
    'vision.attention.head_count': 16,
  })
  const of = (mmproj: { fileBytes: number; header?: typeof clip }) =>
    estimateLlamaServer({ header, fileBytes: 5000, argv: [], mmproj, host: mac }).items.mmproj
  expect(of({ fileBytes: 1000, header: clip })).toBe(1000 + 576 * (5 * 1024 + 3 * 4096) * 4 + 576 * 576 * 16 * 4)
  expect(of({ fileBytes: 1000 })).toBe(1000 + 256 * mebibyte)
})

test('extra arguments win over the fields they stand for', () => {
  const kv = (spec: LlamaServerSpec) =>
    estimateLlamaServer({
      header,
      fileBytes: 5000,
      argv: llamaServerArgv({ spec, modelPath: '/m.gguf', port: 1 }),
      host: mac,
    }).items.kv
  expect(kv({})).toBe(2 * 2 * 1024 * 2048 * 2)
  expect(kv({ contextSize: 8192 })).toBe(2 * 2 * 1024 * 8192 * 2)
  expect(kv({ contextSize: 8192, cacheTypeK: 'f32', extraArgs: ['-c', '4096', '--cache-type-k', 'f16'] })).toBe(
    2 * 2 * 1024 * 4096 * 2,
  )
})

test.each([
  ['f32', 4],
  ['f16', 2],
  ['bf16', 2],
  ['q8_0', 1.0625],
  ['q5_1', 0.75],
  ['q5_0', 0.6875],
  ['q4_1', 0.625],
  ['q4_0', 0.5625],
  ['iq4_nl', 0.5625],
  ['turbo4', 0.53125],
  ['turbo3', 0.40625],
])('an element in %s takes %d bytes', (name, bytes) => {
  const argv = ['-c', '4096', '-np', '1', '-ctk', name, '-ctv', name]
  const { items, guess } = estimateLlamaServer({ header, fileBytes: 5000, argv, host: mac })
  expect(items.kv).toBe(2 * 2 * 1024 * 4096 * bytes)
  expect(guess).toBeUndefined()
})

test.each(['turbo2', 'turbo4v2', 'tbqp3'])(
  'of the cache type %s nobody knows the size, which makes it a guess',
  (name) => {
    const argv = ['-c', '4096', '-np', '1', '-ctk', name]
    const { items, guess } = estimateLlamaServer({ header, fileBytes: 5000, argv, host: mac })
    expect(items.kv).toBe(2 * 2 * 1024 * 4096 * 2)
    expect(guess).toBe(`The size of the cache type ${name} is not known, so it is counted as f16.`)
  },
)

test('without a header it is the Go agent’s guess, and is marked as one', () => {
  const fileBytes = 4_831_838_208
  const guessed = (argv: readonly string[], status?: { layerCount: number; embeddingSize: number }) =>
    estimateLlamaServer({ header: undefined, fileBytes, argv, ...(status && { status }), host: mac })
  const known = guessed(['-c', '2048'], { layerCount: 32, embeddingSize: 4096 })
  expect(known).toMatchObject({ total: fileBytes + gibibyte + 512 * mebibyte, items: { kv: gibibyte } })
  expect(known.guess).toMatch(/^The header of the model could not be read/)
  expect(guessed(['-c', '65536'], { layerCount: 32, embeddingSize: 4096 }).items.kv).toBe(32 * gibibyte)
  const mixed = ['-c', '2048', '-ctk', 'q8_0', '-ctv', 'turbo4']
  expect(guessed(mixed, { layerCount: 32, embeddingSize: 4096 }).items.kv).toBe(Math.ceil(32 * 4096 * 2048 * 1.59375))
  for (const one of [guessed([]), guessed(['-c', '9007199254740991'], { layerCount: 32, embeddingSize: 4096 })]) {
    expect(one).toMatchObject({ items: { kv: 0 }, total: Math.ceil(fileBytes * 1.2) + 512 * mebibyte })
  }
})

test('a header that lacks what every model has is as good as none', () => {
  const bare = headerWith('llama', { block_count: 2 }, tensors)
  const { guess, total } = estimateLlamaServer({ header: bare, fileBytes: 1000, argv: [], host: mac })
  expect({ guess, total }).toEqual({
    guess:
      'The header of the model does not describe its structure: a fifth of its size plus 512 MiB is assumed for everything else.',
    total: 1200 + 512 * mebibyte,
  })
})

test('numbers in a header that no computer could hold are refused', () => {
  const absurd = headerWith('llama', { ...keys, embedding_length: 2 ** 50, 'attention.head_count_kv': 8 })
  expect(() => estimateLlamaServer({ header: absurd, fileBytes: 1, argv: [], host: mac })).toThrow(
    /^The header of the model is wrong/,
  )
  expect(
    estimateLlamaServer({
      header: headerWith('llama', { ...keys, block_count: 1e9 }),
      fileBytes: 1,
      argv: [],
      host: mac,
    }).guess,
  ).toMatch(/does not describe its structure/)
})

test('a draft model counts as a model of its own, in the context and the slots of the one that it drafts for', () => {
  const argv = ['-c', '4096', '-np', '2', '-md', '/draft.gguf', '-ctkd', 'q8_0', '-ctk', 'q4_0']
  const estimate = (draft?: { fileBytes: number; header?: typeof header }) =>
    estimateLlamaServer({ header, fileBytes: 5000, argv, host: mac, ...(draft && { draft }) })
  const alone = estimate()
  const own = estimateLlamaServer({
    header,
    fileBytes: 5000,
    argv: ['-c', '4096', '-np', '2', '-ctk', 'q8_0'],
    host: mac,
  })
  const drafted = estimate({ fileBytes: 5000, header })
  const { weights, kv, compute } = own.items
  expect(drafted.items.draft).toBe(weights + kv + compute + 1000 * 256)
  expect((drafted.gpuBytes ?? 0) - (alone.gpuBytes ?? 0)).toBe(own.gpuBytes ?? 0)
  expect(drafted.guess).toBeUndefined()
  const unread = estimate({ fileBytes: gibibyte })
  expect(unread.items.draft).toBe(Math.ceil(1.2 * gibibyte) + 512 * mebibyte)
  expect(unread.guess).toMatch(/^The header of the draft model could not be read/)
})

test('adapters and control vectors count with their files, and a file that cannot be looked at is named', () => {
  const estimate = estimateLlamaServer({
    header,
    fileBytes: 5000,
    argv: [],
    host: mac,
    adapterBytes: 700,
    unseen: ['x.gguf'],
  })
  expect(estimate.items.adapters).toBe(700)
  expect(estimate.guess).toBe('Not counted, because it cannot be read: x.gguf.')
})

test('what a spec overrides in the header counts: a context that is asked for as trained is the one that it says', () => {
  const kv = (...argv: string[]) => estimateLlamaServer({ header, fileBytes: 5000, argv, host: mac }).items.kv
  const longer = ['--override-kv', 'x=str:y,llama.context_length=int:65536']
  expect(kv('-c', '0', ...longer)).toBe(16 * kv('-c', '0'))
})
