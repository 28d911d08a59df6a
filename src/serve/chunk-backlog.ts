import { formatCount } from '../contract/format.ts'
import type { LogChunk } from '../contract/log.ts'

/** Some thousand lines: what a reader can catch up with after a pause, and little enough for many readers. */
const maxWaiting = 256 * 1_024

/** Chunks that wait for a slow reader: where they become too many the oldest are left out, and the next one says so. */
export class ChunkBacklog {
  readonly #waiting: LogChunk[] = []
  readonly #max: number
  #characters = 0
  #skippedLines = 0
  #skippedGap = false

  constructor(max = maxWaiting) {
    this.#max = max
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0
  }

  push(chunk: LogChunk): void {
    this.#waiting.push(chunk)
    this.#characters += sizeOf(chunk)
    while (this.#characters > this.#max && this.#waiting.length > 1) this.#skip()
  }

  /** The oldest one. */
  shift(): LogChunk | undefined {
    const chunk = this.#waiting.shift()
    if (!chunk) return undefined
    this.#characters -= sizeOf(chunk)
    if (this.#skippedLines === 0 && !this.#skippedGap) return chunk
    const gap = [skippedText(this.#skippedLines, this.#skippedGap), chunk.gap].join(' ').trim()
    this.#skippedLines = 0
    this.#skippedGap = false
    return { ...chunk, gap }
  }

  #skip(): void {
    const chunk = this.#waiting.shift()
    if (!chunk) return
    this.#characters -= sizeOf(chunk)
    this.#skippedLines += chunk.lines.length
    this.#skippedGap ||= chunk.gap !== undefined
  }
}

function skippedText(lines: number, andMore: boolean): string {
  if (lines === 0) return 'Lines are missing here.'
  return `Skipped ${andMore ? 'at least ' : ''}${formatCount(lines)} ${lines === 1 ? 'line' : 'lines'}.`
}

const sizeOf = ({ lines }: LogChunk) => lines.reduce((sum, line) => sum + line.length + 1, 0)
