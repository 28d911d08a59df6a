import type { Cursor, Reading } from './cursor.ts'
import type { GgufScalar, GgufValue } from './types.ts'

/** Real ones stay below 100. */
const maxKeys = 16_384
/** Of all keys together. */
const maxKeysBytes = 1024 * 1024
/** The format's own limit. */
const maxKeyBytes = 65_535
/** Chat templates and licences stay below 100 kB. */
const maxTextBytes = 1024 * 1024
/** Of all texts together, so that a header cannot fill the memory. */
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
      throw cursor.malformed(key === '' ? 'a key is empty' : `the key ${shown(key)} comes twice`)
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
export function* readName(cursor: Cursor, maxBytes: number, what: string): Reading<string> {
  yield* cursor.need(8)
  const length = cursor.takeCount(what)
  if (length > maxBytes) throw cursor.malformed(`${what} claims to be ${length} bytes long`)
  yield* cursor.need(length)
  return cursor.take(length).toString()
}

/** For a message: not endless, and nothing in it that a terminal obeys. */
export function shown(text: string): string {
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
  if (known === undefined) throw cursor.malformed(`a value has the type ${type}, which there is not`)
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
