import { cleanText } from '../contract/clean-text.ts'

/** Columns as wide as their widest cell; the last one takes what it needs. */
export function columns(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows.map((row) => row.map(cleanText))]
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)))
  const text = lines.map((line) => line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '))
  return text.map((line) => `${line.trimEnd()}\n`).join('')
}
