import { expect, test } from 'vitest'
import { cacheSize } from '../../../../src/agent-core/memory/estimate/kv-cache.ts'
import { shapeOf } from '../../../../src/agent-core/memory/estimate/model-shape.ts'
import { serverArguments } from '../../../../src/agent-core/memory/estimate/server-arguments.ts'
import { headerWith } from '../../../support/memory/header.ts'

/** One slot, 8192 tokens, f16. */
const plainArgs = ['-c', '8192', '-np', '1', '-fa', 'on']
const cells = 8192
const f16 = 2

function sizeOf(architecture: string, keys: Parameters<typeof headerWith>[1], args: readonly string[] = plainArgs) {
  const shape = shapeOf(headerWith(architecture, { context_length: 131_072, ...keys }))
  if (shape === undefined) throw new Error('The header is incomplete.')
  return { ...cacheSize(shape, serverArguments(args)), assumptions: shape.assumptions }
}

test('latent attention keeps one compressed row for all heads and no values (llama_hparams::is_mla, llama_kv_cache)', () => {
  // DeepSeek-V3: kv_lora_rank 512 + rope 64 = key_length 576.
  const deepseek = {
    block_count: 61,
    embedding_length: 7168,
    'attention.head_count': 128,
    'attention.head_count_kv': 1,
    'attention.key_length': 576,
    'attention.value_length': 512,
  }
  const latent = { ...deepseek, 'attention.key_length_mla': 192, 'attention.value_length_mla': 128 }
  expect(sizeOf('deepseek2', latent).attentionBytes).toBe(61 * 576 * cells * f16)
  // Files from before the split keep keys and values of every head.
  const old = {
    ...deepseek,
    'attention.head_count_kv': 128,
    'attention.key_length': 192,
    'attention.value_length': 128,
  }
  expect(sizeOf('deepseek2', old).attentionBytes).toBe(61 * 128 * (192 + 128) * cells * f16)
})

test('sparse attention keeps indexer keys besides (llama_kv_cache_dsa)', () => {
  const keys = {
    block_count: 4,
    embedding_length: 7168,
    'attention.head_count': 128,
    'attention.head_count_kv': 1,
    'attention.key_length': 576,
    'attention.value_length': 512,
    'attention.key_length_mla': 192,
    'attention.value_length_mla': 128,
    'attention.indexer.key_length': 128,
  }
  expect(sizeOf('deepseek32', keys).attentionBytes).toBe(4 * (576 + 128) * cells * f16)
})

test('blocks that only predict further tokens have no cache (llama_model::create_memory, n_layer_nextn)', () => {
  const keys = { block_count: 5, embedding_length: 1024, 'attention.head_count': 8, 'attention.head_count_kv': 2 }
  expect(sizeOf('glm4moe', { ...keys, nextn_predict_layers: 1 }).attentionBytes).toBe(4 * 2 * 2 * 128 * cells * f16)
})

const mamba = {
  block_count: 3,
  embedding_length: 1024,
  'ssm.conv_kernel': 4,
  'ssm.inner_size': 2048,
  'ssm.state_size': 16,
}

test('a recurrent model keeps one state for each slot, whatever the context (llama_hparams::n_embd_r, n_embd_s)', () => {
  const state = 3 * 2048 + 16 * 2048
  expect(sizeOf('mamba', mamba)).toMatchObject({ attentionBytes: 0, stateBytes: 3 * state * 4 })
  expect(sizeOf('mamba', mamba, ['-c', '65536', '-np', '3'])).toMatchObject({ stateBytes: 3 * 3 * state * 4 })
  const withGroups = 3 * (2048 + 2 * 8 * 16) + 16 * 2048
  expect(sizeOf('mamba2', { ...mamba, 'ssm.group_count': 8 })).toMatchObject({ stateBytes: 3 * withGroups * 4 })
})

test('RWKV keeps token shifts and a matrix for each head', () => {
  const keys = { block_count: 3, embedding_length: 1024, 'wkv.head_size': 64 }
  expect(sizeOf('rwkv7', keys).stateBytes).toBe(3 * (2 * 1024 + 1024 * 64) * 4)
  expect(sizeOf('rwkv6qwen2', { ...keys, token_shift_count: 1 }).stateBytes).toBe(3 * (1024 + 1024 * 64) * 4)
})

const heads = { 'attention.head_count': 8, 'attention.key_length': 128, 'attention.value_length': 128 }

test.each([
  // jamba.cpp and others: a layer without KV heads is recurrent.
  ['jamba', { ...mamba, block_count: 4, ...heads, 'attention.head_count_kv': [0, 2, 0, 2] }, 2, 2],
  ['granitehybrid', { ...mamba, block_count: 4, ...heads, 'attention.head_count_kv': [0, 0, 0, 2] }, 1, 3],
  // qwen3next.cpp: every fourth layer attends.
  ['qwen3next', { ...mamba, block_count: 8, ...heads, 'attention.head_count_kv': 2 }, 2, 6],
  ['qwen3next', { ...mamba, block_count: 8, ...heads, 'attention.head_count_kv': 2, full_attention_interval: 2 }, 4, 4],
  [
    'qwen35',
    {
      ...mamba,
      block_count: 4,
      ...heads,
      'attention.head_count_kv': 2,
      'attention.recurrent_layers': [true, false, true, true],
    },
    1,
    3,
  ],
  // falcon-h1.cpp: every layer is both.
  ['falcon-h1', { ...mamba, ...heads, 'attention.head_count_kv': 2 }, 3, 3],
  // nemotron-h.cpp: a layer is recurrent, attention, or feed-forward.
  [
    'nemotron_h',
    {
      ...mamba,
      block_count: 4,
      ...heads,
      'attention.head_count_kv': [0, 2, 0, 0],
      feed_forward_length: [0, 0, 512, 0],
    },
    1,
    2,
  ],
])('a hybrid %s has %i caches and as many states as layers that recur', (architecture, keys, attending, recurring) => {
  const { attentionBytes, stateBytes } = sizeOf(architecture, keys)
  expect({
    attending: attentionBytes / (2 * 2 * 128 * cells * f16),
    recurring: stateBytes / ((3 * 2048 + 16 * 2048) * 4),
  }).toEqual({ attending, recurring })
})

