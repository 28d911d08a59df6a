import fc from 'fast-check'
import { randomInt } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { maxHeaderBytes } from '../../../../src/agent-core/models/gguf/sections.ts'
import { GgufError } from '../../../../src/agent-core/models/gguf/gguf.ts'
import { type ParsedHeader, parseHeader } from '../../../../src/agent-core/models/gguf/header.ts'
import { writeGguf, writeLlamaGguf, writeLlamaShards } from '../../../support/gguf-writer.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

test('2,000 mutated headers give a header or one sentence, in bounded time, and nothing is read past a bound', async () => {
  const seed = Number(process.env['METALBAR_SEED'] ?? randomInt(2 ** 31))
  process.stdout.write(`seed of the mutated headers: METALBAR_SEED=${seed}\n`)
  const originals = await realHeaders()
  const outcomes = new Map<string, number>()
  fc.assert(
    fc.property(
      fc.constantFrom(...originals),
      fc.array(mutation, { minLength: 1, maxLength: 4 }),
      fc.record({ pieceBytes: fc.constantFrom(1_000, 4_096, 65_536), sizeKnown: fc.boolean() }),
      (original, mutations, source) => {
        const outcome = parse(mutations.reduce(mutate, original), source)
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
      },
    ),
    { numRuns: 2_000, seed },
  )
  // Otherwise the mutations would not reach what they are meant to reach.
  expect([...outcomes.keys()].sort()).toEqual(
    expect.arrayContaining(['Malformed', 'NotGguf', 'TooLarge', 'Truncated', 'a header']),
  )
}, 180_000)

test.each([
  ['a length of all ones', Buffer.alloc(8, 0xff), 'Malformed'],
  ['a length of terabytes', uint64(2n ** 48n - 1n), 'Malformed'],
  ['a length just beyond the file', uint64(10_000n), 'Truncated'],
])('a key with %s is refused before anything is read for it', (_, length, reason) => {
  expect(parse(header({ keys: 1n, rest: length }), { pieceBytes: 64, sizeKnown: true })).toBe(reason)
})

test.each([
  ['where the alignment lets one begin', [32n, 0n], 'a header'],
  ['beside the alignment', [33n, 0n], 'Malformed'],
  ['under a name twice', [32n, 0n, 0n], 'Malformed'],
])('tensors %s', (_, offsets, outcome) => {
  const tensors = offsets.map((offset, index) =>
    // One dimension of one number in f32.
    Buffer.concat([text(`t${index % 2}`), Buffer.from([1, 0, 0, 0]), uint64(1n), Buffer.alloc(4), uint64(offset)]),
  )
  const bytes = header({ tensors: BigInt(tensors.length), rest: Buffer.concat([...tensors, Buffer.alloc(200)]) })
  expect(parse(bytes, { pieceBytes: 64, sizeKnown: false })).toBe(outcome)
})

test.each([
  ['keys', header({ keys: 2n ** 40n })],
  ['tensors', header({ tensors: 2n ** 40n })],
  ['nested arrays', header({ keys: 1n, rest: Buffer.concat([text('k'), ...nested(2_000)]) })],
])('a claim of absurdly many %s is refused', (_, bytes) => {
  expect(parse(bytes, { pieceBytes: 65_536, sizeKnown: false })).toBe('Malformed')
})

test('arrays in arrays are read four deep, and no deeper', () => {
  const deep = (depth: number) =>
    header({ keys: 1n, rest: Buffer.concat([text('k'), ...nested(depth - 1), Buffer.alloc(4), uint64(0n)]) })
  const outcomes = [4, 5].map((depth) => parse(deep(depth), { pieceBytes: 65_536, sizeKnown: true }))
  expect(outcomes).toEqual(['a header', 'Malformed'])
})

