import type { LogChunk } from '../contract/log.ts'
import { logWords } from './words/services.ts'

/** One line of a server's output, or a sentence in its place. */
export interface LogEntry {
  /** Rises by one with each. */
  readonly id: number
  readonly kind: 'line' | 'gap'
  readonly text: string
}

export interface LogTail {
  /** Oldest first. */
  readonly entries: readonly LogEntry[]
  readonly nextId: number
  /** Where to continue; absent before the first chunk. */
  readonly end: LogChunk['end'] | undefined
}

/** What stays in the window; older lines are in the file. */
export const maxEntries = 2_000

export const emptyTail: LogTail = { entries: [], nextId: 1, end: undefined }

export function withChunk(tail: LogTail, { lines, gap, start, end }: LogChunk): LogTail {
  const added: Omit<LogEntry, 'id'>[] = []
  if (tail.end !== undefined && tail.end.fileId !== start.fileId) added.push({ kind: 'gap', text: logWords.newRun })
  if (gap !== undefined) added.push({ kind: 'gap', text: gap })
  added.push(...lines.map((text) => ({ kind: 'line', text }) as const))
  const entries = [...tail.entries, ...added.map((entry, index) => ({ ...entry, id: tail.nextId + index }))]
  return { entries: entries.slice(-maxEntries), nextId: tail.nextId + added.length, end }
}

/** The printed lines that contain a text, in upper or lower case; all entries where nothing is searched for. */
export function found(entries: readonly LogEntry[], text: string): readonly LogEntry[] {
  if (text === '') return entries
  const wanted = text.toLowerCase()
  return entries.filter((entry) => entry.kind === 'line' && entry.text.toLowerCase().includes(wanted))
}
