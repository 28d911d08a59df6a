import { Refusal } from './refusal.ts'

/** Pictures and long contexts fit many times. */
export const maxBodyBytes = 128 * 1_024 * 1_024

export const bodyTooLarge = new Refusal(
  ...(['4xx', 413, 'body_too_large'] as const),
  `A request may have at most ${maxBodyBytes / 1_024 / 1_024} MiB: send smaller images or less text.`,
)

/** What all requests of this process hold of bodies that cannot go on yet: no more than one body may have. */
let heldBytes = 0
const holders = new Set<HeldPieces>()

/**
 * What has come of one body and cannot go on yet, since it is not known where to. Where all hold too much, the one that holds most gives it up:
 * who sends much, and then slowly, keeps nobody out.
 */
export class HeldPieces implements Disposable {
  #pieces: Buffer[] = []
  #bytes = 0
  #gaveUp = false

  /** Throws Refusal where too much is held. */
  add(piece: Buffer): void {
    if (this.#gaveUp) throw tooMuchHeld
    if (this.#bytes + piece.length > maxBodyBytes) throw bodyTooLarge
    holders.add(this)
    this.#changeBy(piece.length)
    this.#pieces.push(piece)
    if (heldBytes <= maxBodyBytes) return
    const most = [...holders].reduce((one, other) => (other.#bytes > one.#bytes ? other : one))
    most.#giveUp()
    if (most === this) throw tooMuchHeld
  }

  /** The oldest of them, which is held no longer. Throws Refusal where it was given up. */
  next(): Buffer | undefined {
    if (this.#gaveUp) throw tooMuchHeld
    const piece = this.#pieces.shift()
    this.#changeBy(-(piece?.length ?? 0))
    return piece
  }

  [Symbol.dispose](): void {
    this.#changeBy(-this.#bytes)
    this.#pieces = []
    holders.delete(this)
  }

  #giveUp(): void {
    this[Symbol.dispose]()
    this.#gaveUp = true
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