test('short convolutions, delta attention and lightning attention have states of their own size', () => {
  const keys = { block_count: 2, embedding_length: 1024, ...heads, 'attention.head_count_kv': [0, 2] }
  expect(sizeOf('lfm2', { ...keys, 'shortconv.l_cache': 3 }).stateBytes).toBe(1024 * 2 * 4)
  const delta = 3 * 3 * 8 * 128 + 128 * 128 * 8
  expect(sizeOf('kimi-linear', { ...keys, 'kda.head_dim': 128, 'ssm.conv_kernel': 4 }).stateBytes).toBe(delta * 4)
  const lightning = { ...keys, block_count: 8, 'attention.head_count_kv': 2 }
  expect(sizeOf('minimax-01', lightning).stateBytes).toBe(7 * 128 * 128 * 8 * 4)
})

const windowed = {
  block_count: 12,
  embedding_length: 1024,
  ...heads,
  'attention.head_count_kv': 2,
  'attention.sliding_window': 1024,
}
/** Of one layer. */
const layer = (tokens: number) => 2 * 2 * 128 * tokens * f16

test.each([
  // set_swa_pattern: of each n layers the last attends to everything, or the first.
  ['gemma2', windowed, 6],
  ['gemma3', windowed, 2],
  ['gpt-oss', windowed, 6],
  ['cohere2', windowed, 3],
  ['cohere2moe', windowed, 3],
  ['plamo3', windowed, 1],
  ['gemma3', { ...windowed, 'attention.sliding_window_pattern': 3 }, 4],
  ['mimo2', { ...windowed, block_count: 3, 'attention.sliding_window_pattern': [true, false, true] }, 1],
])('%s has windows in all but some layers', (architecture, keys, full) => {
  const inWindow = keys.block_count - full
  expect(sizeOf(architecture, keys).attentionBytes).toBe(full * layer(cells) + inWindow * layer(1024 + 512))
})

test('a cache that all slots share has a window for each of them', () => {
  const args = ['-c', '32768', '-np', '4', '-fa', 'on']
  expect(sizeOf('gemma3', windowed, [...args, '--kv-unified']).cells).toEqual({
    full: 32_768,
    windowed: 4 * 1024 + 512,
  })
  expect(sizeOf('gemma3', windowed, args).cells).toEqual({ full: 8_192, windowed: 1024 + 512 })
})

test('windows of a length of their own, and those that are not used, are as llama.cpp has them', () => {
  const { 'attention.sliding_window': _, ...unnamed } = windowed
  expect(sizeOf('gemma2', unnamed).attentionBytes).toBe(6 * layer(cells) + 6 * layer(4096 + 512))
  expect(sizeOf('llama4', unnamed, ['-c', '32768', '-np', '1']).attentionBytes).toBe(
    3 * layer(32_768) + 9 * layer(8192 + 512),
  )
  expect(sizeOf('llama4', { ...unnamed, 'attention.sliding_window': 0 }).attentionBytes).toBe(12 * layer(cells))
  expect(sizeOf('exaone4', windowed).attentionBytes).toBe(12 * layer(cells))
  expect(sizeOf('gemma3', unnamed).attentionBytes).toBe(12 * layer(cells))
})

test('an architecture whose windows nobody knows counts as plain attention, and says so', () => {
  const { attentionBytes, assumptions } = sizeOf('brandnew', windowed)
  expect(attentionBytes).toBe(12 * layer(cells))
  expect(assumptions).toEqual(['The sliding window of brandnew is not known: every layer counts as plain attention.'])
})

test('windowed layers may have heads of another length', () => {
  const keys = { ...windowed, 'attention.key_length_swa': 64, 'attention.value_length_swa': 64 }
  expect(sizeOf('gemma3', keys).attentionBytes).toBe(2 * layer(cells) + (10 * layer(1024 + 512)) / 2)
})

test('layers that use the cache of others have none (llama_hparams::has_kv)', () => {
  const flags = Array.from({ length: 12 }, (_, index) => index % 2 === 0)
  const gemma4 = { ...windowed, 'attention.sliding_window_pattern': flags, 'attention.shared_kv_layers': 6 }
  expect(sizeOf('gemma4', gemma4).attentionBytes).toBe(3 * layer(cells) + 3 * layer(1024 + 512))
  const gemma3n = { ...windowed, block_count: 35 }
  expect(sizeOf('gemma3n', gemma3n).attentionBytes).toBe(4 * layer(cells) + 16 * layer(1024 + 512))
})

test('without flash attention the values of every layer take the room of the widest', () => {
  const keys = { block_count: 2, embedding_length: 1024, ...heads, 'attention.head_count_kv': [2, 8] }
  const [narrow, wide] = [2 * 128 * cells * f16, 8 * 128 * cells * f16]
  expect(sizeOf('openelm', keys).attentionBytes).toBe(2 * narrow + 2 * wide)
  expect(sizeOf('openelm', keys, [...plainArgs, '-fa', 'off']).attentionBytes).toBe(narrow + wide + 2 * wide)
})

test('an encoder keeps nothing between batches', () => {
  expect(
    sizeOf('nomic-bert', { block_count: 12, embedding_length: 768, 'attention.head_count': 12 }).attentionBytes,
  ).toBe(0)
})
