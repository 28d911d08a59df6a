import { expect, test } from 'vitest'
import { withNewer, withOlder } from '../../../src/renderer/history-pages.ts'

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
