import { Refusal } from './refusal.ts'

/** Pictures and long contexts fit many times. */
export const maxBodyBytes = 128 * 1_024 * 1_024

export const bodyTooLarge = new Refusal(
  ...(['4xx', 413, 'body_too_large'] as const),
  `A request may have at most ${maxBodyBytes / 1_024 / 1_024} MiB: send smaller images or less text.`,
)

/** What all requests of this process may hold of bodies that cannot go on yet. */
const maxHeldBytes = maxBodyBytes
let heldBytes = 0

/** What has come of one body and cannot go on yet, since it is not known where to. */
export class HeldPieces implements Disposable {
  #pieces: Buffer[] = []
  #bytes = 0

  /** Throws Refusal where too much is held. */
  add(piece: Buffer): void {
    if (this.#bytes + piece.length > maxBodyBytes) throw bodyTooLarge
    if (heldBytes + piece.length > maxHeldBytes) throw tooMuchHeld
    this.#changeBy(piece.length)
    this.#pieces.push(piece)
  }

  /** The oldest of them, which is held no longer. */
  next(): Buffer | undefined {
    const piece = this.#pieces.shift()
    this.#changeBy(-(piece?.length ?? 0))
    return piece
  }

  take(): Buffer[] {
    const pieces = this.#pieces
    this[Symbol.dispose]()
    return pieces
  }

  [Symbol.dispose](): void {
    this.#changeBy(-this.#bytes)
    this.#pieces = []
  }

  #changeBy(bytes: number): void {
    this.#bytes += bytes
    heldBytes += bytes
  }
}

const tooMuchHeld = new Refusal(
  ...(['5xx', 503, 'too_many_requests'] as const),
  'Too many requests are being read whose "model" has not come yet: put "model" first, name the service in the path, or ask again.',
)
