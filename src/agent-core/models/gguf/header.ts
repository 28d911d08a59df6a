import { open } from 'node:fs/promises'
import { Turns } from '../../util/turns.ts'
import { contentKindOf, kindLength, notGgufSentence } from '../content-kind.ts'
import { GgufError, type GgufFields, type GgufHeader, type GgufTensor, type GgufValue } from './gguf.ts'
import { Cursor, readMetadata, readTensors, type Reading } from './sections.ts'

/** Sources count what they hand out. */
export type ParsedHeader = Omit<GgufHeader, 'bytesRead'>

/** `fileBytes`: where known, every length is held against it. Throws GgufError with `name` in its sentence. */
export function* parseHeader(name: string, fileBytes: number | undefined): Reading<ParsedHeader> {
  const cursor = new Cursor(name, fileBytes)
  yield* expectMagic(name, cursor)
  yield* cursor.need(24)
  cursor.take(4)
  const version = expectVersion(name, cursor.takeUint32())
  const tensorCount = cursor.takeCount('the list of tensors')
  const keyCount = cursor.takeCount('the list of keys')
  const { metadata, arrayLengths } = yield* readMetadata(cursor, keyCount)
  const { tensors, dataOffset, endOffset } = yield* readTensors(cursor, tensorCount, {
    alignment: metadata.get('general.alignment') ?? 32,
    fileBytes,
  })
  if (fileBytes !== undefined && endOffset > fileBytes) {
    throw new GgufError(
      'Truncated',
      `${name} is cut short: it has ${fileBytes} bytes of the ${endOffset} that its GGUF header describes; fetch it again.`,
    )
  }
  return { version, ...fieldsOf(metadata, tensors), metadata, arrayLengths, tensors, dataOffset }
}

/** What is no GGUF file is named as what it is. */
function* expectMagic(name: string, cursor: Cursor): Reading<void> {
  yield* cursor.fill(kindLength)
  const kind = contentKindOf(cursor.ahead)
  if (kind === 'gguf') return
  throw new GgufError(
    kind === 'html' ? 'Html' : kind === 'empty' ? 'Truncated' : 'NotGguf',
    notGgufSentence(name, kind),
  )
}

function expectVersion(name: string, version: number): number {
  if (version === 2 || version === 3) return version
  if ((version & 0xffff) === 0 && version !== 0) {
    throw new GgufError(
      'Malformed',
      `${name} is a big-endian GGUF file, which this machine cannot run: get the little-endian one.`,
    )
  }
  throw new GgufError(
    'Malformed',
    version === 1
      ? `${name} is a GGUF file of version 1, which llama.cpp no longer loads: get it in version 3.`
      : `${name} is a GGUF file of version ${version}, but only 2 and 3 are known here: fetch it again, or update the agent if the file is new.`,
  )
}

/** Large enough that a large vocabulary costs few system calls, small enough that a small header costs little, and no turn is long. */
const windowBytes = 256 * 1024

/** Undefined where it takes more than `maxBytes` to read. Throws GgufError, and what the system answers. */
export async function headerOfFile(
  path: string,
  { maxBytes = Infinity, signal }: { maxBytes?: number; signal?: AbortSignal | undefined } = {},
): Promise<GgufHeader | undefined> {
  await using file = await open(path, 'r')
  const { size } = await file.stat()
  const parser = parseHeader(path, size)
  const turns = new Turns()
  let bytesRead = 0
  let step = parser.next()
  while (step.done !== true) {
    const { position, bytes } = step.value
    if (bytesRead + bytes > maxBytes) return undefined
    const window = Buffer.allocUnsafe(Math.max(bytes, Math.min(windowBytes, size - position)))
    const { bytesRead: length } = await file.read(window, 0, window.length, position)
    signal?.throwIfAborted()
    await turns.pass()
    bytesRead += length
    step = parser.next(window.subarray(0, length))
  }
  return { ...step.value, bytesRead }
}

function fieldsOf(metadata: ReadonlyMap<string, GgufValue>, tensors: readonly GgufTensor[]): GgufFields {
  const architecture = textOf(metadata.get('general.architecture')) ?? ''
  const own = (key: string) => metadata.get(`${architecture}.${key}`)
  return {
    architecture,
    ...present({
      quantization: quantizationOf(metadata.get('general.file_type'), tensors),
      contextLength: countOf(own('context_length')),
    }),
  }
}

const textOf = (value: GgufValue | undefined): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

const countOf = (value: GgufValue | undefined): number | undefined => (isCount(value) ? value : undefined)

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0

type Present<T> = { [K in keyof T]?: Exclude<T[K], undefined> }

/** Without the properties that are undefined. */
function present<T extends object>(fields: T): Present<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Present<T> // only fewer
}

/** `enum llama_ftype` of llama.cpp's llama.h, spelled as in file names. */
const fileTypes: Readonly<Record<number, string>> = {
  0: 'F32',
  1: 'F16',
  2: 'Q4_0',
  3: 'Q4_1',
  7: 'Q8_0',
  8: 'Q5_0',
  9: 'Q5_1',
  10: 'Q2_K',
  11: 'Q3_K_S',
  12: 'Q3_K_M',
  13: 'Q3_K_L',
  14: 'Q4_K_S',
  15: 'Q4_K_M',
  16: 'Q5_K_S',
  17: 'Q5_K_M',
  18: 'Q6_K',
  19: 'IQ2_XXS',
  20: 'IQ2_XS',
  21: 'Q2_K_S',
  22: 'IQ3_XS',
  23: 'IQ3_XXS',
  24: 'IQ1_S',
  25: 'IQ4_NL',
  26: 'IQ3_S',
  27: 'IQ3_M',
  28: 'IQ2_S',
  29: 'IQ2_M',
  30: 'IQ4_XS',
  31: 'IQ1_M',
  32: 'BF16',
  33: 'Q4_0_4_4',
  34: 'Q4_0_4_8',
  35: 'Q4_0_8_8',
  36: 'TQ1_0',
  37: 'TQ2_0',
  38: 'MXFP4_MOE',
  39: 'NVFP4',
  40: 'Q1_0',
  41: 'Q2_0',
}

/** Added by llama.cpp to a file type that it guessed itself. */
const guessed = 1024

/** As people write it (`Q4_K_M`): what the file says of itself, else the type of most of its bytes. */
function quantizationOf(fileType: GgufValue | undefined, tensors: readonly GgufTensor[]): string | undefined {
  return (typeof fileType === 'number' ? fileTypes[fileType % guessed] : undefined) ?? dominantType(tensors)
}

function dominantType(tensors: readonly GgufTensor[]): string | undefined {
  const bytesOf = new Map<string, number>()
  for (const { type, bytes } of tensors) bytesOf.set(type, (bytesOf.get(type) ?? 0) + bytes)
  return [...bytesOf].toSorted(([, a], [, b]) => b - a)[0]?.[0]
}
