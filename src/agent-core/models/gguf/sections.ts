import { GgufError, type GgufScalar, type GgufTensor, type GgufValue } from './gguf.ts'

/** What a parser asks its source for: bytes that begin at `position` in the file: at least one, none only at the file's end. */
export interface Wanted {
  readonly position: number
  /** So many are needed; more are welcome. */
  readonly bytes: number
}

/** A parser that is given the file piece by piece: each yield asks for the next one. */
export type Reading<T> = Generator<Wanted, T, Uint8Array>

/** Real ones stay below 20 MiB (262,144 tokens of Gemma: 15 MiB). */
export const maxHeaderBytes = 64 * 1024 * 1024

/**
 * A place in a header that only moves on. Never trusts a length: what would lead past the file's end or past
 * `maxHeaderBytes` throws before anything is read, skipped or allocated for it.
 */
export class Cursor {
  readonly #name: string
  readonly #fileBytes: number | undefined
  #window: Buffer = Buffer.alloc(0)
  /** In the window. */
  #at = 0
  /** Where the window begins in the file. */
  #start = 0

  constructor(name: string, fileBytes: number | undefined) {
    this.#name = name
    this.#fileBytes = fileBytes
  }

  get position(): number {
    return this.#start + this.#at
  }

  malformed(what: string): GgufError {
    return new GgufError(
      'Malformed',
      `${this.#name} is a damaged GGUF file: ${what} (at byte ${this.position}); fetch it again.`,
    )
  }

  /** Throws where so many bytes more cannot be in a header of this file. */
  claim(bytes: number): void {
    const end = this.position + bytes
    if (end > maxHeaderBytes) {
      throw new GgufError(
        'TooLarge',
        `${this.#name} claims a GGUF header of more than ${maxHeaderBytes / 1024 ** 2} MiB at byte ${this.position}, which no model has: the file is damaged, fetch it again.`,
      )
    }
    if (this.#fileBytes !== undefined && end > this.#fileBytes) throw this.#truncated(this.#fileBytes)
  }

  /** What has been brought and not been taken yet. */
  get ahead(): Buffer {
    return this.#window.subarray(this.#at)
  }

  /** After it, the next so many bytes can be taken. */
  *need(bytes: number): Reading<void> {
    if (this.#window.length - this.#at >= bytes) return
    this.claim(bytes)
    yield* this.fill(bytes)
    if (this.ahead.length < bytes) throw this.#truncated(this.position + this.ahead.length)
  }

  /** Brings so many bytes, or as many as there are. */
  *fill(bytes: number): Reading<void> {
    const from = this.position
    const pieces = [this.ahead]
    let length = this.ahead.length
    while (length < bytes) {
      const piece = yield { position: from + length, bytes: bytes - length }
      if (piece.length === 0) break
      pieces.push(Buffer.from(piece.buffer, piece.byteOffset, piece.length))
      length += piece.length
    }
    this.#window = Buffer.concat(pieces)
    this.#start = from
    this.#at = 0
  }

  /** What is skipped is not read, but its last byte is proven to be there. */
  *skip(bytes: number): Reading<void> {
    if (bytes === 0) return
    this.claim(bytes)
    const beyond = this.#at + bytes - this.#window.length
    if (beyond > 0) {
      this.#start = this.position + bytes - 1
      this.#window = Buffer.alloc(0)
      this.#at = 0
      yield* this.need(1)
      this.#at = 1
    } else {
      this.#at += bytes
    }
  }

  *skipStrings(count: number): Reading<void> {
    this.claim(count * 8)
    for (let left = this.#skipWholeStrings(count); left > 0; left = this.#skipWholeStrings(left - 1)) {
      yield* this.need(8)
      yield* this.skip(this.takeCount('a text'))
    }
  }

  /** As many as lie in the window, at most `count`; answers how many are left. Hundreds of thousands pass here. */
  #skipWholeStrings(count: number): number {
    const view = new DataView(this.#window.buffer, this.#window.byteOffset, this.#window.length)
    const end = this.#window.length
    let at = this.#at
    let left = count
    while (left > 0 && at + 8 <= end && view.getUint32(at + 4, true) === 0) {
      const next = at + 8 + view.getUint32(at, true)
      if (next > end) break
      at = next
      left -= 1
    }
    this.#at = at
    return left
  }

  /** The next so many bytes, which `need` has brought; valid until the next `need`. */
  take(bytes: number): Buffer {
    this.#at += bytes
    return this.#window.subarray(this.#at - bytes, this.#at)
  }

  takeUint32(): number {
    return this.take(4).readUInt32LE()
  }

  /** A uint64 that says how many or how long; throws where that cannot be counted. */
  takeCount(what: string): number {
    this.#at += 8
    const high = this.#window.readUInt32LE(this.#at - 4)
    if (high > 0xffff) throw this.malformed(`the length of ${what} is impossibly large`)
    return this.#window.readUInt32LE(this.#at - 8) + high * 2 ** 32
  }

  #truncated(bytes: number): GgufError {
    return new GgufError(
      'Truncated',
      `${this.#name} ends after ${bytes} bytes, in the middle of its GGUF header: fetch it again.`,
    )
  }
}

/** Real ones stay below 100. */
const maxKeys = 16_384
/** The length of all keys together. */
const maxKeysBytes = 1024 * 1024
/** The format's own limit. */
const maxKeyBytes = 65_535
/** Chat templates and licences stay below 100 kB. */
const maxTextBytes = 1024 * 1024
/** The length of all texts together, so that a header cannot fill the memory. */
const maxKeptBytes = 8 * 1024 * 1024
const maxArrayItems = 4_096
const maxNesting = 4

export interface Metadata {
  readonly metadata: ReadonlyMap<string, GgufValue>
  readonly arrayLengths: ReadonlyMap<string, number>
}

export function* readMetadata(cursor: Cursor, count: number): Reading<Metadata> {
  if (count > maxKeys) throw cursor.malformed(`it claims ${count} keys`)
  const metadata = new Map<string, GgufValue>()
  const arrayLengths = new Map<string, number>()
  const budget = { bytes: maxKeptBytes }
  let keysBytes = 0
  for (let index = 0; index < count; index += 1) {
    const key = yield* readName(cursor, maxKeyBytes, 'a key')
    keysBytes += Buffer.byteLength(key)
    if (keysBytes > maxKeysBytes) throw cursor.malformed(`its keys take more than ${maxKeysBytes} bytes together`)
    if (key === '' || metadata.has(key) || arrayLengths.has(key)) {
      throw cursor.malformed(key === '' ? 'a key is empty' : `the key ${shown(key)} appears twice`)
    }
    yield* cursor.need(4)
    const type = cursor.takeUint32()
    const value =
      type === arrayType
        ? yield* readArray(cursor, { keep: !key.startsWith('tokenizer.'), budget })
        : yield* readScalar(cursor, type, budget)
    if (typeof value === 'object' && 'skipped' in value) arrayLengths.set(key, value.skipped)
    else metadata.set(key, value)
  }
  return { metadata, arrayLengths }
}

/** A text that is short in every real file. */
function* readName(cursor: Cursor, maxBytes: number, what: string): Reading<string> {
  yield* cursor.need(8)
  const length = cursor.takeCount(what)
  if (length > maxBytes) throw cursor.malformed(`${what} claims to be ${length} bytes long`)
  yield* cursor.need(length)
  return cursor.take(length).toString()
}

/** For a message: not endless, and nothing in it that a terminal obeys. */
function shown(text: string): string {
  const escaped = JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)
  return escaped.replaceAll(/[\p{C}\u2028\u2029]/gu, (found) => `\\u{${found.codePointAt(0)?.toString(16) ?? ''}}`)
}

