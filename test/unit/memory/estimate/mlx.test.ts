import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { expect, test } from 'vitest'
import { configProblem, estimateMlx, readMlxFolder } from '../../../../src/agent-core/memory/estimate/mlx.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

const config = {
  num_hidden_layers: 4,
  hidden_size: 2048,
  num_attention_heads: 16,
  num_key_value_heads: 4,
  intermediate_size: 8192,
  vocab_size: 1000,
  max_position_embeddings: 4096,
}
const kv = (changes: object, contextTokens?: number, slots = 1) =>
  estimateMlx({
    config: { ...config, ...changes },
    tensorBytes: 1,
    slots,
    ...(contextTokens !== undefined && { contextTokens }),
  }).items.kv
/** One layer's keys and values in two bytes, for so many tokens and one step more. */
const layer = (tokens: number) => windowed(tokens + 256)
const windowed = (tokens: number) => 2 * 4 * 128 * tokens * 2

test('each layer keeps keys and values, and room for 256 tokens more (mlx_lm/models/cache.py, BatchKVCache)', () => {
  expect(kv({}, 8192)).toBe(4 * layer(8192))
  expect(kv({}, 8193)).toBe(4 * layer(8193))
  expect(kv({}, 8192, 3)).toBe(3 * 4 * layer(8192))
  expect(kv({ head_dim: 64 }, 8192)).toBe(4 * layer(8192) * 0.5)
  expect(kv({ num_key_value_heads: null }, 8192)).toBe(4 * layer(8192) * 4)
})

test('windowed layers hold all that is read at once until the first token, which is counted as compute', () => {
  const compute = (changes: object) =>
    estimateMlx({ config: { ...config, ...changes }, tensorBytes: 1, contextTokens: 8192, slots: 2 }).items.compute
  const types = ['sliding_attention', 'sliding_attention', 'full_attention', 'full_attention']
  expect(compute({ sliding_window: 1024, layer_types: types }) - compute({})).toBe(2 * 2 * windowed(2048))
})

test('without a wish the context is what the model was trained with', () => {
  expect(kv({})).toBe(4 * layer(4096))
})

test('windowed layers keep their window alone (RotatingKVCache)', () => {
  const types = ['sliding_attention', 'sliding_attention', 'sliding_attention', 'full_attention']
  expect(kv({ sliding_window: 1024, layer_types: types }, 8192)).toBe(3 * windowed(1024) + layer(8192))
  expect(kv({ sliding_window: 1024, sliding_window_pattern: 2 }, 8192)).toBe(2 * windowed(1024) + 2 * layer(8192))
  expect(kv({ sliding_window: 1024 }, 8192)).toBe(4 * layer(8192))
})

test('every nth layer attends to everything, which is the last of each group (mlx_lm/models/gemma3_text.py)', () => {
  const five = { sliding_window: 1024, sliding_window_pattern: 3, num_hidden_layers: 5 }
  expect(kv(five, 8192)).toBe(4 * windowed(1024) + layer(8192))
})

test('a window that is no multiple of a step is kept to the token, one as long as the context whole', () => {
  const types = ['sliding_attention', 'sliding_attention', 'sliding_attention', 'sliding_attention']
  expect(kv({ sliding_window: 1000, layer_types: types }, 8192)).toBe(4 * windowed(1000))
  expect(kv({ sliding_window: 8192, layer_types: types }, 8192)).toBe(4 * windowed(8192))
  expect(kv({ sliding_window: 9000, layer_types: types }, 8192)).toBe(4 * layer(8192))
})

test('latent attention keeps the compressed row (mlx_lm/models/deepseek_v3.py)', () => {
  expect(kv({ kv_lora_rank: 512, qk_rope_head_dim: 64 }, 8192)).toBe(4 * (512 + 64) * (8192 + 256) * 2)
})

test('gated delta nets keep a state, whatever the context (mlx_lm/models/qwen3_next.py)', () => {
  const linear = {
    layer_types: ['linear_attention', 'linear_attention', 'linear_attention', 'full_attention'],
    linear_num_value_heads: 32,
    linear_num_key_heads: 16,
    linear_key_head_dim: 128,
    linear_value_head_dim: 128,
    linear_conv_kernel_dim: 4,
  }
  const state = 32 * 128 * 128 * 4 + 3 * (2 * 16 * 128 + 32 * 128) * 2
  expect(kv(linear, 8192)).toBe(3 * state + layer(8192))
})

