import { open } from 'node:fs/promises'

/** A whole number is written as uint32 (int32 when negative), a fraction as float32, a bigint as uint64. */
export type GgufValue = string | number | bigint | boolean | readonly GgufValue[] | Typed

/** A number whose type matters, such as a float32 without a fraction. */
export interface Typed {
  readonly type: NumberType
  readonly value: number | bigint
}

export type TensorType = keyof typeof tensorTypes

/** The number that ggml gives a type, values per block, bytes per block. */
const tensorTypes = {
  F32: [0, 1, 4],
  F16: [1, 1, 2],
  Q4_0: [2, 32, 18],
  Q8_0: [8, 32, 34],
  Q4_K: [12, 256, 144],
  Q6_K: [14, 256, 210],
  BF16: [30, 1, 2],
} as const

export interface GgufTensor {
  readonly name: string
  /** Innermost first, as GGUF writes them. */
  readonly dimensions: readonly number[]
  /** Default: F32. The values of the others are zeros. */
  readonly type?: TensorType
  /** Every value of an F32 tensor; default: random ones from the seed. */
  readonly fill?: number
}

export interface GgufFile {
  readonly metadata: Readonly<Record<string, GgufValue>>
  readonly tensors: readonly GgufTensor[]
  /** Default: 3. */
  readonly version?: number
  /** Of the random weights: the same seed makes the same file. */
  readonly seed?: number
  /** `hole` leaves the weights out of the disk but not out of the file's length: a large model in no space. */
  readonly weights?: 'random' | 'hole'
}

export interface LlamaOptions extends Omit<GgufFile, 'metadata' | 'tensors'> {
  readonly blocks?: number
  readonly embedding?: number
  readonly heads?: number
  readonly kvHeads?: number
  readonly feedForward?: number
  readonly context?: number
  /** Filled up with unused tokens; at least the 287 that the tokenizer needs. */
  readonly vocabulary?: number
  /** Of every matrix; default: F32. The dimensions must be whole blocks of it. */
  readonly weightType?: TensorType
  /** Added to the header, or replacing what is there. */
  readonly metadata?: Readonly<Record<string, GgufValue>>
}

/** Its place in every vocabulary here. */
const endOfAnswer = 2

/** Writes a llama model that llama-server loads and answers nonsense with; 0.5 MB by default. */
export async function writeLlamaGguf(file: string, options: LlamaOptions = {}): Promise<void> {
  await writeGguf(file, llama(options))
}

/** The same model in several files, as llama-gguf-split cuts it: `<prefix>-00001-of-0000N.gguf`. Answers their paths. */
export async function writeLlamaShards(prefix: string, count: number, options: LlamaOptions = {}): Promise<string[]> {
  const { metadata, tensors, ...rest } = llama(options)
  const perShard = Math.ceil(tensors.length / count)
  const numbered = (index: number): string => String(index).padStart(5, '0')
  const files = Array.from(
    { length: count },
    (_, index) => `${prefix}-${numbered(index + 1)}-of-${numbered(count)}.gguf`,
  )
  for (const [index, file] of files.entries()) {
    const split = {
      'split.no': { type: 'uint16', value: index },
      'split.count': { type: 'uint16', value: count },
      'split.tensors.count': { type: 'int32', value: tensors.length },
    } as const
    await writeGguf(file, {
      ...rest,
      metadata: index === 0 ? { ...metadata, ...split } : split,
      tensors: tensors.slice(index * perShard, (index + 1) * perShard),
    })
  }
  return files
}

function llama(options: LlamaOptions): GgufFile {
  const { blocks = 2, embedding = 64, heads = 4, kvHeads = 2, feedForward = 128, context = 512 } = options
  const tokens = tokenizer(options.vocabulary)
  const headSize = embedding / heads
  const tensor = (name: string, ...dimensions: number[]): GgufTensor => {
    return { name: `${name}.weight`, dimensions, type: options.weightType ?? 'F32' }
  }
  const norm = (name: string): GgufTensor => ({ name: `${name}.weight`, dimensions: [embedding], fill: 1 })
  const block = (index: number): GgufTensor[] => [
    norm(`blk.${index}.attn_norm`),
    tensor(`blk.${index}.attn_q`, embedding, embedding),
    tensor(`blk.${index}.attn_k`, embedding, headSize * kvHeads),
    tensor(`blk.${index}.attn_v`, embedding, headSize * kvHeads),
    tensor(`blk.${index}.attn_output`, embedding, embedding),
    norm(`blk.${index}.ffn_norm`),
    tensor(`blk.${index}.ffn_gate`, embedding, feedForward),
    tensor(`blk.${index}.ffn_up`, embedding, feedForward),
    tensor(`blk.${index}.ffn_down`, feedForward, embedding),
  ]
  const tensors = [
    tensor('token_embd', embedding, tokens.length),
    norm('output_norm'),
    tensor('output', embedding, tokens.length),
    ...Array.from({ length: blocks }, (_, index) => block(index)).flat(),
  ]
  return {
    ...options,
    metadata: {
      'general.architecture': 'llama',
      'general.name': 'tiny random llama',
      'llama.block_count': blocks,
      'llama.context_length': context,
      'llama.embedding_length': embedding,
      'llama.feed_forward_length': feedForward,
      'llama.attention.head_count': heads,
      'llama.attention.head_count_kv': kvHeads,
      'llama.attention.layer_norm_rms_epsilon': 1e-5,
      'llama.rope.dimension_count': headSize,
      'llama.vocab_size': tokens.length,
      'tokenizer.ggml.model': 'llama',
      'tokenizer.ggml.tokens': tokens.map(({ text }) => text),
      'tokenizer.ggml.scores': tokens.map((_, index) => float32(-index)),
      'tokenizer.ggml.token_type': tokens.map(({ type }) => ({ type: 'int32', value: type })),
      'tokenizer.ggml.unknown_token_id': 0,
      'tokenizer.ggml.bos_token_id': 1,
      'tokenizer.ggml.eos_token_id': endOfAnswer,
      ...options.metadata,
    },
    tensors,
  }
}

