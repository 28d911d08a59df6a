import { isTurnOver, nextTurn } from '../../util/turns.ts'
import { contentKindOf, notGgufSentence } from '../content-kind.ts'
import { GgufError, type GgufFields, type GgufHeader, type GgufTensor, type GgufValue } from './gguf.ts'
import { fileTypes, tensorTypes } from './types.ts'

/** Real ones stay below 20 MiB (262,144 tokens with 500,000 merges: 19 MiB). */
export const maxHeaderBytes = 64 * 1024 ** 2
/** Enough for a header without a vocabulary. */
const firstBytes = 1024 ** 2
/** Real ones stay below 100. */
const maxKeys = 1_024
/** A mixture of experts that was never merged has some 50,000. */
const maxTensors = 131_072
/** The longest name of a key or a tensor. llama.cpp accepts 63 bytes for a tensor. */
const maxNameBytes = 256
/** GGML_MAX_DIMS */
const maxDimensions = 4
/** The lengths of name and dimensions, type and offset of the smallest tensor. */
const minTensorBytes = 24
/** The longest text that is kept. Names and addresses are shorter; chat templates and licences are longer, and nothing here reads them. */
const maxTextBytes = 1_024
/** The longest list that is kept: lists by layer are shorter. */
const maxItems = 512

/** A file from its start. */
export interface HeaderSource {
  readonly name: string
  /** The whole file; every length is held against it where it is known. */
  readonly fileBytes: number | undefined
  /** At least so many bytes from the file's start, fewer only where it ends before. */
  read(bytes: number): Promise<Buffer>
}

/** Throws GgufError with the source's name, and what `read` throws. */
export async function readHeader(source: HeaderSource): Promise<GgufHeader> {
  for (let wanted = firstBytes; ;) {
    const bytes = await source.read(wanted)
    try {
      return await parse(new Cursor(source, bytes))
    } catch (error) {
      if (!(error instanceof Beyond)) throw error
      if (bytes.length < wanted) throw endsEarly(source.name, bytes.length)
      wanted = Math.max(error.bytes, Math.ceil(wanted * 1.5))
    }
  }
}

/** More of the file is needed than was read. */
class Beyond extends Error {
  readonly bytes: number

  constructor(bytes: number) {
    super()
    this.bytes = bytes
  }
}

const endsEarly = (name: string, bytes: number): GgufError =>
  new GgufError(`${name} ends after ${bytes} bytes, in the middle of its GGUF header: fetch it again.`)

/**
 * A place in a header that only moves on. Never trusts a length: what would lead past the file's end or past
 * `maxHeaderBytes` throws before anything is read or allocated for it.
 */
class Cursor {
  readonly name: string
  readonly fileBytes: number | undefined
  readonly bytes: Buffer
  /** Reads an integer ten times faster than the buffer's methods. */
  readonly #view: DataView
  position = 0

  constructor({ name, fileBytes }: HeaderSource, bytes: Buffer) {
    this.name = name
    this.fileBytes = fileBytes
    this.bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  }

  malformed(what: string): GgufError {
    return new GgufError(`${this.name} is a damaged GGUF file: ${what} (at byte ${this.position}); fetch it again.`)
  }

  /** Throws unless so many bytes more are here. */
  need(bytes: number): void {
    const end = this.position + bytes
    if (end <= this.bytes.length && end <= maxHeaderBytes) return
    if (end > maxHeaderBytes) {
      throw new GgufError(
        `${this.name} claims a GGUF header of more than ${maxHeaderBytes / 1024 ** 2} MiB at byte ${this.position}, which no model has: the file is damaged, fetch it again.`,
      )
    }
    if (this.fileBytes !== undefined && end > this.fileBytes) throw endsEarly(this.name, this.fileBytes)
    throw new Beyond(end)
  }

  /** Moves over so many bytes and answers where they begin. */
  take(bytes: number): number {
    this.need(bytes)
    this.position += bytes
    return this.position - bytes
  }

  uint32(): number {
    return this.#view.getUint32(this.take(4), true)
  }

  /** A uint64 that says how many or how long. Throws where that cannot be counted. */
  count(what: string): number {
    const at = this.take(8)
    const high = this.#view.getUint32(at + 4, true)
    if (high > 0xffff) throw this.malformed(`the length of ${what} is impossibly large`)
    return this.#view.getUint32(at, true) + high * 2 ** 32
  }

