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

/** One place in one line. */
export interface LogMatch {
  readonly entryId: number
  /** Among those of its line, from 0. */
  readonly nth: number
}

interface LinePart {
  readonly text: string
  /** Absent of what lies between matches. */
  readonly nth?: number
}

/** What a line beyond them repeats is not marked: thousands of marks in one line help nobody. */
const maxPerLine = 50

/** Undefined where nothing is searched for. Upper and lower case are the same. */
export const patternOf = (text: string): RegExp | undefined =>
  text === '' ? undefined : new RegExp(text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&'), 'giu')

/** Oldest first. Only what the server printed counts. */
export function matchesIn(entries: readonly LogEntry[], pattern: RegExp): LogMatch[] {
  return entries.flatMap(({ id, kind, text }) =>
    kind === 'line' ? placesIn(text, pattern).map((_, nth) => ({ entryId: id, nth })) : [],
  )
}

/** The text of a line, taken apart at its matches. */
export function partsOf(text: string, pattern: RegExp): LinePart[] {
  const parts: LinePart[] = []
  let end = 0
  for (const [nth, { index, 0: found }] of placesIn(text, pattern).entries()) {
    if (index > end) parts.push({ text: text.slice(end, index) })
    parts.push({ text: found, nth })
    end = index + found.length
  }
  if (end < text.length) parts.push({ text: text.slice(end) })
  return parts
}

/** From the first or last one where none is looked at, and round at the ends. */
export function matchBeside(
  matches: readonly LogMatch[],
  current: LogMatch | undefined,
  direction: 1 | -1,
): LogMatch | undefined {
  const at = indexOf(matches, current)
  if (at === -1) return direction === 1 ? matches[0] : matches.at(-1)
  return matches.at((at + direction) % matches.length)
}

/** -1 if the match is gone. */
export const indexOf = (matches: readonly LogMatch[], match: LogMatch | undefined): number =>
  match === undefined ? -1 : matches.findIndex(({ entryId, nth }) => entryId === match.entryId && nth === match.nth)

const placesIn = (text: string, pattern: RegExp) => [...text.matchAll(pattern).take(maxPerLine)]
