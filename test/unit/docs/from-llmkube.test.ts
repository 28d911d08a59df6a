import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { z } from 'zod'

const root = path.join(import.meta.dirname, '../../..')
const page = readFileSync(path.join(root, 'docs/from-llmkube.md'), 'utf8')
const guide = z
  .array(z.string())
  .parse(JSON.parse(readFileSync(path.join(import.meta.dirname, 'llmkube-guide-commands.json'), 'utf8')))

interface Row {
  readonly command: string
  readonly shownBy: string
}

/** Of the tables that have a column "shown by". */
function rowsOf(text: string): Row[] {
  const rows: Row[] = []
  let isMeant = false
  for (const line of text.split('\n')) {
    if (!line.startsWith('|')) isMeant = false
    const cells = line
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim().replaceAll('\\|', '|'))
    if (cells.at(-1) === 'shown by') isMeant = true
    else if (isMeant && !/^-+$/.test(cells[0] ?? ''))
      rows.push({ command: cells[0] ?? '', shownBy: cells.at(-1) ?? '' })
  }
  return rows
}

/** Undefined where the test that is named is there, or a reason is given. */
function lack({ command, shownBy }: Row): string | undefined {
  if (/^reason: .{8,}/.test(shownBy)) return undefined
  const [, file = '', words = ''] = /^`(test\/[^`]+)`: (.{4,})$/.exec(shownBy) ?? []
  if (file === '') return `${command} names neither a test nor a reason`
  if (!existsSync(path.join(root, file))) return `${command} names ${file}, which is not there`
  return readFileSync(path.join(root, file), 'utf8').includes(words)
    ? undefined
    : `${file} has no "${words}" (${command})`
}

const rows = rowsOf(page)

test('every row of docs/from-llmkube.md names a test that is there, or a reason why there is none', () => {
  expect(rows.length).toBeGreaterThan(60)
  expect(rows.map(lack).filter((sentence) => sentence !== undefined)).toEqual([])
})

test('every command of the guides of LLMKube has a row', () => {
  const missing = guide.filter((command) => !rows.some((row) => row.command.includes(command)))
  expect([guide.length > 50, missing]).toEqual([true, []])
})

test.each([
  ['neither', '| `a` | b | see elsewhere |', 'names neither a test nor a reason'],
  ['a missing file', '| `a` | b | `test/no/such.test.ts`: some words |', 'which is not there'],
  ['a missing test', '| `a` | b | `test/unit/docs/from-llmkube.test.ts`: no such\u2003words |', 'has no "no such'],
])('a row with %s is noticed', (_, row, sentence) => {
  const [found] = rowsOf(`| guide | here | shown by |\n| --- | --- | --- |\n${row}\n`)
  expect(found && lack(found)).toContain(sentence)
})
