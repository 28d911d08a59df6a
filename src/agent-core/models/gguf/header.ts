import { contentKindOf, kindLength, notGgufSentence } from './content-kind.ts'
import { Cursor, type Reading } from './cursor.ts'
import { fieldsOf } from './fields.ts'
import { GgufError } from './gguf-error.ts'
import { readMetadata } from './metadata.ts'
import { readTensors } from './tensors.ts'
import type { GgufHeader } from './types.ts'

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
  return { version, ...fieldsOf(metadata, arrayLengths, tensors), metadata, arrayLengths, tensors, dataOffset }
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
