import { execa } from 'execa'
import { existsSync, writeFileSync } from 'node:fs'
import { mkdir, open, rm, statfs, type FileHandle } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { DiskSpace } from '../../../../src/agent-core/models/download/limits.ts'
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
    room.fetch(
      { url },
      { space: new DiskSpace({ reserveBytes: 1e18, deletableBytes: () => Promise.resolve(3_000_000_000) }) },
    ),
  )
  expect({ ...failed, files: await room.files() }).toEqual({
    kind: 'transient',
    reason: 'DiskFull',
    message: expect.stringMatching(
      /^The model needs 9\.4 MB and 1,000,000 TB stay in reserve, but the volume of \S+ has [\d.]+ .B free: delete models that no service uses, which frees 3\.0 GB, make room there another way, or choose another --model-store\.$/,
    ) as unknown,
    retryAfterMs: localRepairMs,
    files: [],
  })
})

test('what other downloads will still take is no room, until they end', async () => {
  const space = new DiskSpace({ reserveBytes: 0 })
  const { bavail, bsize } = await statfs(tmpdir())
  const most = Math.floor((bavail * bsize) / 2)
  const [one, other] = [{}, {}]
  await space.claim(other, tmpdir(), most)
  await expect(space.claim(one, tmpdir(), 2 * most)).rejects.toThrow('other downloads need ')
  space.release(other)
  await space.claim(one, tmpdir(), most)
  // What is claimed again takes the place of what was claimed before.
  await space.claim(one, tmpdir(), most)
})

test('room that others take during the download stops it before the volume is full, and the rest follows when they leave', async ({
  skip,
}) => {
  await using volume = await smallVolume('128m', skip)
  const { url, content } = await server.serve('/x.gguf', { ...plain, sizeBytes: 80 * MiB })
  const [partialPath, others] = [join(volume.path, 'x.partial'), join(volume.path, 'others')]
  const options = { partialPath, space: new DiskSpace({ reserveBytes: 0 }), connections: 1 }
  const takeRoom = (): void => {
    if (!existsSync(others)) writeFileSync(others, Buffer.alloc(60 * MiB))
  }
  const failed = await failureOf(room.fetch({ url }, { ...options, onProgress: takeRoom }))
  const { bavail, bsize } = await statfs(volume.path)
  await rm(others)
  const file = await room.fetch({ url }, options)
  const ranges = (await server.requests()).map(({ range }) => range)
  expect({ ...failed, isFull: bavail * bsize < 4 * MiB, sha256: file.sha256, ranges }).toMatchObject({
    reason: 'DiskFull',
    message: expect.stringMatching(/^The model needs \S+ MB and 0 B stay in reserve, but the volume of /) as unknown,
    isFull: false,
    sha256: content.sha256(),
    ranges: [
      'bytes=0-67108863',
      expect.stringMatching(/^bytes=3\d{7}-67108863$/) as unknown,
      'bytes=67108864-83886079',
    ],
  })
})

test('a file of unknown size stops before it reaches into the reserve, and follows when there is room', async ({
  skip,
}) => {
  await using volume = await smallVolume('64m', skip)
  const { url, content } = await server.serve('/x.gguf', {
    ...plain,
    sizeBytes: 60 * MiB,
    chunked: true,
    ranges: false,
  })
  const partialPath = join(volume.path, 'x.partial')
  const options = { partialPath, space: new DiskSpace({ reserveBytes: 40 * MiB }) }
  const failed = await failureOf(room.fetch({ url }, options))
  await execa('mount', ['-o', 'remount,size=256m', volume.path])
  const file = await room.fetch({ url }, options)
  expect({ ...failed, sha256: file.sha256 }).toMatchObject({
    reason: 'DiskFull',
    message: expect.stringMatching(/ and 41\.9 MB stay in reserve, /) as unknown,
    sha256: content.sha256(),
  })
})

test('a write that fails is named, and what was written before it is continued', async () => {
  const { url, content } = await server.serve('/x.gguf', plain)
  const probe = await open(join(room.dir, 'probe'), 'w')
  const prototype = Object.getPrototypeOf(probe) as {
    write: (this: FileHandle, ...args: unknown[]) => Promise<unknown>
  }
  await probe.close()
  const { write } = prototype
  let writes = 0
  vi.spyOn(prototype, 'write').mockImplementation(function (this: FileHandle, ...args) {
    writes += 1
    if (writes !== 5) return write.apply(this, args)
    return Promise.reject(Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' }))
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