  text(bytes: number): string {
    const at = this.take(bytes)
    return this.bytes.toString('utf8', at, at + bytes)
  }

  /** A text that is short in every real file. */
  shortText(what: string): string {
    const length = this.count(what)
    if (length > maxNameBytes) throw this.malformed(`${what} claims to be ${length} bytes long`)
    return this.text(length)
  }
}

async function parse(cursor: Cursor): Promise<GgufHeader> {
  const kind = contentKindOf(cursor.bytes)
  if (kind !== 'gguf') throw new GgufError(notGgufSentence(cursor.name, kind))
  cursor.take(4)
  expectVersion(cursor.name, cursor.uint32())
  const tensorCount = cursor.count('the list of tensors')
  const { metadata, vocabulary } = await readMetadata(cursor, cursor.count('the list of keys'))
  const { tensors, dataOffset } = readTensors(cursor, tensorCount, metadata.get('general.alignment') ?? 32)
  return { ...fieldsOf(metadata, tensors), metadata, vocabulary, tensors, dataOffset }
}

function expectVersion(name: string, version: number): void {
  if (version === 2 || version === 3) return
  throw new GgufError(
    (version & 0xffff) === 0 && version !== 0
      ? `${name} is a big-endian GGUF file, which this machine cannot run: get the little-endian one.`
      : version === 1
        ? `${name} is a GGUF file of version 1, which llama.cpp no longer loads: get it in version 3.`
        : `${name} is a GGUF file of version ${version}, but only 2 and 3 are known here: fetch it again, or update the agent if the file is new.`,
  )
}

async function readMetadata(cursor: Cursor, count: number): Promise<Pick<GgufHeader, 'metadata' | 'vocabulary'>> {
  if (count > maxKeys) throw cursor.malformed(`it claims ${count} keys`)
  const metadata = new Map<string, GgufValue>()
  let vocabulary: number | undefined
  for (let index = 0; index < count; index += 1) {
    const key = cursor.shortText('a key')
    const type = cursor.uint32()
    if (type === arrayType) {
      const { length, items } = await readArray(cursor)
      if (items) metadata.set(key, items)
      if (key === 'tokenizer.ggml.tokens') vocabulary = length
    } else {
      const value = type === textType ? readText(cursor) : readNumber(cursor, numberType(cursor, type))
      if (value !== undefined) metadata.set(key, value)
    }
  }
  return { metadata, vocabulary }
}

const textType = 8
const arrayType = 9

interface NumberType {
  readonly bytes: number
  readonly read: (from: Buffer, at: number) => number | boolean
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
  10: { bytes: 8, read: (from, at) => Number(from.readBigUInt64LE(at)) },
  11: { bytes: 8, read: (from, at) => Number(from.readBigInt64LE(at)) },
  12: { bytes: 8, read: (from, at) => from.readDoubleLE(at) },
}

function numberType(cursor: Cursor, type: number): NumberType {
  const known = numberTypes[type]
  if (known === undefined) throw cursor.malformed(`a value has the type ${type}, which does not exist`)
  return known
}

const readNumber = (cursor: Cursor, { bytes, read }: NumberType): number | boolean =>
  read(cursor.bytes, cursor.take(bytes))

/** Undefined where it is too long to keep. */
function readText(cursor: Cursor): string | undefined {
  const length = cursor.count('a text')
  if (length <= maxTextBytes) return cursor.text(length)
  cursor.take(length)
  return undefined
}

/** `items`: absent where they are not kept. Throws for an array of arrays, as llama.cpp does. */
async function readArray(cursor: Cursor): Promise<{ length: number; items?: readonly (number | boolean)[] }> {
  const type = cursor.uint32()
  const length = cursor.count('an array')
  if (type === textType) {
    cursor.need(length * 8)
    for (let index = 0; index < length; index += 1) {
      cursor.take(cursor.count('a text'))
      if (index % textsBetweenTurns === 0) while (isTurnOver()) await nextTurn()
    }
    return { length }
  }
  if (type === arrayType) {
    throw new GgufError(
      `${cursor.name} has arrays in an array of its GGUF header, which llama.cpp does not load: get a file that a newer converter made.`,
    )
  }
  const item = numberType(cursor, type)
  cursor.need(length * item.bytes)
  if (length <= maxItems) return { length, items: Array.from({ length }, () => readNumber(cursor, item)) }
  cursor.take(length * item.bytes)
  return { length }
}

