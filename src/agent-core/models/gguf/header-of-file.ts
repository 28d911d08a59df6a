import { open } from 'node:fs/promises'
import { Turns } from '../../util/turns.ts'
import { parseHeader } from './header.ts'
import type { GgufHeader } from './types.ts'

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
