import { execFileSync } from 'node:child_process'
import { truncate, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { GgufError } from '../../../../src/agent-core/models/gguf/gguf.ts'
import { readGgufHeader } from '../../../../src/agent-core/models/gguf/file-header.ts'
import { float32, writeGguf, writeLlamaGguf } from '../../../support/gguf-writer.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
const at = (name: string) => path.join(folder.dir, name)

beforeAll(async () => {
  folder = await temporaryFolder()
})

afterAll(async () => folder[Symbol.asyncDispose]())

test('a header says what a model needs', async () => {
  await writeLlamaGguf(at('full.gguf'), {
    embedding: 256,
    feedForward: 512,
    weightType: 'Q4_K',
    metadata: {
      'general.file_type': 15,
      'llama.attention.head_count_kv': [2, 1],
      'llama.attention.key_length': 64,
      'llama.attention.value_length': 32,
      'llama.attention.sliding_window': 128,
      'llama.expert_count': 8,
      'llama.expert_used_count': 2,
      'tokenizer.chat_template': '{{ messages }}',
      'split.no': { type: 'uint16', value: 0 },
      'split.count': { type: 'uint16', value: 1 },
    },
  })
  const { metadata: _, tensors, dataOffset, ...fields } = await readGgufHeader(at('full.gguf'))
  expect(fields).toEqual({
    vocabulary: 287,
    architecture: 'llama',
    quantization: 'Q4_K_M',
    contextLength: 512,
  })
  expect({
    embedding: tensors[0],
    norm: tensors[1],
    aligned: dataOffset > 0 && dataOffset % 32 === 0,
  }).toEqual({
    // 144 bytes for 256 values.
    embedding: { name: 'token_embd.weight', dimensions: [256, 287], type: 'Q4_K', bytes: 287 * 144 },
    norm: { name: 'output_norm.weight', dimensions: [256], type: 'F32', bytes: 1024 },
    aligned: true,
  })
})

test('what a header says in another type is not said', async () => {
  await writeLlamaGguf(at('typed.gguf'), { metadata: { 'llama.context_length': 'two' } })
  expect(await readGgufHeader(at('typed.gguf'))).not.toHaveProperty('contextLength')
})

test('a file that does not name its quantisation has the one of most of its bytes', async () => {
  const types = ['F32', 'Q8_0', 'Q6_K'] as const
  const tensors = types.map((type, index) => ({ name: type, dimensions: [256, [1, 20, 10][index] ?? 0], type }))
  await writeGguf(at('unnamed.gguf'), { metadata: { 'general.architecture': 'llama' }, tensors })
  expect((await readGgufHeader(at('unnamed.gguf'))).quantization).toBe('Q8_0')
})

test('values as large as a header may keep are kept, and larger ones do no harm to those behind them', async () => {
  const numbers = (length: number) => Array.from({ length }, () => 7)
  await writeGguf(at('extremes.gguf'), {
    metadata: {
      wide: 2n ** 60n,
      fraction: float32(0.5),
      text: 'x'.repeat(1_024),
      longText: 'x'.repeat(1_025),
      numbers: numbers(512),
      manyNumbers: numbers(513),
      texts: ['a', 'b'],
      last: 'here',
    },
    tensors: [],
  })
  expect(Object.fromEntries((await readGgufHeader(at('extremes.gguf'))).metadata)).toEqual({
    ...{ wide: 2 ** 60, fraction: 0.5, text: 'x'.repeat(1_024), numbers: numbers(512), last: 'here' },
  })
})

const safetensors = Buffer.concat([
  Buffer.from([40, 0, 0, 0, 0, 0, 0, 0]),
  Buffer.from('{"__metadata__":{"format":"pt"}}'),
])
const pointer = 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 5\n'

test.each([
  ['', 'is empty, not a GGUF file: fetch it again.'],
  ['GG', 'is a text file, not a GGUF file: give the GGUF file of this model.'],
  ['GGUF', 'ends after 4 bytes, in the middle of its GGUF header: fetch it again.'],
  [
    '\n<!doctype html><p>',
    'is a web page, not a GGUF file: give the address of the file itself, and see whether it needs a login.',
  ],
  [safetensors, 'is a safetensors file, not a GGUF file: give the GGUF file of this model.'],
  [
    'PK\x03\x04\0\0',
    'is a zip archive, which is how PyTorch saves models, not a GGUF file: give the GGUF file of this model.',
  ],
  [
    Buffer.from([0x80, 2, 0x8a]),
    'is a Python pickle, which is how PyTorch saved models, not a GGUF file: give the GGUF file of this model.',
  ],
  ['tjgg\x01\0\0\0', 'is a GGML file from before GGUF, which llama.cpp no longer loads: get the model as GGUF.'],
  [pointer, 'is a Git LFS pointer, not the GGUF file that it stands for: fetch that with "git lfs pull".'],
  ['{"error": "Not Found"}', 'is a text file, not a GGUF file: give the GGUF file of this model.'],
  [Buffer.from([0, 1, 2, 3, 4]), 'is not a GGUF file: it does not begin with the letters GGUF.'],
  [
    `GGUF\0\0\0\x03${'\0'.repeat(16)}`,
    'is a big-endian GGUF file, which this machine cannot run: get the little-endian one.',
  ],
  [
    `GGUF\x01\0\0\0${'\0'.repeat(16)}`,
    'is a GGUF file of version 1, which llama.cpp no longer loads: get it in version 3.',
  ],
  [
    `GGUF\x04\0\0\0${'\0'.repeat(16)}`,
    'is a GGUF file of version 4, but only 2 and 3 are known here: fetch it again, or update the agent if the file is new.',
  ],
])('what is not a GGUF header is named as what it is: %j', async (content, sentence) => {
  await writeFile(at('other.gguf'), content)
  await expect(readGgufHeader(at('other.gguf'))).rejects.toEqual(new GgufError(`${at('other.gguf')} ${sentence}`))
})

test('a model whose last bytes are missing is cut short', async () => {
  await writeLlamaGguf(at('short.gguf'))
  const { tensors, dataOffset } = await readGgufHeader(at('short.gguf'))
  const whole = dataOffset + tensors.reduce((sum, { bytes }) => sum + bytes, 0)
  await truncate(at('short.gguf'), whole)
  expect((await readGgufHeader(at('short.gguf'))).tensors).toEqual(tensors)
  await truncate(at('short.gguf'), whole - 1)
  await expect(readGgufHeader(at('short.gguf'))).rejects.toEqual(
    new GgufError(
      `${at('short.gguf')} is cut short: it has ${whole - 1} bytes of the ${whole} that its GGUF header describes; fetch it again.`,
    ),
  )
})

test('what is not a regular file is refused without opening it', async () => {
  execFileSync('mkfifo', [at('pipe')])
  const refusal = (file: string) => readGgufHeader(file).catch((error: unknown) => String(error))
  expect(await Promise.all([folder.dir, at('pipe'), at('missing')].map(refusal))).toEqual([
    `GgufError: ${folder.dir} is a directory: give the path of a GGUF file.`,
    `GgufError: ${at('pipe')} is not a regular file: give the path of a GGUF file.`,
    `GgufError: ${at('missing')} does not exist on this machine: put the model file there or give another path.`,
  ])
})