test('a model that sees is reckoned by its language model', () => {
  const whole = { vision_config: { hidden_size: 99 }, text_config: config }
  expect(estimateMlx({ config: whole, tensorBytes: 1 }).items.kv).toBe(4 * layer(4096))
})

test('a config.json that says nothing makes a guess of a fifth', () => {
  expect(estimateMlx({ config: undefined, tensorBytes: 1000 })).toMatchObject({
    total: 1200 + 512 * 1024 ** 2,
    guess: expect.stringMatching(/^config.json does not describe/) as string,
  })
})

test('sizes that are lists, missing or left open are none that no model has', () => {
  const open = { intermediate_size: [8192, 16_384], num_key_value_heads: null, sliding_window: -1 }
  const beside = { rope_theta: 1e12, initializer_range: 0.02, vision_config: { num_hidden_layers: 27 } }
  expect(configProblem({ ...config, ...open, ...beside, n_layer: 2048 })).toBeUndefined()
  expect(configProblem({ n_layer: 2049 })).toMatch(/^says 2049 for n_layer, /)
  expect(configProblem({ hidden_size: 2 ** 31 - 1 })).toBeUndefined()
  expect(configProblem({ hidden_size: 2 ** 31 })).toMatch(/^says 2147483648 for hidden_size, /)
})

test('a header that is read in a thread of its own counts as any other', async () => {
  await using folder = await temporaryFolder()
  const tensor = { dtype: 'BF16', shape: [4], data_offsets: [0, 8] }
  const header = Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`model.layers.${at}`, tensor]))
  await writeSafetensors(path.join(folder.dir, 'model.safetensors'), header, 8)
  expect(await readMlxFolder(folder.dir)).toMatchObject({ tensorBytes: 8 })
})

/** A safetensors file of these bytes of tensors, which are not there unless `whole`. */
async function writeSafetensors(file: string, header: object, dataBytes: number): Promise<void> {
  const text = Buffer.from(JSON.stringify(header))
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(text.length))
  await writeFile(file, Buffer.concat([length, text, Buffer.alloc(dataBytes)]))
}

test('a folder’s weights are the tensors of all its safetensors files, to the byte', async () => {
  await using folder = await temporaryFolder()
  const tensor = (from: number, to: number) => ({ dtype: 'BF16', shape: [(to - from) / 2], data_offsets: [from, to] })
  const first = { __metadata__: { format: 'mlx' }, a: tensor(0, 600), b: tensor(600, 1000) }
  await writeSafetensors(path.join(folder.dir, 'model-00001-of-00002.safetensors'), first, 1000)
  await writeSafetensors(path.join(folder.dir, 'model-00002-of-00002.safetensors'), { c: tensor(0, 500) }, 500)
  await writeFile(path.join(folder.dir, 'config.json'), JSON.stringify(config))
  await writeFile(path.join(folder.dir, 'tokenizer.json'), 'x'.repeat(10_000))
  expect(await readMlxFolder(folder.dir)).toEqual({ config, tensorBytes: 1500 })
})

test.each([
  [
    'cut short',
    'model.safetensors',
    { a: { data_offsets: [0, 1000] } },
    /is not a safetensors file: it has \d+ bytes of \d+/,
  ],
  ['no JSON of tensors', 'model.safetensors', { a: { data_offsets: 'x' } }, /its header cannot be read/],
  ['of another kind', 'model.bin', {}, /holds no safetensors files/],
])('a file that is %s is refused in a sentence', async (_, name, header, message) => {
  await using folder = await temporaryFolder()
  await writeSafetensors(path.join(folder.dir, name), header, 10)
  await expect(readMlxFolder(folder.dir)).rejects.toThrow(message)
})

test('a folder whose config.json never ends, or is far too large, is sized by its weights alone', async () => {
  await using folder = await temporaryFolder()
  const [pipe, large] = [path.join(folder.dir, 'pipe'), path.join(folder.dir, 'large')]
  for (const at of [pipe, large]) {
    await mkdir(at)
    await writeSafetensors(path.join(at, 'model.safetensors'), { weight: { data_offsets: [0, 8] } }, 8)
  }
  await execa('mkfifo', [path.join(pipe, 'config.json')])
  await writeFile(path.join(large, 'config.json'), JSON.stringify({ ...config, padding: 'x'.repeat(2_000_000) }))
  const read = await Promise.all([readMlxFolder(pipe), readMlxFolder(large)])
  expect(read).toEqual(Array(2).fill({ config: undefined, tensorBytes: 8 }))
})