interface Budget {
  bytes: number
}

/** Items of an array, or bytes of a text, that are not kept. */
interface Skipped {
  readonly skipped: number
}

const stringType = 8
const arrayType = 9

interface NumberType {
  readonly bytes: number
  readonly read: (from: Buffer, at: number) => number | boolean | string
}

/** `enum gguf_type`, but for texts and arrays. */
const numberTypes: Readonly<Record<number, NumberType>> = {
  0: { bytes: 1, read: (from, at) => from.readUInt8(at) },
  1: { bytes: 1, read: (from, at) => from.readInt8(at) },
  2: { bytes: 2, read: (from, at) => from.readUInt16LE(at) },
  3: { bytes: 2, read: (from, at) => from.readInt16LE(at) },
  4: { bytes: 4, read: (from, at) => from.readUInt32LE(at) },
  5: { bytes: 4, read: (from, at) => from.readInt32LE(at) },
  6: { bytes: 4, read: (from, at) => from.readFloatLE(at) },
  7: { bytes: 1, read: (from, at) => from.readUInt8(at) !== 0 },
  10: { bytes: 8, read: (from, at) => safe(from.readBigUInt64LE(at)) },
  11: { bytes: 8, read: (from, at) => safe(from.readBigInt64LE(at)) },
  12: { bytes: 8, read: (from, at) => from.readDoubleLE(at) },
}

const safe = (value: bigint): number | string => (Number.isSafeInteger(Number(value)) ? Number(value) : String(value))

function numberType(cursor: Cursor, type: number): NumberType {
  const known = numberTypes[type]
  if (known === undefined) throw cursor.malformed(`a value has the type ${type}, which does not exist`)
  return known
}

