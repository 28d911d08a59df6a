import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  ContentFetches,
  type Content,
  type ContentFetchesOptions,
} from '../../../src/agent-core/models/content-fetches.ts'
import { DiskSpace } from '../../../src/agent-core/models/download/limits.ts'
import { eventually } from '../../support/eventually.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const sha256 = 'a'.repeat(64)
const wanted = {
  ...{ url: 'http://model.example/x.gguf', fileName: 'x.gguf', sizeBytes: 5, sha256 },
  ...{ owner: '', isVouchedFor: true },
}

let folder: Awaited<ReturnType<typeof temporaryFolder>>
let partials: string
beforeEach(async () => {
  folder = await temporaryFolder()
  partials = join(folder.dir, 'partials')
  await mkdir(partials)
})
afterEach(() => folder[Symbol.asyncDispose]())

/** Downloads end when the test says so, whatever their signals say: as those that are past the last look at one. */
function fetches() {
  const begun: (() => void)[] = []
  const download: ContentFetchesOptions['remote']['download'] = async (_, { partialPath }) => {
    const end = Promise.withResolvers<undefined>()
    begun.push(() => end.resolve(undefined))
    await end.promise
    await writeFile(partialPath, 'bytes')
    return { sizeBytes: 5, sha256 }
  }
  const contents = new ContentFetches({
    inventory: { partialsFolder: () => Promise.resolve(partials) },
    remote: { download, space: new DiskSpace() },
  })
  const get = (signal = new AbortController().signal): Promise<Content> =>
    contents.get(wanted, { model: 'tiny', signal, onProgress: () => undefined })
  return { begun, contents, get }
}

test('what its last caller left at the very end of the download is there for the next', async () => {
  const { begun, contents, get } = fetches()
  const leaving = new AbortController()
  const left = get(leaving.signal)
  await eventually(() => begun.length === 1)
  leaving.abort(new Error('no longer wanted'))
  begun[0]?.()
  await expect(left).rejects.toThrow('no longer wanted')
  const content = await get()
  await content.moveTo(join(folder.dir, 'x.gguf'))
  await content.release({ isStored: false })
  expect([begun.length, await readFile(join(folder.dir, 'x.gguf'), 'utf8'), await readdir(partials)]).toEqual([
    1,
    'bytes',
    [],
  ])
  expect([...contents.active]).toEqual([])
})

test('who waits for the end of an earlier download of it can leave', async () => {
  const { begun, get } = fetches()
  const [first, second] = [new AbortController(), new AbortController()]
  const left = get(first.signal)
  await eventually(() => begun.length === 1)
  first.abort(new Error('the first left'))
  const waiting = get(second.signal)
  second.abort(new Error('the second left'))
  await expect(waiting).rejects.toThrow('the second left')
  begun[0]?.()
  await expect(left).rejects.toThrow('the first left')
})

test('a record that cannot be removed keeps nobody from the same content', async () => {
  const { begun, get } = fetches()
  const first = get()
  await eventually(() => begun.length === 1)
  begun[0]?.()
  const content = await first
  await content.moveTo(join(folder.dir, 'x.gguf'))
  const [name = ''] = await readdir(partials)
  const note = join(partials, name)
  await rm(note)
  await mkdir(note)
  await expect(content.release({ isStored: false })).rejects.toThrow(/note\.json/)
  await rm(note, { recursive: true })
  const again = get()
  await eventually(() => begun.length === 2)
  begun[1]?.()
  await (await again).release({ isStored: false })
})

test('what two models moved away at the same time is not kept a third time', async () => {
  const { begun, contents, get } = fetches()
  const both = [get(), get()]
  await eventually(() => begun.length === 1)
  begun[0]?.()
  const held = await Promise.all(both)
  await Promise.all(held.map((content, at) => content.moveTo(join(folder.dir, `${at}.gguf`))))
  await Promise.all(held.map((content) => content.release({ isStored: false })))
  const placed = await Promise.all([0, 1].map((at) => readFile(join(folder.dir, `${at}.gguf`), 'utf8')))
  expect([await readdir(partials), placed, [...contents.active]]).toEqual([[], ['bytes', 'bytes'], []])
})

test('who comes while the rest of a moved download is removed waits for that and fetches it once more', async () => {
  const { begun, get } = fetches()
  const both = [get(), get()]
  await eventually(() => begun.length === 1)
  begun[0]?.()
  const held = await Promise.all(both)
  for (const [at, content] of held.entries()) await content.moveTo(join(folder.dir, `${at}.gguf`))
  const released = Promise.all(held.map((content) => content.release({ isStored: false })))
  const third = get()
  await released
  await eventually(() => begun.length === 2)
  begun[1]?.()
  const content = await third
  await content.moveTo(join(folder.dir, 'third.gguf'))
  await content.release({ isStored: false })
  expect([await readFile(join(folder.dir, 'third.gguf'), 'utf8'), await readdir(partials)]).toEqual(['bytes', []])
})
