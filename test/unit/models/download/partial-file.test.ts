import { existsSync } from 'node:fs'
import { open, readdir, readFile, writeFile, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Identity, PartialFile, segmentBytes } from '../../../../src/agent-core/models/download/partial-file.ts'
import { silentLog } from '../../../support/silent-log.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

const MiB = 1024 * 1024
const named = { source: 'https://host/x', model: 'm' }
const identity: Identity = { ...named, urlSha256: 'a'.repeat(64), wanted: { sha256: 'b'.repeat(64) } }

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let path: string
beforeEach(async () => {
  folder = await temporaryFolder()
  path = join(folder.dir, 'x.partial')
})
afterEach(async () => folder[Symbol.asyncDispose]())

const opened = (): Promise<PartialFile> => PartialFile.open(path, identity, silentLog)

test('what is missing is told segment by segment, and the next call knows what was there', async () => {
  const file = await opened()
  file.remote = { sizeBytes: 2 * segmentBytes + 10 }
  await file.write(Buffer.alloc(10), 2 * segmentBytes)
  await file.write(Buffer.alloc(1000), 0)
  await file.close({ keep: true })
  const again = await opened()
  expect([
    again.writtenBytes,
    again.missing(new Set()),
    again.missing(new Set([0])),
    again.missing(new Set([0, 1])),
  ]).toEqual([
    1010,
    { segment: 0, range: [1000, segmentBytes] },
    { segment: 1, range: [segmentBytes, 2 * segmentBytes] },
    undefined,
  ])
  await again.close({ keep: true })
  expect((await readdir(folder.dir)).sort()).toEqual(['x.partial', 'x.partial.json'])
})

test('a file that lost its end has what is left of each segment', async () => {
  const file = await opened()
  file.remote = { sizeBytes: 3 * segmentBytes }
  await file.write(Buffer.alloc(1000), segmentBytes)
  await file.write(Buffer.alloc(1000), 0)
  await file.close({ keep: true })
  const handle = await open(path, 'r+')
  await handle.truncate(segmentBytes + 600)
  await handle.close()
  const again = await opened()
  expect([again.writtenBytes, again.missing(new Set([0]))?.range]).toEqual([
    1600,
    [segmentBytes + 600, 2 * segmentBytes],
  ])
  await again.close({ keep: true })
})

test('a file that starts over leaves no record of what it held', async () => {
  const file = await opened()
  await file.write(Buffer.alloc(30 * MiB), 0)
  expect(existsSync(`${path}.json`)).toBe(true)
  await file.startOver()
  expect(await readdir(folder.dir)).toEqual(['x.partial'])
  await file.close({ keep: false })
})

test('the record tells only of bytes that were synced before, and of all but the last 24 MiB', async () => {
  const any = await open(join(folder.dir, 'any'), 'w')
  const handles = Object.getPrototypeOf(any) as FileHandle
  await any.close()
  const recorded = async () =>
    existsSync(`${path}.json`)
      ? (JSON.parse(await readFile(`${path}.json`, 'utf8')) as { segments: number[] }).segments
      : []
  const atSync: number[][] = []
  const sync = vi.spyOn(handles, 'datasync').mockImplementation(async () => void atSync.push(await recorded()))
  try {
    const file = await opened()
    for (let at = 0; at < 50; at += 1) await file.write(Buffer.alloc(MiB), at * MiB)
    expect([atSync, await recorded()]).toEqual([[[], [24 * MiB]], [48 * MiB]])
    await file.close({ keep: false })
  } finally {
    sync.mockRestore()
  }
})

test('a record that nobody can read is that of no file', async () => {
  await writeFile(path, 'bytes')
  await writeFile(`${path}.json`, '{"version":1,"segments":[5]}')
  const file = await opened()
  expect([file.writtenBytes, await readFile(path, 'utf8')]).toEqual([0, ''])
  await file.close({ keep: false })
  expect(await readdir(folder.dir)).toEqual([])
})
