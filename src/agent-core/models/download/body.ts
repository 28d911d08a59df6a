import type { Readable } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { magicLength } from '../content.ts'
import { ModelError, remoteRepairMs } from '../errors.ts'
import { truncated } from '../http-answer.ts'
import type { PaceGuard } from './pace-guard.ts'
import type { Answer } from './request.ts'

/** The bytes of an answer, decoded where the server compressed them although asked not to. */
export class Body {
  readonly #chunks: AsyncIterator<unknown>
  readonly #guard: PaceGuard
  readonly #signal: AbortSignal
  readonly #shown: string
  #held: Uint8Array[] = []
  #ended = false

  constructor(answer: Answer, encoding: string | undefined, guard: PaceGuard, signal: AbortSignal, shown: string) {
    this.#guard = guard
    this.#signal = signal
    this.#shown = shown
    const stream = encoding === undefined ? answer.body : decoded(answer.body, encoding, shown)
    this.#chunks = stream[Symbol.asyncIterator]()
  }

  /** The first bytes, which `next` gives as well. Enough to tell what it is, unless it is shorter. */
  async start(totalBytes: number | undefined): Promise<Buffer> {
    const held: Uint8Array[] = []
    let bytes = 0
    while (bytes < magicLength) {
      const chunk = await this.next(bytes, totalBytes)
      if (chunk === undefined) break
      held.push(chunk)
      bytes += chunk.length
    }
    this.#held = [...held, ...this.#held]
    return Buffer.concat(held).subarray(0, magicLength)
  }

  /** Undefined at the end. Throws ModelError when the server goes quiet or away. */
  async next(doneBytes: number, totalBytes: number | undefined): Promise<Uint8Array | undefined> {
    const held = this.#held.shift()
    if (held !== undefined || this.#ended) return held
    this.#guard.waiting()
    try {
      const next: IteratorResult<unknown, unknown> = await this.#chunks.next()
      this.#ended = next.done === true
      const value: unknown = next.value
      const chunk = value instanceof Uint8Array ? value : undefined
      this.#guard.received(chunk?.length ?? 0)
      return chunk
    } catch (error) {
      this.#signal.throwIfAborted()
      this.#guard.signal.throwIfAborted()
      throw error instanceof ModelError ? error : truncated(this.#shown, doneBytes, totalBytes, error)
    }
  }
}

function decoded(body: Answer['body'], encoding: string, shown: string): Readable {
  const decoder =
    encoding === 'gzip' || encoding === 'x-gzip'
      ? createGunzip()
      : encoding === 'deflate'
        ? createInflate()
        : encoding === 'br'
          ? createBrotliDecompress()
          : undefined
  if (decoder === undefined) {
    throw new ModelError(
      'transient',
      'HttpRefused',
      `${shown} is sent compressed (${encoding}) although that was not asked for: give an address that sends the file as it is.`,
      { retryAfterMs: remoteRepairMs },
    )
  }
  body.on('error', (error: Error) => decoder.destroy(error))
  return body.pipe(decoder)
}
