import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { open, readdir, writeFile, type FileHandle } from 'node:fs/promises'
import { uptime } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Identity, PartialFile } from '../../../../src/agent-core/models/download/partial-file.ts'
import { eventually } from '../../../support/eventually.ts'
import { silentLog } from '../../../support/silent-log.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

const identity: Identity = { urlSha256: 'a'.repeat(64), wanted: {} }

let folder: Awaited<ReturnType<typeof temporaryFolder>>
beforeEach(async () => {
  folder = await temporaryFolder()
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
})
afterEach(async () => {
  vi.useRealTimers()
  await folder[Symbol.asyncDispose]()
})

const opened = (): Promise<PartialFile> =>
  PartialFile.open(join(folder.dir, 'x.partial'), identity, {
    log: silentLog,
    now: Date.now,
    signal: new AbortController().signal,
    onVerify: () => undefined,
  })

/** The second in which a record is due passes again and again until the work is over. */
async function amidTicks<T>(work: Promise<T>): Promise<T> {
  const state = { isOver: false }
  const over = (): void => {
    state.isOver = true
  }
  work.then(over, over)
  while (!state.isOver) {
    vi.advanceTimersByTime(1000)
    await nextTurn()
  }
  return work
}

const rounds = 5

test('a file that is closed when its record is due has one whole record', async () => {
  for (let round = 0; round < rounds; round += 1) {
    const file = await opened()
    await file.write(Buffer.alloc(1000, round), round * 1000)
    await amidTicks(file.close({ keep: true }))
  }
  const again = await opened()
  expect(again.writtenBytes).toBe(rounds * 1000)
  await again.close({ keep: true })
  expect((await readdir(folder.dir)).sort()).toEqual(['x.partial', 'x.partial.recent.json'])
})

test.each([
  { what: 'starts over', end: (file: PartialFile) => file.startOver(), left: ['x.partial'] },
  { what: 'is put aside', end: (file: PartialFile) => file.quarantine(), left: ['x.partial.quarantined'] },
])('a file that $what when its record is due leaves no record of what it held', async ({ end, left }) => {
  for (let round = 0; round < rounds; round += 1) {
    await using file = await opened()
    await file.write(Buffer.alloc(1000, 1), 0)
    await amidTicks<unknown>(end(file))
    expect((await readdir(folder.dir)).sort()).toEqual(left)
  }
})

/** So many bytes are there, as this boot of the machine knows or an earlier one. */
const recordOf = (bytes: number, bootedAgo = 0) => ({
  version: 1,
  ...identity,
  remote: {},
  ranges: [[0, bytes]],
  prefix: { bytes: 0, sha256: createHash('sha256').digest('hex') },
  bootedAt: Date.now() - uptime() * 1000 - bootedAgo,
})
type Record = ReturnType<typeof recordOf>

test.each<[string, { recent?: Record; durable?: Record }, number]>([
  ['the recent one where it knows of more', { recent: recordOf(20), durable: recordOf(10) }, 20],
  ['the durable one where it knows of as much', { recent: recordOf(10), durable: recordOf(30) }, 30],
  ['the durable one after a restart of the machine', { recent: recordOf(20, 60_000), durable: recordOf(10) }, 10],
  ['none where a restart of the machine leaves only a recent one', { recent: recordOf(20, 60_000) }, 0],
  ['the recent one although the clock was corrected a little', { recent: recordOf(20, 10_000) }, 20],
  ['the durable one of an earlier boot, since it was synced', { durable: recordOf(10, 60_000) }, 10],
])('of two records of a partial file is believed %s', async (_, { recent, durable }, bytes) => {
  const path = join(folder.dir, 'x.partial')
  await writeFile(path, Buffer.alloc(40))
  if (recent) await writeFile(`${path}.recent.json`, JSON.stringify(recent))
  if (durable) await writeFile(`${path}.json`, JSON.stringify(durable))
  await using file = await opened()
  expect(file.writtenBytes).toBe(bytes)
})

test('what a durable record says is synced before the record is written, and nothing is synced for a recent one', async () => {
  const any = await open(join(folder.dir, 'any'), 'w')
  const handles = Object.getPrototypeOf(any) as FileHandle
  await any.close()
  const isRecorded = () => existsSync(join(folder.dir, 'x.partial.json'))
  const seen: boolean[] = []
  const sync = vi.spyOn(handles, 'datasync').mockImplementation(() => Promise.resolve(void seen.push(isRecorded())))
  try {
    const file = await opened()
    await file.write(Buffer.alloc(64 * 1024 * 1024), 1)
    await eventually(isRecorded)
    await file.write(Buffer.alloc(1), 0)
    await file.close({ keep: true })
    expect(seen).toEqual([false])
  } finally {
    sync.mockRestore()
  }
})
