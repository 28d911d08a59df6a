import { PassThrough } from 'node:stream'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { LinkError } from '../../../src/contract/client.ts'
import type { LogChunk, StreamItem } from '../../../src/contract/log.ts'
import { ChunkBacklog, feedStream } from '../../../src/serve/feeds.ts'
import { Heard } from '../../support/carriers/heard.ts'
import { RecordingDoor } from '../../support/carriers/recording-door.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => void vi.useRealTimers())

const full = 'x'.repeat(100)

/** A reader that has not read what was written. */
function busyReader(): PassThrough {
  const writable = new PassThrough({ highWaterMark: 10 })
  writable.write(full)
  return writable
}

const feedOf = (door: RecordingDoor, writable: PassThrough) => ({
  door,
  writable,
  asLinkError: (error: unknown) => new LinkError('refused', String(error)),
})

const chunk = (at: number, count: number, gap?: string): LogChunk => ({
  lines: Array.from({ length: count }, (_, index) => `line ${at + index}`),
  start: { fileId: 'f', offset: at },
  end: { fileId: 'f', offset: at + count },
  ...(gap !== undefined && { gap }),
})

test('a log that ends while its reader is busy is read to its end first', async () => {
  const door = new RecordingDoor()
  const writable = busyReader()
  const heard = new Heard<StreamItem>()
  feedStream(feedOf(door, writable), { name: 'log', service: { namespace: 'n', name: 's' } }, heard)
  const [reader] = door.readers
  reader?.next(chunk(0, 2))
  reader?.end(new LinkError('refused', 'The service is gone.'))
  const whileBusy = [heard.items.length, heard.ends.length]
  writable.resume()
  await vi.waitFor(() => expect(heard.ends.length).toBe(1))
  expect([whileBusy, heard.items, heard.ends, door.readers.size, writable.listenerCount('drain')]).toEqual([
    [0, 0],
    [chunk(0, 2)],
    [new LinkError('refused', 'The service is gone.')],
    0,
    0,
  ])
})

test.each([
  { what: 'nothing', pushed: [chunk(0, 3)], gap: undefined, left: 3 },
  {
    what: 'a gap alone',
    pushed: [chunk(0, 0, 'The file was begun anew.'), chunk(0, 12)],
    gap: 'Lines are missing here.',
    left: 12,
  },
  { what: 'one line', pushed: [chunk(0, 1), chunk(1, 12)], gap: 'Skipped 1 line.', left: 12 },
  { what: 'many lines', pushed: [chunk(0, 1_500), chunk(1_500, 10)], gap: 'Skipped 1,500 lines.', left: 10 },
  {
    what: 'lines before a gap of the agent',
    pushed: [chunk(0, 9), chunk(9, 10, 'The file was begun anew.')],
    gap: 'Skipped 9 lines. The file was begun anew.',
    left: 10,
  },
  {
    what: 'a gap of the agent',
    pushed: [chunk(0, 9, 'Skipped 4 lines.'), chunk(9, 10)],
    gap: 'Skipped at least 9 lines.',
    left: 10,
  },
  {
    what: 'no more than it must',
    pushed: [chunk(0, 1_000), chunk(1_000, 3), chunk(1_003, 3)],
    gap: 'Skipped 1,000 lines.',
    left: 3,
  },
])('what is left out for a reader that is too slow is said: $what', ({ pushed, gap, left }) => {
  const backlog = new ChunkBacklog(80)
  for (const one of pushed) backlog.push(one)
  const first = backlog.shift()
  expect([first?.gap, first?.lines.length]).toEqual([gap, left])
})
