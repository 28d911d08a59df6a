import { expect, test } from 'vitest'
import { answerTooLarge, ApiError } from '../../../src/agent-core/kube/api-error.ts'
import { pagesOf } from '../../../src/agent-core/kube/kube-api.ts'

const kiB = 1024

/** A server of objects that have so many bytes, and the limit of every page it was asked for. */
function server(sizes: readonly number[]) {
  const asked: number[] = []
  const read: number[] = []
  return {
    asked,
    list: (query: { limit: number; continueToken: string | undefined; maxBytes?: number }) => {
      asked.push(query.limit)
      const from = Number(query.continueToken ?? 0)
      const page = sizes.slice(from, from + query.limit)
      const bytes = page.reduce((sum, size) => sum + size, 0)
      const tooLarge = bytes > (query.maxBytes ?? 8 * kiB ** 2)
      if (tooLarge) return Promise.reject(new ApiError('too large', { reason: answerTooLarge }))
      read.push(bytes)
      const end = from + page.length
      return Promise.resolve({ items: page, bytes, continueToken: end < sizes.length ? String(end) : undefined })
    },
    read,
  }
}

async function sizesThrough({ list }: ReturnType<typeof server>): Promise<number[]> {
  const seen: number[] = []
  for await (const { items } of pagesOf(list)) seen.push(...items)
  return seen
}

test('no page of several objects has more than 1 MiB, and an object that has more comes alone', async () => {
  const large = 1_400 * kiB
  const sizes = [large, large, ...Array.from({ length: 40 }, () => 100 * kiB), large]
  const there = server(sizes)
  expect(await sizesThrough(there)).toEqual(sizes)
  expect(there.read.filter((bytes) => bytes > kiB ** 2)).toEqual([large, large, large])
})

test('one large object at the beginning does not make a thousand others come one by one', async () => {
  const sizes = [1_400 * kiB, ...Array.from({ length: 1_000 }, () => kiB)]
  const there = server(sizes)
  expect(await sizesThrough(there)).toEqual(sizes)
  expect(there.asked.length).toBeLessThan(12)
})

test('a page of ordinary objects is short enough to be read without a thread of its own', async () => {
  const sizes = Array.from({ length: 1_000 }, () => 2 * kiB)
  const there = server(sizes)
  expect(await sizesThrough(there)).toEqual(sizes)
  expect(Math.max(...there.read)).toBeLessThanOrEqual(512 * kiB)
})

test.each([
  {
    what: 'objects',
    page: { items: Array.from({ length: 250 }, () => ({})), bytes: 1 },
    says: 'more than 20000 objects',
  },
  { what: 'nothing', page: { items: [], bytes: 1 }, says: 'more than 20000 objects, or no end' },
  { what: 'large objects', page: { items: [{}], bytes: kiB ** 2 }, says: 'more than 256 MiB' },
  { what: 'late answers', page: { items: [{}], bytes: 1, takesMs: 14_000 }, says: 'did not end within 5 minutes' },
])('a list whose every page brings $what and names a next one is given up', async ({ page, says }) => {
  const clock = { now: 0 }
  const list = () => {
    clock.now += page.takesMs ?? 0
    return Promise.resolve({ ...page, continueToken: 'the same again' })
  }
  let objects = 0
  const reading = async (): Promise<void> => {
    for await (const { items } of pagesOf(list, () => clock.now)) objects += items.length
  }
  await expect(reading()).rejects.toThrow(says)
  expect(objects).toBeLessThanOrEqual(20_000)
})