test('more keys than any model has, or more bytes of their names, are refused with a sentence', () => {
  const keys = (count: number, name: (index: number) => string) =>
    header({ keys: BigInt(count), rest: Buffer.concat(Array.from({ length: count }, (_, index) => key(name(index)))) })
  const read = (bytes: Buffer) => () => steps(bytes, { pieceBytes: 65_536, sizeKnown: true })
  const short = (index: number) => `k${index}`
  const long = (index: number) => `k${index}`.padEnd(65_535, '-')
  expect(read(keys(16_384, short))().metadata.size).toBe(16_384)
  expect(read(keys(16_385, short))).toThrow(
    'hostile.gguf is a damaged GGUF file: it claims 16385 keys (at byte 24); fetch it again.',
  )
  expect(read(keys(16, long))().metadata.size).toBe(16)
  expect(read(keys(17, long))).toThrow(
    /^hostile\.gguf is a damaged GGUF file: its keys take more than 1048576 bytes together \(at byte \d+\); fetch it again\.$/,
  )
})

test('names made to break a terminal or an object are plain text in the header and quoted in a sentence', async () => {
  await using folder = await temporaryFolder()
  const file = path.join(folder.dir, 'hostile.gguf')
  const metadata = { __proto: 1, 'constructor.prototype': 'x', ['__proto__']: 'y', '\u001b[2J\n': 'z' }
  await writeGguf(file, { metadata: { ...metadata, 'general.name': '\u001b]0;owned\u0007' }, tensors: [] })
  const bytes = await readFile(file)
  const read = steps(bytes, { pieceBytes: 7, sizeKnown: true })
  expect([
    read.metadata.get('\u001b[2J\n'),
    ({} as Record<string, unknown>)['y'],
    read.metadata.get('general.name'),
  ]).toEqual(['z', undefined, '\u001b]0;owned\u0007'])
  const hostileKey = key('\u001b[2J\n\u009b\u202e')
  const twice = header({ keys: 2n, rest: Buffer.concat([hostileKey, hostileKey]) })
  expect(() => steps(twice, { pieceBytes: 7, sizeKnown: true })).toThrow(
    'hostile.gguf is a damaged GGUF file: the key "\\u001b[2J\\n\\u{9b}\\u{202e}" appears twice (at byte 65); fetch it again.',
  )
})

interface Source {
  readonly pieceBytes: number
  readonly sizeKnown: boolean
}

/** The reason of the refusal, or `a header`; fails on anything else, and on a sentence that is none. */
function parse(bytes: Buffer, source: Source): string {
  const beganAt = performance.now()
  try {
    steps(bytes, source)
    return 'a header'
  } catch (error) {
    if (!(error instanceof GgufError)) throw error
    expect(error.message).toMatch(/^hostile\.gguf \P{C}+\.$/u)
    return error.reason
  } finally {
    // A thousand times what a real one takes: this machine may be busy.
    expect(performance.now() - beganAt).toBeLessThan(5_000)
  }
}

/** Feeds the bytes in pieces and holds every wish for more against its bounds. */
function steps(bytes: Buffer, { pieceBytes, sizeKnown }: Source): ParsedHeader {
  const parser = parseHeader('hostile.gguf', sizeKnown ? bytes.length : undefined)
  let given = 0
  let before = 0
  let step = parser.next()
  while (step.done !== true) {
    const { position, bytes: wanted } = step.value
    const bound = sizeKnown ? Math.max(bytes.length, 512) : maxHeaderBytes
    if (position < before || position + wanted > bound || wanted > 1024 ** 2) {
      throw new Error(`asked for ${wanted} bytes at ${position} of ${bytes.length}, after ${before}`)
    }
    before = position
    const piece = bytes.subarray(position, position + pieceBytes)
    given += piece.length
    step = parser.next(piece)
  }
  if (given > bytes.length) throw new Error(`read ${given} bytes of ${bytes.length}`)
  return step.value
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
      'test.nested': [[1, 2], [3]],
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

/** The type of an array, then arrays of one array each. */
function nested(depth: number): Buffer[] {
  const type = Buffer.from([9, 0, 0, 0])
  return [type, ...Array.from({ length: depth }, () => Buffer.concat([type, uint64(1n)]))]
}
