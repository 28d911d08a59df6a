import fc from 'fast-check'
import { randomInt } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { GgufError } from '../../../../src/agent-core/models/gguf/gguf.ts'
import { maxHeaderBytes, readHeader } from '../../../../src/agent-core/models/gguf/header.ts'
import { writeLlamaGguf, writeLlamaShards } from '../../../support/gguf-writer.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

test('2,000 mutated headers give a header or one sentence', async () => {
  const seed = Number(process.env['METALBAR_SEED'] ?? randomInt(2 ** 31))
  process.stdout.write(`seed of the mutated headers: METALBAR_SEED=${seed}\n`)
  const originals = await realHeaders()
  const found = new Set<string | undefined>()
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...originals),
      fc.array(mutation, { minLength: 1, maxLength: 4 }),
      fc.boolean(),
      async (original, mutations, sizeKnown) => {
        found.add(await outcomeOf(mutations.reduce(mutate, original), sizeKnown))
      },
    ),
    { numRuns: 2_000, seed },
  )
  // Otherwise the mutations would not reach what they are meant to reach.
  expect([...found].sort()).toEqual(
    expect.arrayContaining(['a header', 'cut short', 'damaged', 'not GGUF', 'too large']),
  )
}, 180_000)

test.each([
  ['of all ones', Buffer.alloc(8, 0xff), 'damaged'],
  ['of terabytes', uint64(2n ** 48n - 1n), 'damaged'],
  ['just beyond the longest', uint64(257n), 'damaged'],
  ['beyond the file', uint64(200n), 'cut short'],
])('a key with a length %s is refused', async (_, length, outcome) => {
  expect(await outcomeOf(header({ keys: 1n, rest: length }), true)).toBe(outcome)
})

test.each([
  ['keys', header({ keys: 1_025n })],
  ['tensors', header({ tensors: 131_073n })],
])('a claim of absurdly many %s is refused before anything is read for it', async (_, bytes) => {
  expect(await outcomeOf(bytes, false)).toBe('damaged')
})

test('arrays in an array are refused, as llama.cpp refuses them', async () => {
  const [array, inner] = [Buffer.from([9, 0, 0, 0]), Buffer.concat([Buffer.from([9, 0, 0, 0]), uint64(1n)])]
  const bytes = header({ keys: 1n, rest: Buffer.concat([text('k'), array, inner, Buffer.alloc(12)]) })
  await expect(read(bytes, true)).rejects.toThrow(/has arrays in an array of its GGUF header/)
})

test('a header that is as long as one may be, all of it empty texts, is read in many turns of the event loop and leaves nothing behind', async () => {
  const count = BigInt(maxHeaderBytes / 8 - 1_000)
  const list = Buffer.concat([text('k'), Buffer.from([9, 0, 0, 0, 8, 0, 0, 0]), uint64(count)])
  const bytes = header({ keys: 1n, rest: Buffer.concat([list, Buffer.alloc(Number(count) * 8)]) })
  let turns = 0
  const counting = setInterval(() => (turns += 1), 1)
  expect((await read(bytes, false)).metadata.size).toBe(0)
  clearInterval(counting)
  expect(turns).toBeGreaterThan(2)
  const longer = header({ keys: 1n, rest: Buffer.concat([list.subarray(0, -8), uint64(count + 1_000n)]) })
  expect(await outcomeOf(longer, false)).toBe('too large')
})

test('names made to break an object are plain text in the header', async () => {
  const bytes = header({ keys: 2n, rest: Buffer.concat([key('__proto__'), key('\u001b[2J\n')]) })
  expect([...(await read(bytes, true)).metadata.keys()]).toEqual(['__proto__', '\u001b[2J\n'])
})

/** From 1 MiB to 64 MiB, by half as much again. */
const mostReads = 12

async function read(bytes: Buffer, sizeKnown: boolean) {
  let reads = 0
  return readHeader({
    name: 'hostile.gguf',
    fileBytes: sizeKnown ? bytes.length : undefined,
    read: (wanted) => {
      reads += 1
      expect({ wanted: wanted <= 1.5 * maxHeaderBytes, reads: reads <= mostReads }).toEqual({
        wanted: true,
        reads: true,
      })
      return Promise.resolve(bytes.subarray(0, wanted))
    },
  })
}

const outcomes = {
  'not GGUF': /not a GGUF file/,
  damaged: /damaged GGUF file|big-endian|of version \d/,
  'cut short': /cut short|in the middle/,
  'too large': /more than 64 MiB/,
}