/** Some milliseconds' worth; `maxHeaderBytes` has room for 8 million of them. */
const textsBetweenTurns = 16_384

interface Entry extends Omit<GgufTensor, 'bytes'> {
  /** Undefined for a type that is not known here. */
  readonly bytes: number | undefined
  /** From the start of the data. */
  readonly offset: number
}

function readTensors(cursor: Cursor, count: number, alignment: GgufValue): Pick<GgufHeader, 'tensors' | 'dataOffset'> {
  if (count > maxTensors) throw cursor.malformed(`it claims ${count} tensors`)
  if (!isPowerOfTwo(alignment)) throw cursor.malformed('general.alignment is not a power of two')
  cursor.need(count * minTensorBytes)
  const entries = Array.from({ length: count }, () => readEntry(cursor))
  const dataOffset = count === 0 ? cursor.position : Math.ceil(cursor.position / alignment) * alignment
  const gapAt = gapsBetween(entries, (cursor.fileBytes ?? dataOffset) - dataOffset)
  const tensors = entries.map(({ offset, bytes = gapAt(offset), ...rest }) => ({ ...rest, bytes }))
  const endOffset = entries.reduce(
    (end, { offset, bytes = 0 }) => Math.max(end, dataOffset + offset + bytes),
    dataOffset,
  )
  if (endOffset > (cursor.fileBytes ?? Infinity)) {
    throw new GgufError(
      `${cursor.name} is cut short: it has ${cursor.fileBytes} bytes of the ${endOffset} that its GGUF header describes; fetch it again.`,
    )
  }
  return { tensors, dataOffset }
}

const isPowerOfTwo = (value: GgufValue): value is number =>
  typeof value === 'number' && value >= 1 && value <= 2 ** 31 && Number.isInteger(Math.log2(value))

function readEntry(cursor: Cursor): Entry {
  const name = cursor.shortText("a tensor's name")
  const count = cursor.uint32()
  if (count > maxDimensions) throw cursor.malformed(`a tensor claims ${count} dimensions`)
  const dimensions = Array.from({ length: count }, () => cursor.count('a tensor'))
  const type = cursor.uint32()
  const offset = cursor.count('a tensor')
  const known = tensorTypes[type]
  if (known === undefined) return { name, dimensions, type: `type ${type}`, bytes: undefined, offset }
  const [typeName, blockValues, blockBytes] = known
  const bytes = dimensions.reduce((product, dimension) => product * dimension, 1 / blockValues) * blockBytes
  if (!Number.isSafeInteger(bytes)) {
    throw cursor.malformed(`a tensor of type ${typeName} is ${dimensions.join(' × ')} values`)
  }
  return { name, dimensions, type: typeName, bytes, offset }
}

/** From a tensor's offset to the next one, or to the data's end: the most that a tensor of an unknown type can have. */
function gapsBetween(entries: readonly Entry[], dataBytes: number): (offset: number) => number {
  const starts = entries.map(({ offset }) => offset).toSorted((a, b) => a - b)
  const next = new Map(starts.map((offset, index) => [offset, starts[index + 1] ?? dataBytes]))
  return (offset) => Math.max(0, (next.get(offset) ?? offset) - offset)
}

function fieldsOf(metadata: ReadonlyMap<string, GgufValue>, tensors: readonly GgufTensor[]): GgufFields {
  const [name, fileType] = [metadata.get('general.architecture'), metadata.get('general.file_type')]
  const architecture = typeof name === 'string' ? name : ''
  const context = metadata.get(`${architecture}.context_length`)
  const quantization = (typeof fileType === 'number' && fileTypes[fileType % guessed]) || dominantType(tensors)
  return {
    architecture,
    ...(quantization !== undefined && { quantization }),
    ...(typeof context === 'number' && Number.isSafeInteger(context) && context >= 0 && { contextLength: context }),
  }
}

/** Added by llama.cpp to a file type that it guessed itself. */
const guessed = 1_024

/** The type of most of the bytes. */
function dominantType(tensors: readonly GgufTensor[]): string | undefined {
  const bytesOf = new Map<string, number>()
  for (const { type, bytes } of tensors) bytesOf.set(type, (bytesOf.get(type) ?? 0) + bytes)
  return [...bytesOf].toSorted(([, a], [, b]) => b - a)[0]?.[0]
}
