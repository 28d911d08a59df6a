import { GgufError } from './gguf.ts'

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
    if (high > 0xffff) throw this.malformed(`the length of ${what} is beyond all measure`)
    return this.#window.readUInt32LE(this.#at - 8) + high * 2 ** 32
  }

  #truncated(bytes: number): GgufError {
    return new GgufError(
      'Truncated',
      `${this.#name} ends after ${bytes} bytes, in the middle of its GGUF header: fetch it again.`,
    )
  }
}
