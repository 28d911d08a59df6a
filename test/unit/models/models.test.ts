import { createHash } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { LocalModel, ModelRequest } from '../../../src/agent-core/models/models.ts'
import { eventually } from '../../support/eventually.ts'
import type { ServedFile } from '../../support/file-server.ts'
import { failure, filesBelow, gguf, request, startWorld, staying, type World } from './world.ts'

let world: World
let file: ServedFile
beforeEach(async () => {
  world = await startWorld()
  file = world.server.serve('/x.gguf', gguf('A', 200_000), { paced: true })
})
afterEach(async () => world[Symbol.asyncDispose]())

/** A caller of `ensure` that can leave, and what it was told. */
function caller(
  who = 'somebody',
  wanted: Partial<ModelRequest> = {},
): { leave: () => void; done: Promise<unknown>; seen: () => number | undefined } {
  const leaving = new AbortController()
  let bytes: number | undefined
  const done = world.models
    .ensure(
      { ...request(file.url), ...wanted },
      {
        signal: leaving.signal,
        onProgress: ({ doneBytes }) => {
          bytes = doneBytes
        },
      },
    )
    .catch((error: unknown) => error)
  return { leave: () => leaving.abort(new Error(`${who} left`)), done, seen: () => bytes }
}

test('callers of the same model and source share one download, its progress and its file', async () => {
  const first = caller('one')
  file.allow(100_000)
  await eventually(() => first.seen() === 100_000)
  const second = caller('two')
  const seenAtOnce = second.seen()
  file.allow(100_000)
  const [a, b] = await Promise.all([first.done, second.done])
  expect({
    seenAtOnce,
    a,
    same: a === b,
    requests: file.requests.length,
    files: await filesBelow(world.store),
  }).toMatchObject({
    seenAtOnce: 100_000,
    a: { sizeBytes: 200_000 },
    same: true,
    requests: 1,
    files: { '@/tiny/x.gguf': 'AAAAAAAA' },
  })
})

test('a caller that leaves is let go at once while the others go on', async () => {
  const [first, second] = [caller('one'), caller('two')]
  await eventually(() => file.openResponses === 1)
  first.leave()
  const left = await first.done
  file.allow(200_000)
  expect([left, await second.done, file.requests.length]).toMatchObject([
    new Error('one left'),
    { sizeBytes: 200_000 },
    1,
  ])
})

test('when the last caller leaves the download ends, and what has arrived is kept for the next', async () => {
  // The server gives no validator: only by its checksum is it known to be the same file the next time.
  const wanted = { sha256: createHash('sha256').update(gguf('A', 200_000)).digest('hex') }
  const callers = [caller('one', wanted), caller('two', wanted)]
  file.allow(100_000)
  await eventually(() => callers[0]?.seen() === 100_000)
  for (const { leave } of callers) leave()
  const left = await Promise.all(callers.map(({ done }) => done))
  await eventually(() => file.openResponses === 0 && world.models.state().fetches.length === 0)
  const kept = (await world.models.view()).models
  const again = caller('default', wanted)
  file.allow(200_000)
  expect([left, kept, await again.done]).toMatchObject([
    [new Error('one left'), new Error('two left')],
    [{ name: 'tiny', state: 'partial' }],
    { sizeBytes: 200_000 },
  ])
})

test('a caller that comes while a cancelled download is cleaned up gets a fresh one', async () => {
  const first = caller('one')
  file.allow(100_000)
  await eventually(() => first.seen() === 100_000)
  first.leave()
  const left = await first.done
  const second = caller('two')
  file.allow(100_000)
  expect([left, await second.done, file.requests.length]).toMatchObject([
    new Error('one left'),
    { sizeBytes: 200_000 },
    2,
  ])
})

test('a caller that left before it came starts nothing', async () => {
  const signal = AbortSignal.abort(new Error('gone'))
  await expect(world.models.ensure(request(file.url), { signal })).rejects.toThrow('gone')
  expect([world.models.state().fetches, file.requests]).toEqual([[], []])
})

test('stopping ends downloads and starts no more', async () => {
  const running = caller()
  file.allow(100_000)
  await eventually(() => running.seen() === 100_000)
  await world.models.stop()
  expect({
    running: await running.done,
    later: await failure(world.models.ensure(request(file.url), staying())),
    files: await filesBelow(world.store),
  }).toMatchObject({ running: { reason: 'ShuttingDown' }, later: { reason: 'ShuttingDown' }, files: {} })
})

test('a source of another kind waits for a change of the Model', async () => {
  expect(await failure(world.models.ensure(request('pvc://claim/x.gguf'), staying()))).toMatchObject({
    kind: 'terminal',
    reason: 'UnsupportedSource',
  })
})

test('what a person pulled is shown for a minute after its end, and what failed for ten', async () => {
  let at = 0
  const models = world.restarted({ now: () => at })
  const { url } = world.server.serve('/y.gguf', gguf('B'))
  const begun = [models.pull({ model: 'good', source: url }), models.pull({ model: 'gone', source: `${url}.gguf` })]
  const again = models.pull({ model: 'good', source: url })
  const shown = (): string[] => models.state().downloads.map(({ name, state }) => `${name} ${state}`)
  await eventually(() => shown().join() === 'gone failed,good done')
  const later = [60_000, 60_001, 600_000, 600_001].map((ms) => {
    at = ms
    return shown()
  })
  expect([begun.map(({ started }) => started), again.started, later]).toEqual([
    [true, true],
    false,
    [['gone failed', 'good done'], ['gone failed'], ['gone failed'], []],
  ])
})

test('what is on the disk and everybody’s is told with its digest, last used first', async () => {
  const none = await world.models.onDisk()
  const other = gguf('B')
  const { url } = world.server.serve('/y.gguf', other)
  const older = caller('older', { name: 'older' })
  const others = [
    caller('newer', { name: 'newer', source: url }),
    caller('private', { name: 'private', source: `${url}?token=secret` }),
  ]
  file.allow(200_000)
  await Promise.all([older, ...others].map(({ done }) => done))
  const model = (name: string, content: Buffer) => {
    const digest = `sha256:${createHash('sha256').update(content).digest('hex')}`
    return { name, digest, sizeBytes: content.length }
  }
  const both = await world.models.onDisk()
  await rm(join(world.store, '@/newer'), { recursive: true })
  await world.models.markUsed({ ...request(file.url), name: 'older' }, (await older.done) as LocalModel)
  const used = await world.models.onDisk()
  const known = [model('older', gguf('A', 200_000)), model('newer', other)]
  expect({ none, both, used }).toEqual({
    none: [],
    both: expect.arrayContaining(known) as unknown,
    used: known.slice(0, 1),
  })
  expect(both).toHaveLength(2)
})

test('the disk of the store is told with what is free on it', async () => {
  await mkdir(world.store)
  expect(await world.models.view()).toEqual({
    ...{ directory: world.store, reserveBytes: expect.any(Number) as number, models: [] },
    freeBytes: expect.any(Number) as number,
  })
})
