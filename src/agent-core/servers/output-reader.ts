import { stripVTControlCharacters } from 'node:util'
import { formatBytes, formatCount } from '../../contract/format.ts'
import { pause } from '../util/pause.ts'
import type { OutputBytes, OutputCursor, ReadableOutput } from './output.ts'

/** Lines made fit to be read, oldest first. */
export interface OutputChunk {
  readonly lines: string[]
  /** Where the first line begins. */
  readonly start: OutputCursor
  /** Behind the last line: where the next chunk begins. */
  readonly end: OutputCursor
  /** A sentence: what is missing before these lines. */
  readonly gap?: string
}

const readBytes = 64 * 1024
const maxTailBytes = 256 * 1024

/** Before the beginning of whatever run comes. */
const nowhere: OutputCursor = { fileId: '', offset: 0 }

interface LinesRead {
  readonly lines: readonly OutputLine[]
  /** Between what was asked for and the first line. */
  readonly missingBytes: number
}

/** The lines of a run between two offsets, in portions of bounded size; the last one may be unfinished. */
export async function* readLines(
  log: ReadableOutput,
  { fileId, from, to }: { fileId: string; from: number; to: number },
): AsyncGenerator<LinesRead> {
  let at = from
  let splitter = new LineSplitter(at)
  while (at < to) {
    const read = await log.read({ fileId, offset: at }, Math.min(readBytes, to - at))
    if (read === undefined || read.bytes.length === 0 || read.offset >= to) break
    const missingBytes = Math.max(0, read.offset - at)
    if (missingBytes > 0) {
      yield { lines: splitter.flush(), missingBytes: 0 }
      splitter = new LineSplitter(read.offset)
    }
    const bytes = read.bytes.subarray(0, to - read.offset)
    at = read.offset + bytes.length
    yield { lines: splitter.push(bytes), missingBytes }
  }
  yield { lines: splitter.flush(), missingBytes: 0 }
}

export interface TailOptions {
  readonly run?: 'current' | 'previous'
  readonly lines: number
  /** Ends there instead of at the newest line: the `start` of a later chunk. */
  readonly before?: OutputCursor | undefined
}

export interface OutputTail extends OutputChunk {
  /** The run's output file; absent without a run. */
  readonly file?: string
}

/** The last lines, out of the last 256 KiB. */
export async function tail(
  log: ReadableOutput,
  { run = 'current', lines: count, before }: TailOptions,
): Promise<OutputTail> {
  const extents = await Promise.all((['current', 'previous'] as const).map((one) => log.extent(one)))
  const wanted = run === 'current' ? extents[0] : extents[1]
  const extent = before ? extents.find((one) => one?.fileId === before.fileId) : wanted
  if (extent === undefined) {
    const place = before ?? nowhere
    return { lines: [], start: place, end: place, ...(before && { gap: runIsGone }) }
  }
  const { fileId, file } = extent
  const to = Math.min(before?.offset ?? extent.to, extent.to)
  const from = Math.max(extent.from, to - maxTailBytes)
  const lines: OutputLine[] = []
  let missingBytes = 0
  for await (const read of readLines(log, { fileId, from, to })) {
    if (read.missingBytes > 0) lines.length = 0
    missingBytes += read.missingBytes
    lines.push(...read.lines)
  }
  if (from > extent.from && missingBytes === 0 && lines.length > 1) lines.shift()
  const kept = lines.slice(-count)
  const [start, end] = [kept[0]?.offset ?? to, to].map((offset) => ({ fileId, offset }))
  const gap = missingBytes > 0 && kept.length === lines.length ? { gap: skippedBytes(missingBytes) } : {}
  return { lines: kept.map(({ text }) => text), start: start ?? nowhere, end: end ?? nowhere, file, ...gap }
}

export interface FollowOptions {
  /** Where to continue; absent = with what is written from now on. */
  readonly from?: OutputCursor | undefined
  readonly signal: AbortSignal
  /** How often news is looked for. */
  readonly everyMs?: number
}

const pollMs = 250
/** A line that does not end is shown as far as it is known after so long without news of it. */
const flushAfterMs = 1_000
/** A reader that is further behind is moved to the last part of it. */
const maxLagBytes = 1024 * 1024
const keptLagBytes = 128 * 1024
const maxChunkLines = 2_000

/**
 * What is written from the cursor on, until the signal: over cuts of the file and from one run to the next, nothing twice and nothing
 * missing without a word. Reads only when asked for more, so that a slow reader costs no memory; it misses lines instead.
 */
