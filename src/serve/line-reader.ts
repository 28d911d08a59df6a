export interface LineReaderOptions {
  readonly maxBytes: number
  readonly onLine: (line: string) => void
  /** Called once; what comes after is not looked at. */
  readonly onTooLong: () => void
}

/** Cuts a stream of bytes into lines and holds never more than one of them. */
export class LineReader {
  readonly #options: LineReaderOptions
  #pending: Buffer[] = []
  #pendingBytes = 0
  #ended = false

  constructor(options: LineReaderOptions) {
    this.#options = options
  }

  push(chunk: Buffer): void {
    let rest = chunk
    while (!this.#ended) {
      const newline = rest.indexOf(0x0a)
      const piece = newline < 0 ? rest : rest.subarray(0, newline)
      if (this.#pendingBytes + piece.length > this.#options.maxBytes) {
        this.stop()
        this.#options.onTooLong()
        return
      }
      this.#pending.push(piece)
      this.#pendingBytes += piece.length
      if (newline < 0) return
      const line = Buffer.concat(this.#pending).toString('utf8')
      this.#forget()
      rest = rest.subarray(newline + 1)
      if (line.trim() !== '') this.#options.onLine(line)
    }
  }

  /** Nothing is read any more. */
  stop(): void {
    this.#ended = true
    this.#forget()
  }

  #forget(): void {
    this.#pending = []
    this.#pendingBytes = 0
  }
}
