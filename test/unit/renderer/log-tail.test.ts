import { expect, test } from 'vitest'
import { emptyTail, found, maxEntries, withChunk } from '../../../src/renderer/log.ts'

const chunk = (lines: string[], fileId = 'a', gap?: string) => ({
  lines,
  start: { fileId, offset: 0 },
  end: { fileId, offset: 10 },
  ...(gap !== undefined && { gap }),
})

test('lines keep their order and number, with a sentence where some are missing and where a run begins', () => {
  const tail = [chunk(['1', '2']), chunk(['3'], 'a', 'Skipped 9 lines.'), chunk(['4'], 'b')].reduce(
    withChunk,
    emptyTail,
  )
  expect({ text: tail.entries.map(({ id, kind, text }) => `${id} ${kind} ${text}`), end: tail.end }).toEqual({
    text: ['1 line 1', '2 line 2', '3 gap Skipped 9 lines.', '4 line 3', '5 gap A new run begins.', '6 line 4'],
    end: { fileId: 'b', offset: 10 },
  })
})

test('the oldest lines make room for the newest', () => {
  const many = Array.from({ length: maxEntries }, (_, index) => `${index}`)
  const { entries } = withChunk(withChunk(emptyTail, chunk(many)), chunk(['newest']))
  expect([entries.length, entries[0]?.text, entries.at(-1)?.text]).toEqual([maxEntries, '1', 'newest'])
})

test('a search finds what the server printed whatever its case, and no sentence of ours', () => {
  const { entries } = withChunk(emptyTail, chunk(['Error (a.b)', 'fine', 'no ERROR'], 'a', 'Skipped an error.'))
  const texts = (text: string) => found(entries, text).map((entry) => entry.text)
  expect([texts('error'), texts('(A.'), texts('.*'), found(entries, '') === entries]).toEqual([
    ['Error (a.b)', 'no ERROR'],
    ['Error (a.b)'],
    [],
    true,
  ])
})