export async function* follow(
  log: ReadableOutput,
  { from, signal, everyMs = pollMs }: FollowOptions,
): AsyncGenerator<OutputChunk> {
  const newest = from ? undefined : await log.extent()
  let at = from ?? (newest ? { fileId: newest.fileId, offset: newest.to } : nowhere)
  let splitter = new LineSplitter(at.offset)
  let newsAt = performance.now()
  const moveTo = (cursor: OutputCursor) => {
    at = cursor
    splitter = new LineSplitter(cursor.offset)
  }
  while (!signal.aborted) {
    const read = await log.read(at, readBytes)
    const ended = read === undefined || (read.over && read.bytes.length === 0)
    if (ended) {
      const current = await log.extent()
      if (current && current.fileId !== at.fileId) {
        yield* chunksOf(splitter.flush(), at, splitter)
        const isLost = read === undefined && at.fileId !== nowhere.fileId
        moveTo({ fileId: current.fileId, offset: 0 })
        if (isLost) yield gapAt(at, runIsGone)
        continue
      }
    } else if (read.bytes.length > 0) {
      const { fileId } = at
      newsAt = performance.now()
      if (read.offset !== at.offset) {
        yield* chunksOf(splitter.flush(), at, splitter)
        const missing = read.offset - at.offset
        moveTo({ fileId, offset: read.offset })
        yield gapAt(at, missing > 0 ? skippedBytes(missing) : fileWasCut)
      }
      if (read.remaining > maxLagBytes) {
        const ahead = await skipAhead(log, { fileId, offset: splitter.offset })
        moveTo({ fileId, offset: ahead.offset })
        yield gapAt(at, `Skipped ${formatCount(ahead.lines)} lines.`)
        continue
      }
      const lines = splitter.push(read.bytes)
      at = { fileId, offset: read.offset + read.bytes.length }
      yield* chunksOf(lines, at, splitter)
      continue
    }
    if (splitter.isPending && performance.now() - newsAt >= flushAfterMs)
      yield* chunksOf(splitter.flush(), at, splitter)
    await pause(everyMs, signal)
  }
}

function* chunksOf(lines: readonly OutputLine[], { fileId }: OutputCursor, { offset: end }: LineSplitter) {
  for (let first = 0; first < lines.length; first += maxChunkLines) {
    const part = lines.slice(first, first + maxChunkLines)
    yield {
      lines: part.map(({ text }) => text),
      start: { fileId, offset: part[0]?.offset ?? end },
      end: { fileId, offset: lines[first + maxChunkLines]?.offset ?? end },
    }
  }
}

/** Counts the lines up to the last part of the run; ends behind a line where there is one. */
async function skipAhead(
  log: ReadableOutput,
  { fileId, offset }: OutputCursor,
): Promise<{ offset: number; lines: number }> {
  let at = offset
  let lines = 0
  for (;;) {
    const read: OutputBytes | undefined = await log.read({ fileId, offset: at }, readBytes)
    if (read === undefined || read.remaining <= keptLagBytes) return { offset: at, lines }
    const lastEnd = read.bytes.lastIndexOf(lineEnd)
    const isLast = read.remaining <= keptLagBytes + readBytes && lastEnd !== -1
    const bytes = isLast ? read.bytes.subarray(0, lastEnd + 1) : read.bytes
    lines += countLineEnds(bytes)
    at = read.offset + bytes.length
    if (isLast) return { offset: at, lines }
  }
}

function countLineEnds(bytes: Buffer): number {
  let count = 0
  for (let at = bytes.indexOf(lineEnd); at !== -1; at = bytes.indexOf(lineEnd, at + 1)) count++
  return count
}

const gapAt = (cursor: OutputCursor, gap: string): OutputChunk => ({ lines: [], start: cursor, end: cursor, gap })

const skippedBytes = (bytes: number) => `Skipped ${formatBytes(bytes)} that are no longer kept.`
const runIsGone = 'Skipped the rest of an earlier run, which is no longer kept.'
const fileWasCut = 'Something else truncated the file: earlier lines may be missing.'

/** The most of a line that is kept to be read; of the rest only the length is kept. */
const shownBytes = 8 * 1024
/** Output without any line end is cut into lines of this length. */
const longestLineBytes = 16 * 1024 * 1024
const lineEnd = 0x0a

export interface OutputLine {
  readonly text: string
  /** Offset of its first byte. */
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

  /** Offset of the first byte that belongs to no finished line. */
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
