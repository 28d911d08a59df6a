import { formatBytes } from '../../../contract/format.ts'
import { ModelError, remoteRepairMs } from '../errors.ts'
import type { Bandwidth } from './bandwidth.ts'
import type { Body } from './body.ts'
import type { PartialFile } from './partial-file.ts'

/** Written at once by all connections together; as much may be collected meanwhile. */
const batchBytes = 1024 * 1024
const batchMs = 1000
/** Of an answer that does not say its length, and need never end. */
const defaultUnknownLengthBytes = 256 * 1024 ** 3

export interface StoreOptions {
  /** Where the body's first byte belongs. */
  readonly start: number
  /** Infinity = unknown. */
  readonly end: number
  /** Of the whole file, where known beforehand. */
  readonly sizeBytes?: number | undefined
  /** How many store at the same time at most. */
  readonly connections: number
  readonly bandwidth: Bandwidth
  readonly unknownLengthBytes?: number | undefined
  readonly shown: string
  readonly signal: AbortSignal
  /** Of the file, received by now. */
  readonly doneBytes: () => number
  /** So many bytes more, or fewer, are received and not written. */
  readonly onBuffered: (bytes: number) => void
  /** After a write has begun; throws where nothing more may be stored. */
  readonly onWrite: () => Promise<void>
}

/** Writes a body to its place, in batches. @returns where the bytes ended. */
export async function storeBody(body: Body, partial: PartialFile, options: StoreOptions): Promise<number> {
  const { start, end, sizeBytes: wanted, connections, bandwidth, shown, signal } = options
  const { unknownLengthBytes = defaultUnknownLengthBytes, doneBytes, onBuffered, onWrite } = options
  const enough = Math.ceil(batchBytes / connections)
  const isEndless = end === Infinity && wanted === undefined
  const limit = isEndless ? unknownLengthBytes : Math.min(end, wanted === undefined ? Infinity : wanted + 1)
  let position = start
  // Copied at once, so that the memory of each chunk can be given back before the next is read.
  let filling = Buffer.allocUnsafeSlow(enough)
  let spare = Buffer.allocUnsafeSlow(enough)
  let filled = 0
  let filledSince = performance.now()
  let writing: Promise<void> = Promise.resolve()
  const flush = async (): Promise<void> => {
    await writing
    const [batch, at] = [filling.subarray(0, filled), position - filled]
    ;[filling, spare, filled, filledSince] = [spare, filling, 0, performance.now()]
    if (batch.length === 0) return
    writing = partial.write(batch, at).finally(() => onBuffered(-batch.length))
    writing.catch(() => undefined) // the next await of it rejects
    await onWrite()
  }
  try {
    while (position < limit) {
      const chunk = await body.next(doneBytes(), partial.remote.sizeBytes)
      if (chunk === undefined) break
      const pause = bandwidth.take(chunk.length, signal)
      if (pause !== undefined) await pause
      for (let rest = chunk.subarray(0, limit - position); rest.length > 0;) {
        const piece = rest.subarray(0, filling.length - filled)
        filling.set(piece, filled)
        filled += piece.length
        position += piece.length
        onBuffered(piece.length)
        rest = rest.subarray(piece.length)
        if (filled === filling.length) await flush()
      }
      release(chunk)
      if (performance.now() - filledSince >= batchMs) await flush()
    }
  } finally {
    // The bytes received stay, whatever ended the request.
    await flush()
    await writing
    release(filling)
    release(spare)
  }
  if (isEndless && position >= limit) throw endless(shown, limit)
  return position
}

/**
 * Gives the memory of a buffer back at once, where no other shares it: left to the garbage collector it would be tens of MiB, which that
 * hardly sees, as they lie outside its heap. The buffer must not be used afterwards.
 */
function release({ buffer, byteLength }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && byteLength === buffer.byteLength) buffer.transfer(0)
}

function endless(shown: string, bytes: number): ModelError {
  return new ModelError(
    'transient',
    'WrongLength',
    `${shown} does not say its length and goes on after ${formatBytes(bytes)}: give an address that says how long the file is.`,
    { retryAfterMs: remoteRepairMs },
  )
}
