import { expect, test } from 'vitest'
import { matchBeside, matchesIn, partsOf, patternOf } from '../../../src/renderer/log.ts'

const entries = [
  { id: 1, kind: 'line', text: 'Error: no such file; ERROR again' },
  { id: 2, kind: 'gap', text: 'Skipped lines with an error.' },
  { id: 3, kind: 'line', text: 'fine' },
  { id: 4, kind: 'line', text: 'error' },
] as const
const pattern = (text: string) => {
  const found = patternOf(text)
  if (found === undefined) throw new Error('Nothing is searched for.')
  return found
}

test('what the server printed is found whatever its case, and no sentence of ours', () => {
  expect(matchesIn(entries, pattern('error'))).toEqual([
    { entryId: 1, nth: 0 },
    { entryId: 1, nth: 1 },
    { entryId: 4, nth: 0 },
  ])
})

test('a line is taken apart at its matches, and is whole together', () => {
  const parts = partsOf('Error: no such file; ERROR again', pattern('error'))
  expect(parts).toEqual([
    { text: 'Error', nth: 0 },
    { text: ': no such file; ' },
    { text: 'ERROR', nth: 1 },
    { text: ' again' },
  ])
})

test.for(['a.b', '(', '[x]', 'C:\\models', '--ctx-size', 'a/b', '^$', '{1}', 'İ'])('%s means itself', (text) => {
  const entry = (id: number, line: string) => ({ id, kind: 'line', text: line }) as const
  const lines = [entry(1, `before ${text} after`), entry(2, 'axb')]
  expect(matchesIn(lines, pattern(text))).toEqual([{ entryId: 1, nth: 0 }])
})

test('nothing is searched for without a text', () => {
  expect(patternOf('')).toBeUndefined()
})

test('the next and the previous match go round, and begin anew where the last one is gone', () => {
  const matches = matchesIn(entries, pattern('error'))
  const [first, second, last] = matches
  const gone = { entryId: 99, nth: 0 }
  expect([
    matchBeside(matches, undefined, 1),
    matchBeside(matches, undefined, -1),
    matchBeside(matches, first, 1),
    matchBeside(matches, last, 1),
    matchBeside(matches, first, -1),
    matchBeside(matches, gone, 1),
    matchBeside([], undefined, 1),
  ]).toEqual([first, last, second, first, last, first, undefined])
})

test('a line that repeats it without end is marked only so often', () => {
  expect(matchesIn([{ id: 1, kind: 'line', text: 'a'.repeat(8_000) }], pattern('a'))).toHaveLength(50)
})