function* readScalar(cursor: Cursor, type: number, budget: Budget): Reading<GgufScalar | Skipped> {
  if (type === stringType) return yield* readText(cursor, budget)
  const { bytes, read } = numberType(cursor, type)
  yield* cursor.need(bytes)
  return read(cursor.take(bytes), 0)
}

function* readText(cursor: Cursor, budget: Budget): Reading<string | Skipped> {
  yield* cursor.need(8)
  const length = cursor.takeCount('a text')
  if (length > maxTextBytes || length > budget.bytes) {
    yield* cursor.skip(length)
    return { skipped: length }
  }
  budget.bytes -= length
  yield* cursor.need(length)
  return cursor.take(length).toString()
}

interface ArrayOptions {
  readonly keep: boolean
  readonly budget: Budget
  readonly depth?: number
}

function* readArray(cursor: Cursor, options: ArrayOptions): Reading<readonly GgufScalar[] | Skipped> {
  const { keep, budget, depth = 1 } = options
  yield* cursor.need(12)
  const type = cursor.takeUint32()
  const count = cursor.takeCount('an array')
  const kept = keep && count <= maxArrayItems
  if (type === stringType) {
    if (kept) return yield* readTexts(cursor, count, budget)
    yield* cursor.skipStrings(count)
  } else if (type === arrayType) {
    if (depth >= maxNesting) throw cursor.malformed(`arrays are nested more than ${maxNesting} deep`)
    cursor.claim(count * 12)
    for (let index = 0; index < count; index += 1) {
      yield* readArray(cursor, { keep: false, budget, depth: depth + 1 })
    }
  } else {
    const { bytes, read } = numberType(cursor, type)
    if (kept) {
      yield* cursor.need(count * bytes)
      const from = cursor.take(count * bytes)
      return Array.from({ length: count }, (_, index) => read(from, index * bytes))
    }
    yield* cursor.skip(count * bytes)
  }
  return { skipped: count }
}

function* readTexts(cursor: Cursor, count: number, budget: Budget): Reading<readonly string[] | Skipped> {
  cursor.claim(count * 8)
  const texts: string[] = []
  for (let index = 0; index < count; index += 1) {
    const text = yield* readText(cursor, budget)
    if (typeof text === 'string') texts.push(text)
  }
  return texts.length === count ? texts : { skipped: count }
}

/** A mixture of experts that was never merged has some 50,000. */
const maxTensors = 131_072
/** llama.cpp takes 63. */
const maxTensorNameBytes = 256
/** GGML_MAX_DIMS */
const maxDimensions = 4
/** The lengths of name and dimensions, type and offset of the smallest tensor. */
const minTensorBytes = 24

export interface Tensors {
  readonly tensors: readonly GgufTensor[]
  readonly dataOffset: number
  /** Where the last byte of the last tensor is, plus one. */
  readonly endOffset: number
}

interface Options {
  readonly alignment: GgufValue
  readonly fileBytes: number | undefined
}

export function* readTensors(cursor: Cursor, count: number, { alignment, fileBytes }: Options): Reading<Tensors> {
  if (count > maxTensors) throw cursor.malformed(`it claims ${count} tensors`)
  if (!isPowerOfTwo(alignment)) throw cursor.malformed('general.alignment is not a power of two')
  cursor.claim(count * minTensorBytes)
  const entries: Entry[] = []
  const seen = new Set<string>()
  for (let index = 0; index < count; index += 1) {
    const entry = yield* readEntry(cursor)
    if (seen.has(entry.name)) throw cursor.malformed(`the tensor ${shown(entry.name)} appears twice`)
    if (entry.offset % alignment !== 0) throw cursor.malformed(`the tensor ${shown(entry.name)} is not aligned`)
    seen.add(entry.name)
    entries.push(entry)
  }
  const dataOffset = count === 0 ? cursor.position : Math.ceil(cursor.position / alignment) * alignment
  const gaps = gapsBehind(entries, fileBytes === undefined ? undefined : fileBytes - dataOffset)
  const tensors = entries.map(({ name, dimensions, type, bytes }, index) => {
    return { name, dimensions, type: tensorTypeName(type), bytes: bytes ?? gaps?.[index] ?? 0 }
  })
  const endOffset = entries.reduce(
    (end, { offset }, index) => Math.max(end, dataOffset + offset + (tensors[index]?.bytes ?? 0)),
    dataOffset,
  )
  return { tensors, dataOffset, endOffset }
}

interface Entry {
  readonly name: string
  readonly dimensions: readonly number[]
  readonly type: number
  /** Undefined for a type we do not know. */
  readonly bytes: number | undefined
  /** From the start of the data. */
  readonly offset: number
}

