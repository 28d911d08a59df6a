import { mkdir, open, rename, stat, type FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'
import { findFirstError, lastLines } from './first-error.ts'
import type { Evidence } from './server-state.ts'

/** The first error of a start is near its beginning; a server that writes more than this before it has long been noise. */
const searchBytes = 4 * 1024 * 1024
const chunkBytes = 256 * 1024
const tailBytes = 256 * 1024
const tailLines = 200

/** One sentence why the output has nowhere to go. */
export class OutputError extends Error {
  override readonly name = 'OutputError'
}

/** Keeps the output of the previous run as `.previous`: its last words are what explains a crash. Throws OutputError. */
export async function keepPreviousOutput(file: string): Promise<void> {
  try {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    await rename(file, `${file}.previous`)
  } catch (error) {
    if (!isAbsent(error)) throw notWritable(file, error)
  }
}

/** For appending, readable only for this user. Throws OutputError. */
export async function openOutput(file: string): Promise<FileHandle> {
  try {
    return await open(file, 'a', 0o600)
  } catch (error) {
    throw notWritable(file, error)
  }
}

const notWritable = (file: string, error: unknown) =>
  new OutputError(
    `The output of the server cannot be written to ${file}: ${error instanceof Error ? error.message : String(error)}.`,
    { cause: error },
  )

/** Bytes written so far; 0 where there is no file. */
export async function outputSize(file: string): Promise<number> {
  try {
    return (await stat(file)).size
  } catch (error) {
    if (isAbsent(error)) return 0
    throw error
  }
}

/**
 * What the output from `offset` on says about an exit. Out of a start the first error counts, since the others follow from it; a server
 * that served for hours may have complained about requests all along, so there it is the first of the last lines.
 */
export async function readEvidence(
  file: string,
  { offset, outOf }: { offset: number; outOf: 'start' | 'serving' },
): Promise<Evidence> {
  let handle: FileHandle
  try {
    handle = await open(file)
  } catch (error) {
    if (isAbsent(error)) return { tail: [] }
    throw error
  }
  await using reading = handle
  const { size } = await reading.stat()
  const tailFrom = Math.max(offset, size - tailBytes)
  const tail = lastLines(await readText(reading, tailFrom, size), tailLines)
  const early =
    outOf === 'start' ? await firstErrorBetween(reading, offset, Math.min(size, offset + searchBytes)) : undefined
  const firstError = early ?? findFirstError(tail)
  return firstError === undefined ? { tail } : { firstError, tail }
}

async function firstErrorBetween(handle: FileHandle, from: number, to: number): Promise<string | undefined> {
  let rest = ''
  for (let position = from; position < to; position += chunkBytes) {
    const end = Math.min(position + chunkBytes, to)
    const lines = (rest + (await readText(handle, position, end))).split('\n')
    rest = end < to ? (lines.pop() ?? '').slice(-chunkBytes) : ''
    const found = findFirstError(lines)
    if (found !== undefined) return found
  }
  return undefined
}

async function readText(handle: FileHandle, from: number, to: number): Promise<string> {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(Math.max(0, to - from)), 0, undefined, from)
  return buffer.toString('utf8', 0, bytesRead)
}

const isAbsent = (error: unknown) => error instanceof Error && 'code' in error && error.code === 'ENOENT'
