import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { flagTable } from '../../../src/cli/flags.ts'
import { verbProgram } from '../../../src/cli/verbs.ts'

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

const silent = { write: () => undefined }
const defaults = { modelStore: '/models', stateDir: '/state' }
const io = { stdout: silent, stderr: silent, env: {}, homeDir: '/', temporaryDir: '/tmp', cwd: '/' }
const program = verbProgram(
  { io: { ...io, platform: 'darwin', windowFolder: '' }, defaultStateDir: '/state', end: () => undefined },
  defaults,
)
const flags = new Set(Object.keys(flagTable(defaults)))

/** What of `metal-agent WORD …` the command does not know; a word in capitals stands for a value. */
function unknownIn(command: string): string[] {
  const words = command.split(/\s+/).slice(1)
  let verb = program
  while (verb.commands.length > 0 && words.length > 0 && !words[0]?.startsWith('-')) {
    const next = verb.commands.find((one) => one.name() === words[0])
    if (!next) return [`metal-agent ${words[0]}`]
    verb = next
    words.shift()
  }
  return words.flatMap((word) => {
    const [option = ''] = /^--?[a-z][\w-]*/.exec(word) ?? []
    if (option === '' || verb.options.some(({ long, short }) => option === long || option === short)) return []
    return flags.has(option.replace(/^--?/, '')) ? [] : [`${option} of ${command}`]
  })
}

test('every verb and flag that docs/from-llmkube.md names is one of the command', () => {
  const named = [...page.matchAll(/`((?:sudo )?metal-agent [^`]+)`/g)].map(([, text = '']) => text.replace('sudo ', ''))
  expect([named.length > 40, named.flatMap(unknownIn)]).toEqual([true, []])
  expect(['host-address', 'service renew', 'status --nothing'].map((text) => unknownIn(`metal-agent ${text}`))).toEqual(
    [['metal-agent host-address'], ['metal-agent renew'], ['--nothing of metal-agent status --nothing']],
  )
})

test.each([
  ['neither', '| `a` | b | see elsewhere |', 'names neither a test nor a reason'],
  ['a missing file', '| `a` | b | `test/no/such.test.ts`: some words |', 'which is not there'],
  ['a missing test', '| `a` | b | `test/unit/docs/from-llmkube.test.ts`: no such\u2003words |', 'has no "no such'],
])('a row with %s is noticed', (_, row, sentence) => {
  const [found] = rowsOf(`| guide | here | shown by |\n| --- | --- | --- |\n${row}\n`)
  expect(found && lack(found)).toContain(sentence)
})
