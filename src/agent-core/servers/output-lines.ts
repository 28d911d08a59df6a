import { stripVTControlCharacters } from 'node:util'
import { formatBytes } from '../../contract/format.ts'

/** The most of a line that is kept to be read; of the rest only the length is kept. */
const shownBytes = 8 * 1024
/** Output without any line end is cut into lines of this length. */
const longestLineBytes = 16 * 1024 * 1024
const lineEnd = 0x0a

export interface OutputLine {
  readonly text: string
  /** Of its first byte. */
  readonly offset: number
}

/** Makes lines fit to be read of chunks of bytes, whatever the bytes are; what it holds in memory is bounded. */
export class LineSplitter {
  #offset: number
  #head = Buffer.alloc(0)
  #length = 0

  /** `offset`: of the first byte that it is given. */
  constructor(offset: number) {
    this.#offset = offset
  }

  /** Of the first byte that no line was made of yet. */
  get offset(): number {
    return this.#offset
  }

  /** There is a line that has not ended yet. */
  get isPending(): boolean {
    return this.#length > 0
  }

  push(bytes: Buffer): OutputLine[] {
    const lines: OutputLine[] = []
    let from = 0
    for (let end = bytes.indexOf(lineEnd); end !== -1; end = bytes.indexOf(lineEnd, from)) {
      this.#take(bytes.subarray(from, end))
      lines.push(this.#end(1))
      from = end + 1
    }
    this.#take(bytes.subarray(from))
    if (this.#length >= longestLineBytes) lines.push(this.#end(0))
    return lines
  }

  /** The line that has not ended yet, as far as it is known. */
  flush(): OutputLine[] {
    return this.isPending ? [this.#end(0)] : []
  }

  #take(part: Buffer): void {
    this.#length += part.length
    const room = shownBytes - this.#head.length
    if (room > 0) this.#head = Buffer.concat([this.#head, part.subarray(0, room)])
  }

  #end(endBytes: number): OutputLine {
    const cut = this.#length > shownBytes ? `… (${formatBytes(this.#length)} line cut)` : ''
    const line = { text: readable(this.#head) + cut, offset: this.#offset }
    this.#offset += this.#length + endBytes
    this.#head = Buffer.alloc(0)
    this.#length = 0
    return line
  }
}

/** Colours are dropped, a run of control characters (tabs aside) becomes a space, a run of invalid UTF-8 a single U+FFFD. */
const readable = (bytes: Buffer): string =>
  stripVTControlCharacters(bytes.toString('utf8'))
    .replaceAll(/[^\P{Cc}\t]+/gu, ' ')
    .replaceAll(/\uFFFD+/gu, '\uFFFD')
    .trimEnd()
