import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { sentencesInCode, sentencesInView } from '../../support/sentences.ts'

const source = join(import.meta.dirname, '../../../src/renderer')

test('every sentence that a person reads stands in a file of words', () => {
  const files = globSync('**/*.tsx', { cwd: source })
  expect(files.flatMap((name) => sentencesInView(name, readFileSync(join(source, name), 'utf8')))).toEqual([])
})

test.for([
  ['<p>Try now</p>', 'Try now'],
  ["<p>{isGone ? 'No agent' : words.live}</p>", 'No agent'],
  ['<p>{`For ${age}`}</p>', 'For'],
  ["<Button label={name ?? 'Stop it'} />", 'Stop it'],
  ['<section aria-label="Log" />', 'Log'],
  ["<Row description={isOn ? 'Runs' : ''} />", 'Runs'],
])('%s is seen as such a sentence', ([code, sentence]) => {
  expect(sentencesInView('view.tsx', `const view = () => ${code ?? ''}`)).toEqual([`view.tsx:1 ${sentence ?? ''}`])
})

test.for([
  "<p className={styles['text']} data-state={a ? 'on' : 'off'}>{name} · {count}</p>",
  "<p>{kind === 'gap' && text}</p>",
])('%s says nothing itself', (code) => {
  expect(sentencesInView('view.tsx', `const view = () => ${code}`)).toEqual([])
})

/** What is pasted into a terminal. */
const commands: ReadonlySet<string> = new Set(['first-run.ts', 'first-service.ts'])

test('code that draws nothing takes its sentences from the files of words as well', () => {
  const files = globSync('**/*.ts', { cwd: source }).filter((name) => !name.startsWith('words/') && !commands.has(name))
  expect(files.flatMap((name) => sentencesInCode(name, readFileSync(join(source, name), 'utf8')))).toEqual([])
})

test.for([
  ["const problem = 'A name is missing.'", 'A name is missing.'],
  ['const problem = `This is ${what} only.`', 'This is'],
  ["throw new LinkError('gone', 'Nobody answers here.')", 'Nobody answers here.'],
])('%s is a sentence for a person', ([code, sentence]) => {
  expect(sentencesInCode('code.ts', code ?? '')).toEqual([`code.ts:1 ${sentence ?? ''}`])
})

test.for(["throw new Error('A part is drawn outside of it.')", "send('content-type: application/json')"])(
  '%s is none',
  (code) => {
    expect(sentencesInCode('code.ts', code)).toEqual([])
  },
)

test('no file of words is longer than a person reads through', () => {
  const files = globSync('words/*.ts', { cwd: source })
  const lengths = files.map((name) => [name, readFileSync(join(source, name), 'utf8').split('\n').length] as const)
  expect(lengths.filter(([, length]) => length > 500)).toEqual([])
})
