import { gguf } from '@huggingface/gguf'
import fc from 'fast-check'
import path from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readGgufHeader } from '../../../../src/agent-core/models/gguf/file-header.ts'
import { tensorTypes } from '../../../../src/agent-core/models/gguf/types.ts'
import {
  float32,
  writeGguf,
  writeLlamaGguf,
  writeLlamaShards,
  type GgufTensor,
  type GgufValue,
} from '../../../support/gguf-writer.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

let folder: Awaited<ReturnType<typeof temporaryFolder>>
const at = (name: string) => path.join(folder.dir, name)

beforeAll(async () => {
  folder = await temporaryFolder()
})

afterAll(async () => folder[Symbol.asyncDispose]())

test('a llama model is read as @huggingface/gguf reads it', async () => {
  await writeLlamaGguf(at('llama.gguf'))
  expect(await ours(at('llama.gguf'))).toEqual(await oracle(at('llama.gguf')))
})

test('a vocabulary of 20,000 tokens with its merges is counted and not kept', async () => {
  const file = at('large-vocabulary.gguf')
  const merges = Array.from({ length: 20_000 }, (_, index) => `Ġto ken${index}`)
  await writeLlamaGguf(file, { vocabulary: 20_000, weights: 'hole', metadata: { 'tokenizer.ggml.merges': merges } })
  const header = await readGgufHeader(file)
  expect(await ours(file)).toEqual(await oracle(file))
  const lists = [...header.metadata.values()].filter((value) => typeof value === 'object')
  expect([header.vocabulary, lists]).toEqual([20_000, []])
})

test('version 2 and quantised tensors are read as the library reads them', async () => {
  const file = at('version-2.gguf')
  await writeLlamaGguf(file, { version: 2, embedding: 256, feedForward: 512, weightType: 'Q4_K' })
  expect(await ours(file)).toEqual(await oracle(file))
})

test('every shard of a split model is read as the library reads it', async () => {
  const files = await writeLlamaShards(at('split'), 3)
  expect(await Promise.all(files.map(ours))).toEqual(await Promise.all(files.map(oracle)))
  const headers = await Promise.all(files.map((file) => readGgufHeader(file)))
  const shards = headers.map(({ metadata, architecture }) => [
    metadata.get('split.no'),
    metadata.get('split.count'),
    architecture,
  ])
  expect(shards).toEqual([
    [0, 3, 'llama'],
    [1, 3, ''],
    [2, 3, ''],
  ])
})

test('whatever metadata and tensors a file has, it is read as the library reads it', async () => {
  await fc.assert(
    fc.asyncProperty(metadata, tensors, fc.constantFrom(2, 3), async (entries, described, version) => {
      const file = at('any.gguf')
      await writeGguf(file, { metadata: { 'general.architecture': 'llama', ...entries }, tensors: described, version })
      expect(await ours(file)).toEqual(await oracle(file))
    }),
    { numRuns: 30 },
  )
}, 180_000)

/** As UTF-8 has no lone surrogates; the library drops a `__proto__`. */
const text = fc.string({ unit: 'binary', maxLength: 40 })
const whole = (type: 'uint8' | 'int8' | 'uint16' | 'int16' | 'uint32' | 'int32', min: number, max: number) =>
  fc.integer({ min, max }).map((value) => ({ type, value }))
const scalar: fc.Arbitrary<GgufValue>[] = [
  text,
  fc.boolean(),
  fc.float({ noNaN: true }).map(float32),
  fc.double({ noNaN: true }).map((value) => ({ type: 'float64' as const, value })),
  whole('uint8', 0, 255),
  whole('int8', -128, 127),
  whole('uint16', 0, 65_535),
  whole('int16', -32_768, 32_767),
  whole('uint32', 0, 2 ** 32 - 1),
  whole('int32', -(2 ** 31), 2 ** 31 - 1),
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map((value) => ({ type: 'int64' as const, value })),
]
const arrays = scalar.map((item) => fc.array(item, { minLength: 1, maxLength: 5 }))
const metadata = fc.dictionary(
  fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 20 }).map((name) => `test.${name}`),
  fc.oneof(...scalar, ...arrays),
  { maxKeys: 8 },
)
const tensors: fc.Arbitrary<GgufTensor[]> = fc.uniqueArray(
  fc.record({
    name: fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 30 }),
    dimensions: fc
      .tuple(fc.constantFrom(256, 512))
      .chain(([rows]) => fc.array(fc.integer({ min: 1, max: 4 }), { maxLength: 3 }).map((more) => [rows, ...more])),
    type: fc.constantFrom('F32', 'F16', 'BF16', 'Q4_0', 'Q8_0', 'Q4_K', 'Q6_K'),
  }),
  { maxLength: 5, selector: ({ name }) => name },
)

async function ours(file: string) {
  const { metadata: entries, vocabulary, tensors: read, dataOffset } = await readGgufHeader(file)
  return {
    metadata: new Map<string, unknown>(entries),
    vocabulary,
    tensors: read.map(({ name, dimensions, type }) => ({ name, dimensions, type })),
    dataOffset,
  }
}

async function oracle(file: string): Promise<Awaited<ReturnType<typeof ours>>> {
  const { metadata: all, tensorInfos, tensorDataOffset } = await gguf(file, { allowLocalFile: true })
  const { version: _version, tensor_count: _tensors, kv_count: _keys, ...entries } = all
  return {
    metadata: new Map(Object.entries(entries).flatMap(([key, value]) => (isKept(value) ? [[key, plain(value)]] : []))),
    vocabulary: (all as { 'tokenizer.ggml.tokens'?: string[] })['tokenizer.ggml.tokens']?.length, // whatever the architecture
    tensors: tensorInfos.map(({ name, shape, dtype }) => ({
      name,
      dimensions: shape.map(Number),
      type: tensorTypes[dtype]?.[0] ?? '',
    })),
    // Without a tensor there is no data to align.
    dataOffset: tensorInfos.length === 0 ? (expect.any(Number) as number) : Number(tensorDataOffset),
  }
}

/** As `metadata` says: no lists of texts or of many items, and no long texts. */
const isKept = (value: unknown): boolean =>
  Array.isArray(value) ? value.length <= 512 && typeof value[0] !== 'string' : String(value).length <= 1_024

/** The library knows bigints where we know numbers. */
const plain = (value: unknown): unknown =>
  Array.isArray(value) ? value.map(plain) : typeof value === 'bigint' ? Number(value) : value
