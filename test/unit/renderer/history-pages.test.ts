import { expect, test } from 'vitest'
import { newerLimit, withNewer, withOlder } from '../../../src/renderer/history.ts'

const page = (ids: readonly number[], hasMore = true) => ({
  entries: ids.map((id) => ({ id, at: '2026-01-02T03:04:05.000Z', kind: 'ready' as const, message: `Entry ${id}.` })),
  hasMore,
})
const shown = ({ entries, hasMore }: ReturnType<typeof withNewer>) => [entries.map(({ id }) => id), hasMore]

test('what is newer stands above what is known, each once, however much of it came before', () => {
  const known = withNewer(undefined, page([5, 4, 3]))
  expect([
    shown(withNewer(known, page([7, 6]))),
    shown(withNewer(known, page([6, 5, 4]))),
    shown(withNewer(known, page([5, 4, 3]))),
    shown(withNewer(known, page([]))),
  ]).toEqual([
    [[7, 6, 5, 4, 3], true],
    [[6, 5, 4, 3], true],
    [[5, 4, 3], true],
    [[], true],
  ])
})

test('what is older stands below, and says whether there is more', () => {
  const known = withNewer(undefined, page([5, 4]))
  expect(shown(withOlder(known, page([4, 3, 2], false)))).toEqual([[5, 4, 3, 2], false])
})

test('nothing is shown beside entries that are missing between, or of a history that was begun anew', () => {
  const known = withNewer(undefined, page([5, 4, 3]))
  expect([shown(withNewer(known, page([90, 89]))), shown(withNewer(known, page([2, 1], false)))]).toEqual([
    [[90, 89], true],
    [[2, 1], false],
  ])
})

test('a page that is older than what is known changes nothing; one with other entries of the same numbers is a new history', () => {
  const known = withNewer(undefined, page([5, 4, 3]))
  const anew = {
    ...page([5, 4]),
    entries: page([5, 4]).entries.map((entry) => ({ ...entry, at: '2026-02-02T03:04:05.000Z' })),
  }
  expect([withNewer(known, page([4, 3])), withNewer(known, anew)]).toEqual([known, anew])
})

test('what is asked for has room for what happens before the answer', () => {
  const known = withNewer(undefined, page([5, 4, 3]))
  expect(
    [undefined, 6, 65, 200, 400].map((newestId) =>
      newerLimit(newestId === undefined ? undefined : known, newestId ?? 9),
    ),
  ).toEqual([50, 51, 110, 200, 50])
})