/** Writes any GGUF header, and weights to go with it. */
export async function writeGguf(file: string, content: GgufFile): Promise<void> {
  const { tensors, seed = 1, weights } = content
  const random = randomNumbers(seed)
  const header = encodeHeader(content)
  await using handle = await open(file, 'w')
  await handle.write(header)
  if (weights === 'hole') {
    await handle.truncate(header.length + tensors.reduce((sum, tensor) => sum + paddedBytes(tensor), 0))
    return
  }
  for (const tensor of tensors) {
    const values = new Float32Array(paddedBytes(tensor) / 4)
    if ((tensor.type ?? 'F32') === 'F32')
      values.forEach((_, place) => (values[place] = tensor.fill ?? random() * 0.2 - 0.1))
    await handle.write(values)
  }
}

export function float32(value: number): Typed {
  return { type: 'float32', value }
}

function encodeHeader({ metadata, tensors, version = 3 }: GgufFile): Buffer {
  const entries = Object.entries(metadata)
  const parts = [Buffer.from('GGUF'), numeric('uint32', version), uint64(tensors.length), uint64(entries.length)]
  for (const [key, value] of entries) {
    const { type, bytes } = encode(value)
    parts.push(text(key), numeric('uint32', type), bytes)
  }
  let offset = 0
  for (const tensor of tensors) {
    parts.push(text(tensor.name), numeric('uint32', tensor.dimensions.length))
    parts.push(
      ...tensor.dimensions.map(uint64),
      numeric('uint32', tensorTypes[tensor.type ?? 'F32'][0]),
      uint64(offset),
    )
    offset += paddedBytes(tensor)
  }
  const header = Buffer.concat(parts)
  return Buffer.concat([header, Buffer.alloc(aligned(header.length) - header.length)])
}

type NumberType = keyof typeof typeNumber

/** The numbers GGUF gives the types of metadata values. */
const typeNumber = {
  uint8: 0,
  int8: 1,
  uint16: 2,
  int16: 3,
  uint32: 4,
  int32: 5,
  float32: 6,
  uint64: 10,
  int64: 11,
  float64: 12,
} as const
const [booleanType, stringType, arrayType] = [7, 8, 9]

function encode(value: GgufValue): { type: number; bytes: Buffer } {
  if (typeof value === 'string') return { type: stringType, bytes: text(value) }
  if (typeof value === 'boolean') return { type: booleanType, bytes: Buffer.from([value ? 1 : 0]) }
  if (typeof value === 'bigint') return { type: typeNumber.uint64, bytes: uint64(value) }
  if (typeof value === 'number') return encode({ type: impliedType(value), value })
  if ('type' in value) return { type: typeNumber[value.type], bytes: numeric(value.type, value.value) }
  const items = value.map(encode)
  const head = Buffer.concat([numeric('uint32', items[0]?.type ?? typeNumber.uint32), uint64(items.length)])
  return { type: arrayType, bytes: Buffer.concat([head, ...items.map(({ bytes }) => bytes)]) }
}

function impliedType(value: number): NumberType {
  if (!Number.isInteger(value)) return 'float32'
  return value < 0 ? 'int32' : 'uint32'
}

function numeric(type: NumberType, typed: number | bigint): Buffer {
  const view = new DataView(new ArrayBuffer(8))
  const value = Number(typed)
  const write = {
    uint8: () => (view.setUint8(0, value), 1),
    int8: () => (view.setInt8(0, value), 1),
    uint16: () => (view.setUint16(0, value, true), 2),
    int16: () => (view.setInt16(0, value, true), 2),
    uint32: () => (view.setUint32(0, value, true), 4),
    int32: () => (view.setInt32(0, value, true), 4),
    float32: () => (view.setFloat32(0, value, true), 4),
    uint64: () => (view.setBigUint64(0, BigInt(typed), true), 8),
    int64: () => (view.setBigInt64(0, BigInt(typed), true), 8),
    float64: () => (view.setFloat64(0, value, true), 8),
  }
  return Buffer.from(view.buffer, 0, write[type]())
}

function uint64(value: number | bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value)
  return Buffer.concat([uint64(bytes.length), bytes])
}

function paddedBytes({ dimensions, type = 'F32' }: GgufTensor): number {
  const [, blockValues, blockBytes] = tensorTypes[type]
  return aligned(dimensions.reduce((product, dimension) => product * dimension, blockBytes / blockValues))
}

function aligned(bytes: number): number {
  return Math.ceil(bytes / 32) * 32
}

/** A SentencePiece vocabulary that can spell everything: the special tokens, every byte, and a few letters. */
function tokenizer(size = 0): { text: string; type: number }[] {
  const special = [
    { text: '<unk>', type: 2 },
    { text: '<s>', type: 3 },
    { text: '</s>', type: 3 },
  ]
  const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`)
  const letters = Array.from('▁etaoinshrdlucmfwypvbgkjqxz,')
  const needed = [
    ...special,
    ...bytes.map((spelling) => ({ text: spelling, type: 6 })),
    ...letters.map((letter) => ({ text: letter, type: 1 })),
  ]
  const unused = Math.max(0, size - needed.length)
  return [...needed, ...Array.from({ length: unused }, (_, index) => ({ text: `<unused${index}>`, type: 5 }))]
}

/** Mulberry32: even enough for weights, and the same on every machine. */
function randomNumbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}