function* readEntry(cursor: Cursor): Reading<Entry> {
  const name = yield* readName(cursor, maxTensorNameBytes, "a tensor's name")
  yield* cursor.need(4)
  const dimensionCount = cursor.takeUint32()
  if (dimensionCount > maxDimensions) {
    throw cursor.malformed(`the tensor ${shown(name)} claims ${dimensionCount} dimensions`)
  }
  yield* cursor.need(dimensionCount * 8 + 12)
  const dimensions = Array.from({ length: dimensionCount }, () => cursor.takeCount(`the tensor ${shown(name)}`))
  const type = cursor.takeUint32()
  const offset = cursor.takeCount(`the tensor ${shown(name)}`)
  const bytes = tensorBytes(type, dimensions)
  if (Number.isNaN(bytes)) {
    throw cursor.malformed(
      `the tensor ${shown(name)} of type ${tensorTypeName(type)} is ${dimensions.join(' × ')} values`,
    )
  }
  return { name, dimensions, type, bytes, offset }
}

/** What lies between a tensor and the next is the most that one of an unknown type can have. Undefined where all are known. */
function gapsBehind(entries: readonly Entry[], dataBytes: number | undefined): readonly number[] | undefined {
  if (entries.every(({ bytes }) => bytes !== undefined)) return undefined
  const starts = entries.map(({ offset }) => offset).toSorted((a, b) => a - b)
  const next = new Map(starts.map((offset, index) => [offset, starts[index + 1] ?? dataBytes ?? offset]))
  return entries.map(({ offset }) => Math.max(0, (next.get(offset) ?? offset) - offset))
}

function isPowerOfTwo(value: GgufValue): value is number {
  return typeof value === 'number' && value >= 1 && value <= 2 ** 31 && Number.isInteger(Math.log2(value))
}

/** Name, values per block, bytes per block. */
type TensorType = readonly [name: string, blockValues: number, blockBytes: number]

/** `enum ggml_type` of llama.cpp's ggml.h with the sizes of its ggml-common.h; 4, 5 and 36 to 38 were removed without a trace. */
const tensorTypes: Readonly<Record<number, TensorType>> = {
  0: ['F32', 1, 4],
  1: ['F16', 1, 2],
  2: ['Q4_0', 32, 18],
  3: ['Q4_1', 32, 20],
  6: ['Q5_0', 32, 22],
  7: ['Q5_1', 32, 24],
  8: ['Q8_0', 32, 34],
  9: ['Q8_1', 32, 36],
  10: ['Q2_K', 256, 84],
  11: ['Q3_K', 256, 110],
  12: ['Q4_K', 256, 144],
  13: ['Q5_K', 256, 176],
  14: ['Q6_K', 256, 210],
  15: ['Q8_K', 256, 292],
  16: ['IQ2_XXS', 256, 66],
  17: ['IQ2_XS', 256, 74],
  18: ['IQ3_XXS', 256, 98],
  19: ['IQ1_S', 256, 50],
  20: ['IQ4_NL', 32, 18],
  21: ['IQ3_S', 256, 110],
  22: ['IQ2_S', 256, 82],
  23: ['IQ4_XS', 256, 136],
  24: ['I8', 1, 1],
  25: ['I16', 1, 2],
  26: ['I32', 1, 4],
  27: ['I64', 1, 8],
  28: ['F64', 1, 8],
  29: ['IQ1_M', 256, 56],
  30: ['BF16', 1, 2],
  31: ['Q4_0_4_4', 32, 18],
  32: ['Q4_0_4_8', 32, 18],
  33: ['Q4_0_8_8', 32, 18],
  34: ['TQ1_0', 256, 54],
  35: ['TQ2_0', 256, 66],
  39: ['MXFP4', 32, 17],
  40: ['NVFP4', 64, 36],
  41: ['Q1_0', 128, 18],
  42: ['Q2_0', 64, 18],
}

/** A type this version does not know is named by its number. */
export const tensorTypeName = (type: number): string => tensorTypes[type]?.[0] ?? `type ${type}`

/**
 * Bytes of a tensor without the padding after it. Undefined for a type we do not know; NaN where the dimensions cannot
 * be those of a tensor of this type (rows of broken blocks, more than can be counted).
 */
export function tensorBytes(type: number, dimensions: readonly number[]): number | undefined {
  const known = tensorTypes[type]
  if (known === undefined) return undefined
  const [, blockValues, blockBytes] = known
  if ((dimensions[0] ?? 1) % blockValues !== 0) return NaN
  const bytes = dimensions.reduce((product, dimension) => product * dimension, 1 / blockValues) * blockBytes
  return Number.isSafeInteger(bytes) ? bytes : NaN
}