/** Which refusal it is, or `a header`; fails on anything else, and on a sentence that is none. */
async function outcomeOf(bytes: Buffer, sizeKnown: boolean): Promise<string | undefined> {
  try {
    await read(bytes, sizeKnown)
    return 'a header'
  } catch (error) {
    if (!(error instanceof GgufError)) throw error
    expect(error.message).toMatch(/^hostile\.gguf \P{C}+\.$/u)
    return Object.entries(outcomes).find(([, sentence]) => sentence.test(error.message))?.[0]
  }
}

type Mutation =
  | { kind: 'flip'; at: number; mask: number }
  | { kind: 'number'; at: number; value: bigint }
  | { kind: 'cut'; at: number }
  | { kind: 'remove' | 'repeat'; at: number; length: number }

/** Any part of the whole is as likely as another; of fc.double's numbers most are next to 0, so that the first byte would be hit. */
const part = fc.noBias(fc.nat(1_000_000)).map((millionths) => millionths / 1_000_000)
/** `at` is a part of the whole file. Its header is about the first 50th, magic and counts are the first 10,000th. */
const place = fc.oneof(
  part,
  part.map((at) => at / 50),
  part.map((at) => at / 10_000),
)
const mutation: fc.Arbitrary<Mutation> = fc.oneof(
  fc.record({ kind: fc.constant('flip'), at: place, mask: fc.integer({ min: 1, max: 255 }) }),
  fc.record({
    kind: fc.constant('number'),
    at: place,
    value: fc.oneof(
      fc.constantFrom(
        0n,
        1n,
        8n,
        9n,
        1_000n,
        2n ** 20n,
        2n ** 26n - 1n,
        2n ** 26n,
        2n ** 32n - 1n,
        2n ** 53n,
        2n ** 63n,
        2n ** 64n - 1n,
      ),
      fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    ),
  }),
  fc.record({ kind: fc.constant('cut'), at: place }),
  fc.record({ kind: fc.constantFrom('remove', 'repeat'), at: place, length: fc.integer({ min: 1, max: 64 }) }),
)

function mutate(bytes: Buffer, change: Mutation): Buffer {
  const at = Math.floor(change.at * Math.max(0, bytes.length - 1))
  const copy = Buffer.from(bytes)
  switch (change.kind) {
    case 'flip':
      if (copy.length > 0) copy[at] = (copy[at] ?? 0) ^ change.mask
      return copy
    case 'number':
      uint64(change.value).copy(copy, at)
      return copy
    case 'cut':
      return copy.subarray(0, at)
    case 'remove':
      return Buffer.concat([copy.subarray(0, at), copy.subarray(at + change.length)])
    case 'repeat':
      return Buffer.concat([copy.subarray(0, at + change.length), copy.subarray(at)])
  }
}

async function realHeaders(): Promise<Buffer[]> {
  await using folder = await temporaryFolder()
  const at = (name: string) => path.join(folder.dir, name)
  await writeLlamaGguf(at('llama'))
  await writeLlamaGguf(at('quantised'), { embedding: 256, feedForward: 512, weightType: 'Q4_K', version: 2 })
  await writeLlamaGguf(at('layers'), {
    metadata: {
      'llama.attention.head_count_kv': [4, 2, 4],
      'tokenizer.chat_template': '{{ messages }}'.repeat(100),
      'test.flags': [true, false],
      'test.texts': ['a', 'b'],
      'test.wide': 2n ** 60n,
    },
  })
  const shards = await writeLlamaShards(at('split'), 2)
  return await Promise.all(
    ['llama', 'quantised', 'layers']
      .map(at)
      .concat(shards)
      .map(async (file) => readFile(file)),
  )
}

function header({
  tensors = 0n,
  keys = 0n,
  rest = Buffer.alloc(0),
}: {
  tensors?: bigint
  keys?: bigint
  rest?: Buffer
}) {
  return Buffer.concat([Buffer.from('GGUF'), Buffer.from([3, 0, 0, 0]), uint64(tensors), uint64(keys), rest])
}

function uint64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(value)
  return bytes
}

function text(value: string): Buffer {
  return Buffer.concat([uint64(BigInt(Buffer.byteLength(value))), Buffer.from(value)])
}

/** With the number 1. */
function key(name: string): Buffer {
  return Buffer.concat([text(name), Buffer.from([0, 0, 0, 0, 1])])
}
