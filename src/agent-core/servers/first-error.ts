import { stripVTControlCharacters } from 'node:util'

/** A sentence for a person, not a dump. */
const maxLineLength = 300

/** Words with which llama.cpp, its libraries, the C++ runtime and the loaders of macOS and Linux report that something is wrong. */
const trouble =
  /\b(errors?|failed|failure|fatal|exception|panic|abort(ed|ing)?|assert(ion)?|cannot|can't|couldn't|could not|unable to|out of memory|invalid argument|unknown argument|no such file|library not loaded|terminate called|segmentation fault|bus error|illegal instruction|killed|traceback)\b|GGML_ASSERT/i

/** What looks like trouble and is none: counts of zero, settings, warnings, kernels a GPU does without. */
const harmless =
  /\b(no|0|zero|without) (errors?|failures?)\b|\berrors?\s*[=:]\s*(0|false|none|no)\s*([,;.)]|$)|\bwarn(ing)?\b|\bskipping\b/i

/** Time and level, as llama-server puts them before its lines: "0.00.046.978 E ". */
const logPrefix = /^(?:[\d.]+ )?([DIWEF]) (?=\S)/

/** The first line that reports trouble, made fit for a sentence. */
export function findFirstError(lines: readonly string[]): string | undefined {
  for (const line of lines) {
    const text = readable(line)
    const level = logPrefix.exec(text)?.[1]
    const isError = level === undefined ? trouble.test(text) && !harmless.test(text) : level === 'E' || level === 'F'
    if (isError) return text.replace(logPrefix, '')
  }
  return undefined
}

/** The last lines that are not empty, oldest first. */
export const lastLines = (text: string, count: number): string[] =>
  text
    .split('\n')
    .map(readable)
    .filter((line) => line !== '')
    .slice(-count)

/** Without control characters and invalid UTF-8, and short. */
function readable(line: string): string {
  const clean = stripVTControlCharacters(line.slice(0, maxLineLength * 4))
    .replaceAll(/[\p{Cc}\uFFFD\s]+/gu, ' ')
    .trim()
  return clean.length > maxLineLength ? `${clean.slice(0, maxLineLength)}…` : clean
}
