/** Only so much of a body is looked at: a `model` that stands behind that has to be named by the path. */
export const maxLookedAt = 256 * 1_024

/** No model has a longer name; a longer text is not kept. */
const maxNameBytes = 2_048

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a]
const openers = new Set([0x7b, 0x5b])
const closers = new Set([0x7d, 0x5d])
const openBrace = 0x7b

/**
 * Looks for the text of `model` in the outermost object of a JSON body that comes in pieces. It knows texts and depth, so that a `model` in a
 * message is none; what is no JSON has no model. The first one counts.
 */
export class ModelField {
  /** Undefined until it is found. */
  model: string | undefined
  #isOver = false
  #bytes = 0
  #depth = 0
  #isInText = false
  #isEscaped = false
  /** Whether the next text in the outermost object is a key, and the last key there. */
  #isKey = true
  #key = ''
  #text: number[] = []

  /** Nothing that follows can change the answer. */
  get isOver(): boolean {
    return this.#isOver || this.#bytes >= maxLookedAt
  }

  push(piece: Buffer): void {
    for (const byte of piece) {
      if (this.isOver) return
      this.#bytes += 1
      if (this.#isInText) this.#inText(byte)
      else this.#between(byte)
    }
  }

  #inText(byte: number): void {
    const ends = byte === quote && !this.#isEscaped
    this.#isEscaped = byte === backslash && !this.#isEscaped
    if (ends) {
      this.#isInText = false
      if (this.#depth === 1) this.#ended()
    } else if (this.#depth === 1 && this.#text.length <= maxNameBytes) this.#text.push(byte)
  }

  #ended(): void {
    const text = this.#text.length > maxNameBytes ? undefined : unescaped(this.#text)
    this.#text = []
    if (this.#isKey) this.#key = text ?? ''
    else if (this.#key === 'model') {
      this.model = text
      this.#isOver = true
    }
  }

  #between(byte: number): void {
    if (byte === quote) this.#isInText = true
    else if (openers.has(byte)) {
      if (this.#depth === 0 && byte !== openBrace) this.#isOver = true
      this.#depth += 1
    } else if (closers.has(byte)) {
      this.#depth -= 1
      if (this.#depth <= 0) this.#isOver = true
    } else if (this.#depth === 1 && byte === colon) this.#isKey = false
    else if (this.#depth === 1 && byte === comma) this.#isKey = true
  }
}

function unescaped(bytes: readonly number[]): string | undefined {
  try {
    return String(JSON.parse(`"${Buffer.from(bytes).toString('utf8')}"`))
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}
