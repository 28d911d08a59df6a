import { createHash } from 'node:crypto'

const pageBytes = 64 * 1024

/** Bytes that tell file and place: the same for the same seed, and no two pages alike. Begins as GGUF files do. */
export class Content {
  readonly sizeBytes: number
  readonly #page: Buffer

  constructor(seed: string, sizeBytes: number) {
    this.sizeBytes = sizeBytes
    const pieces = Array.from({ length: pageBytes / 32 }, (_, index) =>
      createHash('sha256').update(`${seed}/${index}`).digest(),
    )
    this.#page = Buffer.concat(pieces)
  }

  /** At most one page, from a place on. */
  piece(offset: number, end: number): Buffer {
    const index = Math.floor(offset / pageBytes)
    const page = Buffer.from(this.#page)
    page.writeDoubleBE(index, 8)
    if (index === 0) page.write('GGUF')
    const start = index * pageBytes
    return page.subarray(offset - start, Math.min(end, start + pageBytes, this.sizeBytes) - start)
  }

  *pieces(start: number, end: number): Generator<Buffer> {
    for (let at = start; at < Math.min(end, this.sizeBytes);) {
      const piece = this.piece(at, end)
      at += piece.length
      yield piece
    }
  }

  sha256(): string {
    const hash = createHash('sha256')
    for (const piece of this.pieces(0, this.sizeBytes)) hash.update(piece)
    return hash.digest('hex')
  }
}
