import { expect, test } from 'vitest'
import {
  matchTensors,
  overridePatterns,
  serverArguments,
} from '../../../../src/agent-core/memory/estimate/server-arguments.ts'

test('what nobody says is as llama-server has it', () => {
  const { keepsOnCpu, ...rest } = serverArguments([])
  expect(rest).toEqual({
    contextTokens: 0,
    batch: 2048,
    microBatch: 512,
    slots: 4,
    isUnified: true,
    cacheTypeK: 'f16',
    cacheTypeV: 'f16',
    flashAttention: true,
    fullSlidingWindow: false,
    offloadsKv: true,
    gpuLayers: 1_048_576,
    isMapped: true,
    embeds: false,
    cacheRam: undefined,
    checkpoints: 32,
    checkpointStep: 8192,
    mmproj: undefined,
    offloadsMmproj: true,
    boundsOutputs: false,
    draft: undefined,
    adapters: [],
    headerOverrides: new Map(),
    unreadable: [],
  })
  expect(keepsOnCpu('blk.0.ffn_up_exps.weight')).toBe(false)
})

test.each([
  ['the last one', ['--ctx-size', '2048', '-c', '8192'], 8192],
  ['the last one in long form', ['-c', '8192', '--ctx-size', '4096'], 4096],
  ['one after an equals sign', ['-c', '8192', '--ctx-size=16384'], 16_384],
  ['one with underscores', ['--ctx_size', '1024'], 1024],
  ['the whole trained one where it is 0', ['-c', '4096', '-c', '0'], 0],
])('the context is %s', (_, argv, contextTokens) => {
  expect(serverArguments(argv, { LLAMA_ARG_CTX_SIZE: '512' })).toMatchObject({ contextTokens })
})

test('a variable counts where no argument is given', () => {
  const env = {
    LLAMA_ARG_CTX_SIZE: '512',
    LLAMA_ARG_N_PARALLEL: '2',
    LLAMA_ARG_KV_OFFLOAD: '0',
    LLAMA_ARG_CACHE_TYPE_K: 'q8_0',
  }
  expect(serverArguments(['--cache-type-k', 'q4_0'], env)).toMatchObject({
    contextTokens: 512,
    slots: 2,
    offloadsKv: false,
    cacheTypeK: 'q4_0',
  })
})

test('slots part the context unless they share it, and share it where llama-server chooses their number', () => {
  expect(serverArguments(['-np', '3'])).toMatchObject({ slots: 3, isUnified: false })
  expect(serverArguments(['-np', '3', '--kv-unified'])).toMatchObject({ slots: 3, isUnified: true })
  expect(serverArguments(['-kvu', '-np', '3', '--no-kv-unified'])).toMatchObject({ isUnified: false })
  expect(serverArguments(['--parallel', '-1', '-no-kvu'])).toMatchObject({ slots: 4, isUnified: true })
  expect(serverArguments(['-np', '3', '--kv-unified-per-slot', '4096'])).toMatchObject({ contextTokens: 12_288 })
})

test('a value is never taken for a flag, nor a flag for a value', () => {
  expect(serverArguments(['--model', '--swa-full.gguf', '--alias', 'x=y', '-fa', '-c', '4096'])).toMatchObject({
    flashAttention: true,
    contextTokens: 4096,
    fullSlidingWindow: false,
  })
  expect(serverArguments(['-fa', 'off', '--no-mmap', '-nkvo'])).toMatchObject({
    flashAttention: false,
    isMapped: false,
    offloadsKv: false,
  })
  expect(serverArguments(['--load-mode', 'mlock'])).toMatchObject({ isMapped: false, boundsOutputs: true })
  expect(serverArguments(['--load-mode', 'mmap+mlock'])).toMatchObject({ isMapped: true })
})

test('an embedding server has batches no longer than its micro-batches', () => {
  expect(serverArguments(['--embedding', '-b', '4096', '-ub', '1024'])).toMatchObject({ batch: 1024, embeds: true })
  expect(serverArguments(['-b', '256'])).toMatchObject({ batch: 256, microBatch: 256 })
})

test('tensors stay with the CPU where the first override that matches says so', async () => {
  const argv = [
    ...['-ot', String.raw`blk\.1\.ffn_up_exps=Metal,blk\.[01]\..*_exps=CPU`],
    ...['-ot', '([=CPU,([=CPU', '--n-cpu-moe', '3', '-ncffn', '1'],
  ]
  const names = [
    '0.ffn_up_exps',
    '1.ffn_up_exps',
    '1.ffn_down_exps',
    '2.ffn_up_exps',
    '3.ffn_up_exps',
    '0.ffn_up',
    '1.ffn_up',
  ]
  const matches = await matchTensors(
    overridePatterns(argv),
    names.map((name) => `blk.${name}.weight`),
  )
  const { keepsOnCpu, unreadable } = serverArguments(argv, {}, matches)
  expect(names.filter((name) => keepsOnCpu(`blk.${name}.weight`))).toEqual([
    '0.ffn_up_exps',
    '1.ffn_down_exps',
    '2.ffn_up_exps',
    '0.ffn_up',
  ])
  expect(unreadable).toEqual(['([=CPU'])
})

test('a number is read as llama-server reads it: the digits in front of whatever follows', () => {
  const argv = ['-c', '1000000.9', '-np', '8.5', '--cache-ram', '20000.0']
  expect(serverArguments(argv)).toMatchObject({ contextTokens: 1_000_000, slots: 8, cacheRam: 20_000 })
})

test('a draft model has cache types and layers on the GPU of its own; adapters count as often as they are named', () => {
  const argv = ['-ctk', 'q4_0', '-md', '/d.gguf', '-ctkd', 'q8_0', '-ngld', '3', '--lora', '/a.gguf,/b.gguf']
  const scaled = ['--lora-scaled', '/a.gguf:0.5,/c:d.gguf:2', '--control-vector', '/v.gguf']
  expect(serverArguments([...argv, ...scaled, '--control-vector-scaled', '/w.gguf:1'])).toMatchObject({
    draft: { file: '/d.gguf', cacheTypeK: 'q8_0', cacheTypeV: 'f16', gpuLayers: 3 },
    adapters: ['/a.gguf', '/b.gguf', '/v.gguf', '/a.gguf', '/c:d.gguf', '/w.gguf'],
  })
})
