import { execa } from 'execa'
import { mkdir, open } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { localRepairMs } from '../../../../src/agent-core/models/errors.ts'
import type { Behaviour } from '../../../support/model-server/behaviour.ts'
import { startModelServer, type ModelServer } from '../../../support/model-server/model-server.ts'
import { downloadRoom, failureOf, type DownloadRoom } from './room.ts'

const MiB = 1024 * 1024
const plain: Behaviour = { sizeBytes: 9 * MiB, seed: 'a', etag: '"a"' }

let server: ModelServer
let room: DownloadRoom
beforeEach(async () => {
  ;[server, room] = await Promise.all([startModelServer(), downloadRoom()])
})
afterEach(async () => {
  vi.restoreAllMocks()
  await Promise.all([server, room].map((one) => one[Symbol.asyncDispose]()))
})

test('what does not fit beside the reserve is refused before a byte is written, with what could be deleted', async () => {
  const { url } = await server.serve('/x.gguf', plain)
  const failed = await failureOf(
    room.fetch({ url }, { reserveBytes: 1e18, deletableBytes: () => Promise.resolve(3_000_000_000) }),
  )
  expect({ ...failed, files: await room.files() }).toEqual({
    kind: 'transient',
    reason: 'DiskFull',
    message: expect.stringMatching(
      /^The model needs 9\.4 MB and 1000000\.0 TB stay in reserve, but the volume of \S+ has [\d.]+ .B free: deleting models that nobody uses would give 3\.0 GB; or make room there otherwise or choose another --model-store\.$/,
    ) as unknown,
    retryAfterMs: localRepairMs,
    files: [],
  })
})

test('a volume that fills up during the download stops it before it is full, and the rest follows when there is room', async ({
  skip,
}) => {
  await using volume = await smallVolume('16m', skip)
  const { url, content } = await server.serve('/x.gguf', { ...plain, sizeBytes: 60 * MiB, chunked: true })
  const partialPath = join(volume.path, 'x.partial')
  const failed = await failureOf(room.fetch({ url }, { partialPath, reserveBytes: 0, connections: 1 }))
  await execa('mount', ['-o', 'remount,size=128m', volume.path])
  const file = await room.fetch({ url }, { partialPath, reserveBytes: 0, connections: 1 })
  expect([failed.reason, file.sha256]).toEqual(['DiskFull', content.sha256()])
})

test('a write that fails is named, and what was written before it is continued', async () => {
  const { url, content } = await server.serve('/x.gguf', plain)
  const probe = await open(join(room.dir, 'probe'), 'w')
  const prototype = Object.getPrototypeOf(probe) as typeof probe
  await probe.close()
  const original = prototype.write
  let writes = 0
  vi.spyOn(prototype, 'write').mockImplementation(async function (this: typeof probe, ...args) {
    writes += 1
    if (writes === 5) throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
    return original.apply(this, args) as never
  })
  const failed = await failureOf(room.fetch({ url }))
  vi.restoreAllMocks()
  const file = await room.fetch({ url })
  const ranges = (await server.requests()).map(({ range }) => range)
  expect([failed.reason, file.sha256, ranges.length, ranges.at(-1) === 'bytes=0-67108863']).toEqual([
    'DiskFull',
    content.sha256(),
    2,
    false,
  ])
})

async function smallVolume(
  size: string,
  skip: (note: string) => never,
): Promise<AsyncDisposable & { readonly path: string }> {
  const path = join(room.dir, 'volume')
  await mkdir(path)
  const { failed } = await execa('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', path], { reject: false })
  if (failed) skip('needs the right to mount a tmpfs')
  return {
    path,
    [Symbol.asyncDispose]: async () => {
      await execa('umount', [path])
    },
  }
}
