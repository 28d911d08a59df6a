import type { Cursor, Reading } from './cursor.ts'
import { readName, shown } from './metadata.ts'
import { tensorBytes, tensorTypeName } from './tensor-types.ts'
import type { GgufTensor, GgufValue } from './types.ts'

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
    if (seen.has(entry.name)) throw cursor.malformed(`the tensor ${shown(entry.name)} comes twice`)
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
