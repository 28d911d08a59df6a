import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { sentencesInShell } from '../../support/sentences.ts'

const source = join(import.meta.dirname, '../../../src/main')

test('every sentence of the app that a person reads stands in its file of words', () => {
  const files = globSync('**/*.ts', { cwd: source }).filter((name) => name !== 'words.ts')
  expect(files.length).toBeGreaterThan(30)
  expect(files.flatMap((name) => sentencesInShell(name, readFileSync(join(source, name), 'utf8')))).toEqual([])
})

test.for([
  ["line('Show log', action)", 'Show log'],
  ["line(isOn ? 'on' : words.off, action)", 'on'],
  ['[...lines(`${count} more`)]', 'more'],
  ["submenu('why?', [])", 'why?'],
  ["({ label: 'quit' })", 'quit'],
  ["({ buttons: ['ok', words.cancel] })", 'ok'],
  ["({ toolTip: why ?? 'unknown' })", 'unknown'],
  ["throw new LinkError('refused', `${file} is gone`)", 'is gone'],
  ["throw new UpdateError('late')", 'late'],
  ["reason === 'Idle' ? 'Idle' : word", 'Idle'],
  ["const refusals = { managed: 'Your administrator updates this Mac.' }", 'Your administrator updates this Mac.'],
])('%s says something to a person', ([code, sentence]) => {
  expect(sentencesInShell('code.ts', code ?? '')).toEqual([`code.ts:1 ${sentence ?? ''}`])
})

test.for([
  "log.warn('the menu opens with what was known before', { error, text: 'It is late.' })",
  "this.#options.log.info('keeps a token')",
  "if (state === 'Paused') throw new LinkError('gone', words.gone)",
  "line(words.open, { kind: 'open', at: { view: 'settings' } }, { accelerator: 'Command+O' })",
  "const found: 'Idle' | 'Asleep' = reasonOf(file.endsWith('.log'), `${folder}/${name}.zip`)",
])('%s says nothing itself', (code) => {
  expect(sentencesInShell('code.ts', code)).toEqual([])
})
