/** Longer than any line that is read; powermetrics prints long ones of frequencies. */
const longestLine = 64 * 1024

/** Cuts what a program prints into lines. One counts when its end is there; one that is too long counts as empty. */
export class WholeLines {
  #pending = ''
  #isTooLong = false

  /** The lines that this piece completes. */
  push(text: string): string[] {
    const pieces = text.split('\n')
    const last = pieces.pop() ?? ''
    const lines = pieces.map((rest) => {
      this.#grow(rest)
      const line = this.#pending
      this.#pending = ''
      this.#isTooLong = false
      return line.trim()
    })
    this.#grow(last)
    return lines
  }

  #grow(text: string): void {
    this.#isTooLong ||= this.#pending.length + text.length > longestLine
    this.#pending = this.#isTooLong ? '' : this.#pending + text
  }
}
